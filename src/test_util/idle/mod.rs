//! Finds whether a runtime is idle, so that nothing runs in it until a clock moves or something comes from outside.
//!
//! A runtime is idle if every worker is parked, no task is queued, and no thread that blocks on the runtime runs.
//! Another thread reads all this, so it may change meanwhile. But each worker counts how often it parks and unparks. If
//! a count is the same in two readings, that worker has not run between them.
//!
//! In a runtime that a [bubble](crate::test_util::bubble()) has built we also see its own future and its blocking work.
//! In any other the system has to say what the thread in `block_on` does, and blocking work is not seen.
//
// Invariants
// 1. A runtime is found idle only if two equal readings of the counts enclose the readings of the queue, the threads and
//    the blocking work. So no worker was unparked in between, and work that it was given before would still be in the
//    queue, or would have unparked it.
// 2. A parked worker may not know yet that a socket is ready. So a canary socket of our own goes round trip among the
//    runtime's sockets: once it has arrived, everything ready before it was handed out. A runtime is found idle only
//    after `ROUNDS` round trips, each of which woke only the worker that waits for sockets, and that once.
// 3. Blocking work is looked for before the round trips, since it may send to a socket, and after them, since a task that
//    went unnoticed along with the canary may have begun some.

mod block_on;
mod canary;
mod own_runtime;
mod watch;

use std::sync::{MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeFlavor;

use canary::Canary;
pub(crate) use own_runtime::{OwnRuntime, OwnThreads};
pub(crate) use watch::{Time, Want, Wanted, Watch};

use crate::core::registry;
use crate::util::waits;

/// How many round trips the canary makes. One is enough unless a worker is about to wait for sockets, already counts as
/// parked, and was interrupted by the system there: it handles canary and socket in one step. To be missed, a socket
/// would need that each time.
const ROUNDS: u32 = 2;

/// How long a runtime may take to come back from a round trip, before the look is abandoned.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// What counts say of the workers of a runtime, and of the future of a bubble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// How often workers parked and unparked so far, how often the future of a bubble began to run, and how often a thread
    /// that blocks on the runtime read its clock.
    count: u64,
    /// Whether all are parked or wait.
    pub(crate) all_rest: bool,
}

/// A runtime was found idle. Nobody else looks as long as this lives.
pub(crate) struct IsIdle<'watch>(#[allow(dead_code)] MutexGuard<'watch, Option<Canary>>);

impl Watch {
    /// What has run so far: the workers, and the future of a bubble, which runs on a thread of its own if there are some.
    pub(crate) fn steps(&self) -> Steps {
        let own = self.own().map_or(Some(0), |own| own.waits());
        let others = Steps { count: own.unwrap_or(0) + self.blocking.readings(), all_rest: own.is_some() };
        self.parks().fold(others, |steps, count| Steps {
            count: steps.count + count,
            all_rest: steps.all_rest && count % 2 == 1,
        })
    }

    /// How often each worker parked and unparked so far.
    fn parks(&self) -> impl Iterator<Item = u64> {
        (0..self.metrics.num_workers()).map(|worker| waits::parks(&self.metrics, worker))
    }

