//! [`IdleDetector`]: finds whether a runtime is idle, so that nothing runs in it until a clock moves or something comes
//! from outside.
//!
//! A runtime is idle if every worker is parked, no task is queued, and no thread that blocks on the runtime runs.
//! Another thread reads all this, so it may change meanwhile. But each worker counts how often it parks and unparks. If
//! a count is the same in two readings, that worker has not run between them.
//!
//! This does not see threads that are not the runtime's, other processes, and a thread that blocks on the runtime
//! before it first reads the time there. For blocking work see docs/testing.md.
//
// Invariants
// 1. A runtime is found idle only if two equal readings of the counts enclose the readings of the queue and the
//    threads. So no worker was unparked in between, and work that it was given before would still be in the queue, or
//    would have unparked it.
// 2. A parked worker may not know yet that a socket is ready. So a canary socket of our own goes round trip among the
//    runtime's sockets: once it has arrived, everything ready before it was handed out. A runtime is found idle only
//    after `ROUNDS` round trips, each of which woke only the worker that waits for sockets, and that once.
// 3. The threads of blocking work are read before and after all that. If none has run in between, none has woken
//    anything after the other readings, and nothing has given it work before them.

#[cfg(unix)]
mod canary;
#[cfg_attr(not(target_os = "linux"), path = "no_pool.rs")]
mod pool;
mod root;
#[cfg(target_os = "linux")]
mod system;
mod threads;
mod watch;

use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};

#[cfg(unix)]
use canary::Canary;
use pool::{Occupied, Pool};
pub(crate) use root::Root;
#[cfg(target_os = "linux")]
use system::{On, Thread};
use threads::Threads;
pub(crate) use watch::{Held, Holder, Settling, Watch};

use crate::core::registry;
use crate::util::waits;

/// How many round trips the canary makes. One is enough unless a worker is about to wait for sockets, already counts as
/// parked, and was interrupted by the system there: it handles canary and socket in one step. To be missed, a socket
/// would need that each time.
const ROUNDS: u32 = 2;

/// How long a worker may take to receive the canary and park again, before the look is abandoned.
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// Watches one runtime.
struct IdleDetector {
    runtime: Handle,
    metrics: RuntimeMetrics,
    #[cfg(unix)]
    canary: Option<Canary>,
    pool: Pool,
    /// A thread that did blocking work at the last look.
    blocking: Option<u32>,
    /// How far each worker had come at the last look, and since when it has not gone on.
    workers: Vec<(Progress, Instant)>,
    /// The thread that runs the tasks of a current-thread runtime, if the system says what it does.
    #[cfg(target_os = "linux")]
    runs_on: Option<Thread>,
}

/// How often a worker has parked and unparked, and how long it was busy before it last returned to the runtime, which it
/// does after some dozens of tasks at most.
type Progress = (u64, Duration);

