//! Finds out whether a runtime is idle: nothing runs in it until a clock moves or something arrives from outside.
//!
//! A runtime is idle if every worker is parked, no task is queued, and no thread that blocks on the runtime is running.
//! This may change while another thread reads it. But each worker counts how often it parks and unparks: if a count is
//! the same in two readings, that worker has not run in between.
//!
//! In the runtime of a [bubble](crate::test_util::bubble()), the bubble's own future and blocking work are visible too.
//! In others, Linux says what the thread in `block_on` is doing, and blocking work is invisible.
//
// Invariants
// 1. A runtime is found idle only if two equal readings of the counts enclose the readings of the queue, the threads
//    and the blocking work. No worker was unparked in between, and earlier work would still be queued, or would have
//    unparked a worker.
// 2. A parked worker may not know yet that a socket is ready. A canary message therefore makes a round trip through the
//    runtime's I/O driver: once it has arrived, all sockets that were ready earlier have been handled. A runtime is
//    found idle only after `ROUNDS` round trips, each of which woke only the worker that waits for sockets, and only
//    once.
// 3. Blocking work is checked before the round trips, because it may send to a socket, and after them, because a task
//    that went unnoticed along with the canary may have started some.

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

/// The number of round trips. One is not enough if a worker that is about to wait for sockets, and already counts as
/// parked, is preempted there: it then handles the canary and another socket in one step.
const ROUNDS: u32 = 2;

/// How long a round trip may take before the check is abandoned.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// How often workers parked and unparked, how often the bubble's future began to run, and how often a thread that
    /// blocks on the runtime read its clock.
    count: u64,
    /// Whether all are parked or wait.
    pub(crate) all_rest: bool,
}

/// A runtime was found idle. While this lives, no other thread checks.
pub(crate) struct IsIdle<'watch>(#[allow(dead_code)] MutexGuard<'watch, Option<Canary>>);

impl Watch {
    pub(crate) fn steps(&self) -> Steps {
        let own = self.own().map_or(Some(0), |own| own.waits());
        let others = Steps { count: own.unwrap_or(0) + self.blocking.readings(), all_rest: own.is_some() };
        self.parks().fold(others, |steps, count| Steps {
            count: steps.count + count,
            all_rest: steps.all_rest && count % 2 == 1,
        })
    }

    fn parks(&self) -> impl Iterator<Item = u64> {
        (0..self.metrics.num_workers()).map(|worker| waits::parks(&self.metrics, worker))
    }

    pub(crate) fn is_idle(&self) -> Option<IsIdle<'_>> {
        // Two concurrent checks would take each other's round trips for work.
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

    /// The count of what has run so far; `None` if there is work.
    fn rests(&self) -> Option<u64> {
        let steps = self.steps();
        // The threads first: work that one queued before it waited is still in the queue, or a worker has it.
        let rests = steps.all_rest
            && !self.blocking.any_runs()
            && !self.any(Want::Work)
            && self.metrics.global_queue_depth() == 0
            && self.steps() == steps;
        rests.then_some(steps.count)
    }

    /// Makes the runtime handle all ready sockets and due timers. Returns `None` if there were any.
    fn flush(&self, canary: &mut Option<Canary>, before: u64) -> Option<u64> {
        let start = Instant::now();
        if !self.round_trip(canary)? {
            return Some(before);
        }
        // That unparks the worker that waits for sockets, which then parks again.
        let after = self.comes_to_rest(before + 2)?;
        // A socket may have been handled along with the canary, by a worker that counted as parked for part of the
        // round trip. Wait as long again.
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

    /// Sends a message through the runtime. Returns `false` if that is impossible, and `None` if it does not arrive in
    /// time.
    fn round_trip(&self, canary: &mut Option<Canary>) -> Option<bool> {
        if let Some(canary) = canary {
            return canary.round_trip().then_some(true);
        }
        // On a runtime without sockets, only the worker that fires timers has anything to check.
        if !self.is_one_thread() {
            return Some(false);
        }
        let (sender, came) = mpsc::channel();
        registry::spawn(&self.runtime, "hairspring clock", async move {
            let _ = sender.send(());
        });
        came.recv_timeout(LONGEST_LOOK).is_ok().then_some(true)
    }

    /// Describes visible work in the runtime; `None` if there is none.
    pub(crate) fn describe(&self) -> Option<String> {
        let runs = self.parks().enumerate().filter(|(_, parks)| parks % 2 == 0).map(|(worker, _)| worker.to_string());
        let (runs, own) = (runs.collect::<Vec<_>>().join(", "), self.own());
        let threads = own.as_ref().and_then(|own| own.threads());
        let has_no_work = |threads: &OwnThreads| threads.have_no_work(&self.runtime, self.own_work());
        Some(match self.metrics.global_queue_depth() {
            _ if !runs.is_empty() => format!("a task is running on worker {runs} or blocking it"),
            queued @ 1.. => format!("{queued} tasks are ready to run"),
            0 if self.blocking.any_runs() => "the thread in `block_on` is running".into(),
            0 if own.as_ref().is_some_and(|own| own.waits().is_none()) => "the bubble's future is running".into(),
            0 => match self.places(Want::Work).first() {
                Some(place) => format!("blocking work started at {place} is running"),
                None if threads.is_none_or(has_no_work) => return None,
                None => "blocking work is running".into(),
            },
        })
    }
}

/// Waits until `is_so`, for at most `longest`.
fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let (start, nap) = (Instant::now(), Nap::new());
    while !is_so() && start.elapsed() < longest {
        nap.take(thread::sleep);
    }
}

/// Rests between checks, longer and longer.
pub(crate) struct Nap {
    looking_since: Instant,
}

impl Nap {
    /// How long to spin. Yielding instead would give a busy machine a whole time slice.
    const EAGER: Duration = Duration::from_micros(50);
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
