//! [`IdleDetector`]: finds whether a runtime is idle, so that nothing runs in it until a clock moves or something comes
//! from outside.
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

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};

use block_on::Blocking;
use canary::Canary;
pub(crate) use own_runtime::{OwnRuntime, OwnThreads};
pub(crate) use watch::{Held, Settling, Still, Watch, remove};

use crate::core::registry;
use crate::util::waits;

/// How many round trips the canary makes. One is enough unless a worker is about to wait for sockets, already counts as
/// parked, and was interrupted by the system there: it handles canary and socket in one step. To be missed, a socket
/// would need that each time.
const ROUNDS: u32 = 2;

/// How long a runtime may take to come back from a round trip, before the look is abandoned.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

/// Watches one runtime.
struct IdleDetector {
    runtime: Handle,
    metrics: RuntimeMetrics,
    canary: Option<Canary>,
}

/// What the counts of a runtime's workers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// How often workers parked and unparked so far.
    count: u64,
    /// Whether all are parked.
    all_rest: bool,
}

impl Steps {
    pub(crate) fn all_rest(self) -> bool {
        self.all_rest
    }
}

impl IdleDetector {
    /// # Panics
    /// If the processor has no 64-bit atomics: tokio counts nothing there.
    #[allow(clippy::assertions_on_constants)] // Not the same on each processor.
    fn of(runtime: &Handle) -> IdleDetector {
        assert!(
            waits::PARKS_ARE_COUNTED,
            "whether a runtime is idle cannot be seen on this processor, which has no 64-bit atomics"
        );
        IdleDetector { runtime: runtime.clone(), metrics: runtime.metrics(), canary: Canary::new(runtime) }
    }

    fn steps(&self) -> Steps {
        let counts = (0..self.metrics.num_workers()).map(|worker| waits::parks(&self.metrics, worker));
        counts.fold(Steps { count: 0, all_rest: true }, |steps, count| Steps {
            count: steps.count + count,
            all_rest: steps.all_rest && count % 2 == 1,
        })
    }

    /// Whether the runtime is idle. Blocking work is seen by its `threads`, if we have built it.
    fn is_idle(&mut self, blocking: &Blocking, threads: Option<&OwnThreads>, own_work: usize) -> bool {
        let mut look = || {
            let mut count = self.rests(blocking)?;
            count = self.probe(blocking, threads, own_work, count)?;
            for _ in 0..ROUNDS {
                count = self.flush(blocking, count)?;
            }
            self.probe(blocking, threads, own_work, count)
        };
        look().is_some()
    }

    /// Returns `None` if blocking work runs, or has ended since the count was `before`.
    fn probe(&self, blocking: &Blocking, threads: Option<&OwnThreads>, own_work: usize, before: u64) -> Option<u64> {
        let Some(threads) = threads else { return Some(before) };
        if !threads.have_no_work(&self.runtime, own_work) {
            return None;
        }
        // The end of blocking work unparks the thread of a current-thread runtime.
        self.comes_to_rest(blocking, if self.is_one_thread() { before + 2 } else { before })
    }

    fn is_one_thread(&self) -> bool {
        self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// How often workers parked and unparked so far; `None` if there is anything to do.
    fn rests(&self, blocking: &Blocking) -> Option<u64> {
        let steps = self.steps();
        // The threads first: what one queued before it waited is still in the queue, or a worker has it.
        let rests =
            steps.all_rest && !blocking.any_runs() && self.metrics.global_queue_depth() == 0 && self.steps() == steps;
        rests.then_some(steps.count)
    }

    /// Makes the runtime handle all sockets that are ready and all timers that are due. Returns `None` if there was one.
    fn flush(&mut self, blocking: &Blocking, before: u64) -> Option<u64> {
        let start = Instant::now();
        if !self.round_trip()? {
            return Some(before);
        }
        // That unparks one worker, the one that waits for sockets, which then parks again.
        let after = self.comes_to_rest(blocking, before + 2)?;
        // Wait, in case a socket was handled along with the canary: the worker that handles it may count as parked for
        // a part of the time that the round trip took.
        let took = start.elapsed();
        wait_until(took, || false);
        (self.rests(blocking) == Some(after)).then_some(after)
    }

    /// Waits until the runtime rests, and returns its count if that is `expected`.
    fn comes_to_rest(&self, blocking: &Blocking, expected: u64) -> Option<u64> {
        let mut rests = None;
        wait_until(LONGEST_LOOK, || {
            rests = self.rests(blocking).filter(|&count| count >= expected);
            rests.is_some()
        });
        rests.filter(|&count| count == expected)
    }

    /// Sends something through the runtime. Returns `false` if there is no way for it, and `None` if it has not come
    /// back in time.
    fn round_trip(&mut self) -> Option<bool> {
        if let Some(canary) = &mut self.canary {
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

    /// What the runtime does; `None` if that is nothing.
    fn describe(&self, blocking: &Blocking) -> Option<String> {
        let runs = (0..self.metrics.num_workers()).filter(|&worker| waits::parks(&self.metrics, worker) % 2 == 0);
        let runs = runs.map(|worker| worker.to_string()).collect::<Vec<_>>().join(", ");
        if !runs.is_empty() {
            return Some(format!("a task runs on worker {runs}, or blocks it"));
        }
        let queued = self.metrics.global_queue_depth();
        if queued > 0 {
            return Some(format!("{queued} tasks are ready to run"));
        }
        blocking.any_runs().then(|| "the thread in `block_on` runs".into())
    }
}

/// Waits until `is_so`, but no longer than `longest`. Yields for a while, then sleeps in between.
fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let (start, nap) = (Instant::now(), Nap::new());
    while !is_so() && start.elapsed() < longest {
        nap.take();
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

    /// Ends early if the thread is unparked.
    pub(crate) fn take(&self) {
        let looking = self.looking_since.elapsed();
        if looking < Nap::EAGER {
            std::hint::spin_loop();
        } else {
            std::thread::park_timeout((looking / 4).min(Nap::LONGEST));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