    /// Whether the runtime is idle.
    pub(crate) fn is_idle(&self) -> Option<IsIdle<'_>> {
        // Locked, since two that look would take each other's round trips for work.
        let mut canary = self.canary();
        let own = self.own();
        let threads = own.as_ref().and_then(|own| own.threads());
        let mut look = || {
            let mut count = self.rests()?;
            count = self.probe(threads, count)?;
            for _ in 0..ROUNDS {
                count = self.flush(&mut canary, count)?;
            }
            self.probe(threads, count)
        };
        look().map(|_| IsIdle(canary))
    }

    /// Returns `None` if blocking work runs in the threads of a bubble, or has ended since the count was `before`.
    fn probe(&self, threads: Option<&OwnThreads>, before: u64) -> Option<u64> {
        let Some(threads) = threads else { return Some(before) };
        let own_work = self.own_work();
        if !threads.have_no_work(&self.runtime, own_work) || self.own_work() != own_work {
            return None;
        }
        // The end of blocking work unparks the thread of a current-thread runtime.
        self.comes_to_rest(if self.is_one_thread() { before + 2 } else { before })
    }

    /// Whether this is a current-thread runtime, whose clock is tokio's.
    pub(crate) fn is_one_thread(&self) -> bool {
        self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// The count of what has run so far; `None` if there is anything to do.
    fn rests(&self) -> Option<u64> {
        let steps = self.steps();
        // The threads first: what one queued before it waited is still in the queue, or a worker has it.
        let rests = steps.all_rest
            && !self.blocking.any_runs()
            && !self.any(Want::Work)
            && self.metrics.global_queue_depth() == 0
            && self.steps() == steps;
        rests.then_some(steps.count)
    }

    /// Makes the runtime handle all sockets that are ready and all timers that are due. Returns `None` if there was one.
    fn flush(&self, canary: &mut Option<Canary>, before: u64) -> Option<u64> {
        let start = Instant::now();
        if !self.round_trip(canary)? {
            return Some(before);
        }
        // That unparks one worker, the one that waits for sockets, which then parks again.
        let after = self.comes_to_rest(before + 2)?;
        // Wait, in case a socket was handled along with the canary: the worker that handles it may count as parked for
        // a part of the time that the round trip took.
        let took = start.elapsed();
        wait_until(took, || false);
        (self.rests() == Some(after)).then_some(after)
    }

    /// Waits until the runtime rests, and returns its count if that is `expected`.
    fn comes_to_rest(&self, expected: u64) -> Option<u64> {
        let mut rests = None;
        wait_until(LONGEST_LOOK, || {
            rests = self.rests().filter(|&count| count >= expected);
            rests.is_some()
        });
        rests.filter(|&count| count == expected)
    }

    /// Sends something through the runtime. Returns `false` if there is no way for it, and `None` if it has not come
    /// back in time.
    fn round_trip(&self, canary: &mut Option<Canary>) -> Option<bool> {
        if let Some(canary) = canary {
            return canary.round_trip().then_some(true);
        }
        // Workers of a runtime without sockets have nothing to look at, but for the one that also fires timers.
        if !self.is_one_thread() {
            return Some(false);
        }
        let (sender, came) = mpsc::channel();
        registry::spawn(&self.runtime, "hairspring clock", async move {
            let _ = sender.send(());
        });
        came.recv_timeout(LONGEST_LOOK).is_ok().then_some(true)
    }

    /// What the runtime does, as far as can be seen; `None` if that is nothing.
    pub(crate) fn describe(&self) -> Option<String> {
        let runs = self.parks().enumerate().filter(|(_, parks)| parks % 2 == 0).map(|(worker, _)| worker.to_string());
        let (runs, own) = (runs.collect::<Vec<_>>().join(", "), self.own());
        let threads = own.as_ref().and_then(|own| own.threads());
        let has_no_work = |threads: &OwnThreads| threads.have_no_work(&self.runtime, self.own_work());
        Some(match self.metrics.global_queue_depth() {
            _ if !runs.is_empty() => format!("a task runs on worker {runs}, or blocks it"),
            queued @ 1.. => format!("{queued} tasks are ready to run"),
            0 if self.blocking.any_runs() => "the thread in `block_on` runs".into(),
            0 if own.as_ref().is_some_and(|own| own.waits().is_none()) => "the bubble's future runs".into(),
            0 => match self.places(Want::Work).first() {
                Some(place) => format!("blocking work runs that was begun at {place}"),
                None if threads.is_none_or(has_no_work) => return None,
                None => "blocking work runs".into(),
            },
        })
    }
}

/// Waits until `is_so`, but no longer than `longest`. Spins for a moment, then sleeps in between.
fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let (start, nap) = (Instant::now(), Nap::new());
    while !is_so() && start.elapsed() < longest {
        nap.take(thread::sleep);
    }
}

/// Rests between looks, longer and longer.
pub(crate) struct Nap {
    looking_since: Instant,
}

impl Nap {
    /// How long to look without a break. Who yields instead gives a busy machine a whole slice of time.
    const EAGER: Duration = Duration::from_micros(50);
    /// How long to sleep between looks, at most.
    const LONGEST: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Nap {
        Nap { looking_since: Instant::now() }
    }

    pub(crate) fn take(&self, rest: fn(Duration)) {
        let looking = self.looking_since.elapsed();
        if looking < Nap::EAGER {
            std::hint::spin_loop();
        } else {
            rest((looking / 4).min(Nap::LONGEST));
        }
    }
}