/// A task of ours on the pool of a runtime, which ends when this is dropped.
#[allow(dead_code)] // What is in it only has to live.
enum BlockingTask {
    /// On a known thread, and not counted as work.
    Known(Occupied),
    /// The system does not show blocking work.
    Unseen(mpsc::Sender<()>),
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
        let metrics = runtime.metrics();
        let workers = 0..metrics.num_workers();
        IdleDetector {
            runtime: runtime.clone(),
            workers: workers.map(|worker| (progress(&metrics, worker), Instant::now())).collect(),
            metrics,
            #[cfg(unix)]
            canary: Canary::new(runtime),
            pool: Pool::of(runtime),
            blocking: None,
            #[cfg(target_os = "linux")]
            runs_on: None,
        }
    }

    /// The calling thread runs the tasks of this runtime, a current-thread one.
    fn runs_here(&mut self) {
        #[cfg(target_os = "linux")]
        if self.runs_on.as_ref().is_none_or(|thread| thread.number() != system::current_number()) {
            self.runs_on = Thread::current();
        }
    }

    /// Whether a current-thread runtime is idle. Asked on a thread of its pool, which does not count as working.
    ///
    /// There is no round trip if the system says that the runtime's one thread waits for sockets: none is ready then.
    fn has_come_to_rest(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(thread) = &mut self.runs_on {
            let has_sockets = self.canary.is_some();
            let waits = |thread: &mut Thread| match thread.wait() {
                Ok(wait) => wait.is_some_and(|wait| !has_sockets || wait.on == On::Files),
                Err(_) => false,
            };
            let threads = Threads::default();
            if !waits(thread) || self.pool.is_busy() {
                return false;
            }
            let Some(steps) = self.rests(&threads) else { return false };
            let waits = self.runs_on.as_mut().is_some_and(waits);
            return waits && self.rests(&threads) == Some(steps) && !self.pool.has_run();
        }
        self.is_idle(&Threads::default())
    }

    /// Whether the runtime is idle, and none of its `threads` runs.
    fn is_idle(&mut self, threads: &Threads) -> bool {
        self.blocking = None;
        if self.steps().is_none() {
            return false;
        }
        // Enclose all the rest: blocking work may wake a thread that blocks on the runtime, or be spawned by one.
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

    /// Begins a blocking task.
    fn block(&mut self) -> BlockingTask {
        if let Some(occupied) = self.pool.occupy() {
            return BlockingTask::Known(occupied);
        }
        let (sender, gone) = mpsc::channel();
        self.runtime.spawn_blocking(move || gone.recv());
        BlockingTask::Unseen(sender)
    }

    /// The number of a thread that did blocking work at the last look.
    fn blocking_thread(&self) -> Option<u32> {
        self.blocking
    }

    /// How often workers parked and unparked so far; `None` if there is anything to do.
    fn rests(&self, threads: &Threads) -> Option<u64> {
        let steps = self.steps()?;
        // The threads first: what one queued before it waited is still in the queue, or a worker has it.
        let rests = !threads.any_runs() && self.metrics.global_queue_depth() == 0 && self.steps() == Some(steps);
        rests.then_some(steps)
    }

    /// How often workers parked and unparked so far; `None` if one is not parked.
    fn steps(&self) -> Option<u64> {
        (0..self.metrics.num_workers()).map(|worker| waits::while_parked(&self.metrics, worker)).sum()
    }

    /// Makes the runtime handle all sockets that are ready and all timers that are due. Returns `None` if there was one.
    fn flush(&mut self, threads: &Threads, before: u64) -> Option<u64> {
        let start = Instant::now();
        if !self.round_trip()? {
            return Some(before);
        }
        // That unparks one worker, the one that waits for sockets, which then parks again.
        let after = before + 2;
        let parked = loop {
            match self.rests(threads) {
                Some(steps) if steps >= after => break steps,
                _ if start.elapsed() > LONGEST_LOOK => return None,
                _ => std::thread::yield_now(),
            }
        };
        // Wait, in case a socket was handled along with the canary: the worker that handles it may count as parked for
        // a part of the time that the round trip took.
        let took = start.elapsed();
        while start.elapsed() < 2 * took {
            std::thread::yield_now();
        }
        (parked == after && self.rests(threads) == Some(after)).then_some(after)
    }

    /// Sends something through the runtime. Returns `false` if there is no way for it, and `None` if it has not come
    /// back in time.
    fn round_trip(&mut self) -> Option<bool> {
        #[cfg(unix)]
        if let Some(canary) = &mut self.canary {
            return canary.round_trip().then_some(true);
        }
        // Workers of a runtime without sockets have nothing to look at, but for the one that also fires timers.
        if self.runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return Some(false);
        }
        let (sender, came) = mpsc::channel();
        registry::spawn(&self.runtime, "hairspring clock", async move {
            let _ = sender.send(());
        });
        came.recv_timeout(LONGEST_LOOK).is_ok().then_some(true)
    }

    /// When a worker last went on, as far as looks have shown.
    fn went_on_at(&mut self) -> Option<Instant> {
        for (worker, (before, at)) in self.workers.iter_mut().enumerate() {
            let now = progress(&self.metrics, worker);
            if now != *before {
                (*before, *at) = (now, Instant::now());
            }
        }
        self.workers.iter().map(|(_, at)| *at).max()
    }

    /// Looks what the threads do that are not workers.
    fn look_at_threads(&mut self, threads: &Threads) {
        self.pool.is_busy();
        self.blocking = self.pool.member_works();
        threads.any_runs();
    }

    /// What the runtime does, as far as looks have shown. A task that has not returned for `long` blocks its worker.
    fn describe(&mut self, threads: &Threads, root_runs: bool, long: Duration) -> Option<String> {
        self.went_on_at();
        let runs = |worker: &usize| waits::while_parked(&self.metrics, *worker).is_none();
        let run: Vec<usize> = (0..self.metrics.num_workers()).filter(runs).collect();
        let blocked: Vec<usize> = run.iter().copied().filter(|&at| self.workers[at].1.elapsed() >= long).collect();
        if !blocked.is_empty() {
            return Some(format!("a task blocks worker {}", list(&blocked)));
        }
        if !run.is_empty() {
            return Some(format!("a task runs on worker {}", list(&run)));
        }
        let queued = self.metrics.global_queue_depth();
        if queued > 0 {
            return Some(format!("{queued} tasks are ready to run"));
        }
        if let Some(thread) = self.blocking {
            return Some(format!("blocking work runs on thread {thread} of this process"));
        }
        let runs = root_runs || threads.any_runs();
        runs.then(|| "a thread that blocks on the runtime runs its own future".into())
    }
}

/// How often a worker has parked and unparked, and for how long it was busy before it last returned to the runtime. Both
/// are zero if tokio does not count.
fn progress(metrics: &RuntimeMetrics, worker: usize) -> Progress {
    #[cfg(target_has_atomic = "64")]
    return (waits::parks(metrics, worker), metrics.worker_total_busy_duration(worker));
    #[cfg(not(target_has_atomic = "64"))]
    (waits::parks(metrics, worker), Duration::ZERO)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
