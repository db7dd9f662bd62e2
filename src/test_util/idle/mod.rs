//! Whether a runtime is quiet: nothing in it goes on before a clock moves, or something comes from outside.
//!
//! A runtime is quiet when every worker is parked, no task is queued and no thread that blocks on the runtime runs. All
//! of it is read from a thread outside, so it may change while it is read; but each worker counts how often it parked and
//! unparked, and what has not been unparked between two readings of the counts has not run between them.
//!
//! Invariants
//! 1. Quiet is found only where two readings of the same counts enclose those of the queue and the threads. So no worker
//!    was unparked in between, and what one was given to do before would still be in the queue, or would have unparked it.
//! 2. What a socket has ready, a parked worker may not have been told of yet. So a canary of our own is rung among the
//!    runtime's sockets: when it is heard, what was ready before it has been handed out. Quiet is found where it was
//!    rung [`ROUNDS`] times and woke nobody but the worker that waits for sockets, once.
//! 3. Blocking work is asked for before and after all that. If the threads that do it have not run in between, none of
//!    them has woken anybody after that was looked at, and nobody has begun any before.
//!
//! What this does not see: threads that are not the runtime's, other processes, and a thread that blocks on the runtime
//! before it has asked for the time there. Of blocking work, see docs/testing.md.
//!
//! Must not know: clocks, timers.

#[cfg(unix)]
mod canary;
#[cfg_attr(not(target_os = "linux"), path = "no_pool.rs")]
mod pool;
#[cfg(target_os = "linux")]
mod system;
mod threads;

use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeMetrics};

#[cfg(unix)]
use canary::Canary;
use pool::Pool;
pub(crate) use threads::Threads;

/// How often the canary is rung. Once would do, but for a worker that is about to wait for sockets, counts as parked and
/// has been interrupted by the system there: it answers canary and socket with one step. That has to happen each time.
const ROUNDS: u32 = 2;

/// How long a worker may take to hear the canary and park again, before the look is given up.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Looks at one runtime.
pub(crate) struct Quiet {
    metrics: RuntimeMetrics,
    #[cfg(unix)]
    canary: Option<Canary>,
    pool: Pool,
    /// A thread on which blocking work went on when the runtime was last looked at.
    blocking: Option<u32>,
}

impl Quiet {
    pub(crate) fn of(runtime: &Handle) -> Quiet {
        Quiet {
            metrics: runtime.metrics(),
            #[cfg(unix)]
            canary: Canary::new(runtime),
            pool: Pool::of(runtime),
            blocking: None,
        }
    }

    /// Whether the runtime is quiet, and none of its `threads` runs.
    pub(crate) fn look(&mut self, threads: &Threads) -> bool {
        self.blocking = None;
        if self.steps().is_none() {
            return false;
        }
        // Around all the rest: what works there may wake a thread that blocks on the runtime, or be begun by one.
        let is_busy = self.pool.is_busy();
        self.blocking = self.pool.works();
        if is_busy {
            return false;
        }
        let Some(mut steps) = self.rests(threads) else { return false };
        for _ in 0..ROUNDS {
            let Some(after) = self.flush(threads, steps) else { return false };
            steps = after;
        }
        !self.pool.has_run()
    }

    /// The number of a thread on which blocking work went on when the runtime was last looked at.
    pub(crate) fn blocking_thread(&self) -> Option<u32> {
        self.blocking
    }

    /// How often workers parked and unparked so far, where none of them has anything to do.
    fn rests(&self, threads: &Threads) -> Option<u64> {
        let steps = self.steps()?;
        // The threads first: what one has queued before it came to wait is in the queue still, or a worker has it.
        let rests = !threads.any_runs() && self.metrics.global_queue_depth() == 0 && self.steps() == Some(steps);
        rests.then_some(steps)
    }

    /// The same, `None` where one is not parked.
    fn steps(&self) -> Option<u64> {
        let counts = (0..self.metrics.num_workers()).map(|worker| self.metrics.worker_park_unpark_count(worker));
        let mut sum = 0;
        for count in counts {
            if count % 2 == 0 {
                return None;
            }
            sum += count;
        }
        Some(sum)
    }

    /// Has what sockets have ready handed out. `None` where there was something.
    #[cfg(unix)]
    fn flush(&mut self, threads: &Threads, before: u64) -> Option<u64> {
        let Some(canary) = &mut self.canary else { return Some(before) };
        let start = Instant::now();
        if !canary.ring() {
            return None;
        }
        // The worker that waits for sockets is unparked by the canary, and parks again.
        let after = before + 2;
        let parked = loop {
            match self.rests(threads) {
                Some(steps) if steps >= after => break steps,
                _ if start.elapsed() > LONGEST_LOOK => return None,
                _ => std::thread::yield_now(),
            }
        };
        // Had a socket been answered with it, another might be by now: a worker that finds one ready counts as parked for
        // a part of the time that the canary took.
        let took = start.elapsed();
        while start.elapsed() < 2 * took {
            std::thread::yield_now();
        }
        (parked == after && self.rests(threads) == Some(after)).then_some(after)
    }

    #[cfg(not(unix))]
    fn flush(&mut self, _: &Threads, before: u64) -> Option<u64> {
        Some(before)
    }
}
