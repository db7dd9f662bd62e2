//! [`Activity`] finds out whether a runtime is idle: nothing runs in it until a clock moves or something arrives from outside.
//!
//! A runtime is idle if every worker is parked and no task is queued; in a bubble, also if its own future waits and no
//! blocking work runs. This may change while another thread reads it. But each worker counts how often it parks and
//! unparks: if a count is the same in two readings, that worker has not run in between.
//
// Invariants
// 1. A runtime is found idle only if two equal readings of the counts enclose the readings of the queue and of the
//    blocking work. No worker was unparked in between, and earlier work would still be queued, or would have unparked a
//    worker.
// 2. A parked worker may not know yet that a socket is ready. So all workers are called together: the one that waits for
//    sockets handles those that are ready before it comes.
// 3. Blocking work is checked before the calls, because it may send to a socket, and after them, because a task that
//    ran along with a call may have started some.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics};

use crate::core::tasks;
use crate::test_util::lock;
use crate::test_util::own_runtime::{MAX_READING, OwnRuntime};
use crate::util::waits;

/// How often in a row all workers must have run nothing but the call. Once is not enough if a worker that is about to wait
/// for sockets, and already counts as parked, is preempted there: it then handles the call and a socket in one step.
const ROUNDS: u32 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steps {
    /// How often workers parked and unparked, and how often the bubble's future began to run.
    count: u64,
    /// Whether all are parked or wait.
    pub(super) all_rest: bool,
}

pub(super) struct Activity {
    pub(super) runtime: Handle,
    metrics: RuntimeMetrics,
    /// `Some` in a bubble.
    pub(super) own: Option<Arc<OwnRuntime>>,
    /// How many of the runtime's blocking tasks are this crate's.
    pub(super) our_work: AtomicUsize,
}

impl Activity {
    /// Panics if the CPU has no 64-bit atomics: tokio counts nothing there.
    #[allow(clippy::assertions_on_constants)] // Not the same on every CPU.
    pub(super) fn of(runtime: &Handle, own: Option<Arc<OwnRuntime>>) -> Activity {
        assert!(waits::PARKS_ARE_COUNTED, "cannot tell whether a runtime is idle: this CPU has no 64-bit atomics");
        Activity { runtime: runtime.clone(), metrics: runtime.metrics(), own, our_work: AtomicUsize::new(0) }
    }

    pub(super) fn is_one_thread(&self) -> bool {
        self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// Wakes a worker.
    pub(super) fn call(&self) {
        tasks::spawn(&self.runtime, "hairspring clock", async {});
    }

    /// Waits until the worker of a current-thread runtime, if that is parked, has gone round once, or `has_ended`.
    pub(super) fn goes_round(&self, has_ended: impl Fn() -> bool) {
        let parked = || waits::while_parked(&self.metrics, 0);
        let before = parked();
        if before.is_some() {
            self.call();
            wait_until(Duration::MAX, || parked() != before || has_ended());
        }
    }

    pub(super) fn steps(&self) -> Steps {
        let own = self.own.as_ref().map_or(Some(0), |own| own.waits());
        let others = Steps { count: own.unwrap_or(0), all_rest: own.is_some() };
        self.parks().fold(others, |steps, count| Steps {
            count: steps.count + count,
            all_rest: steps.all_rest && count % 2 == 1,
        })
    }

    fn parks(&self) -> impl Iterator<Item = u64> {
        (0..self.metrics.num_workers()).map(|worker| waits::parks(&self.metrics, worker))
    }

    /// Whether the runtime is idle, and nothing has run since it took these steps.
    pub(super) fn is_idle(&self, since: Steps) -> bool {
        let reads = || {
            let before = self.probe(self.rests().filter(|&count| count == since.count)?)?;
            let called = (0..ROUNDS).try_fold(before, |count, _| self.call_all(count))?;
            self.probe(called)
        };
        reads().is_some()
    }

    /// The count of what has run so far; `None` if there is work.
    fn rests(&self) -> Option<u64> {
        let steps = self.steps();
        let rests = steps.all_rest && self.metrics.global_queue_depth() == 0 && self.steps() == steps;
        rests.then_some(steps.count)
    }

    /// Returns `None` if blocking work runs in a bubble, or has ended since the count was `before`.
    fn probe(&self, before: u64) -> Option<u64> {
        let Some(own) = &self.own else { return Some(before) };
        if !self.has_no_work(own) {
            return None;
        }
        // The end of blocking work unparks the thread of a current-thread runtime.
        let expected = if self.is_one_thread() { before + 2 } else { before };
        self.rests_at(expected).filter(|&count| count == expected)
    }

    fn has_no_work(&self, own: &OwnRuntime) -> bool {
        let ours = self.our_work.load(SeqCst);
        own.threads.have_no_work(&self.runtime, ours) && self.our_work.load(SeqCst) == ours
    }

    /// Makes all workers run a task at the same time, so that the runtime has handled all sockets that were ready. Returns
    /// the new count, or `None` if anything else ran.
    ///
    /// A worker that finds a task first wakes another to look for more. That one looks in vain if it comes before the next
    /// call, and not if it comes later. So it is waited for: then the count tells what ran, however the threads run.
    fn call_all(&self, before: u64) -> Option<u64> {
        let gate = Arc::<Mutex<()>>::default();
        let closed = lock(&gate);
        let (sender, calls) = mpsc::channel();
        let workers = self.metrics.num_workers();
        let mut expected = before;
        for called in 1..=workers {
            let (gate, sender) = (gate.clone(), sender.clone());
            tasks::spawn(&self.runtime, "hairspring clock", async move {
                let _ = sender.send(());
                drop(lock(&gate));
            });
            calls.recv_timeout(MAX_READING).ok()?;
            expected += if called < workers { 3 } else { 1 };
            wait_until(MAX_READING, || self.steps().count >= expected);
        }
        drop(closed);
        expected += workers as u64;
        self.rests_at(expected).filter(|&count| count == expected)
    }

    /// Waits until the runtime rests at a count of `at_least`.
    fn rests_at(&self, at_least: u64) -> Option<u64> {
        let mut rests = None;
        wait_until(MAX_READING, || {
            rests = self.rests().filter(|&count| count >= at_least);
            rests.is_some()
        });
        rests
    }

    /// Describes visible work in the runtime; `None` if there is none.
    pub(super) fn describe(&self) -> Option<String> {
        let runs = self.parks().enumerate().filter(|(_, parks)| parks % 2 == 0).map(|(worker, _)| worker.to_string());
        let runs = runs.collect::<Vec<_>>().join(", ");
        Some(match (self.metrics.global_queue_depth(), &self.own) {
            _ if !runs.is_empty() => format!("a task is running on worker {runs} or blocking it"),
            (queued @ 1.., _) => format!("{queued} tasks are ready to run"),
            (0, Some(own)) if own.waits().is_none() => "the bubble's future is running".into(),
            (0, Some(own)) if !self.has_no_work(own) => "blocking work is running".into(),
            _ => return None,
        })
    }
}

/// Waits until `is_so`, for at most `longest`.
pub(super) fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let (start, nap) = (Instant::now(), Nap::new());
    while !is_so() && start.elapsed() < longest {
        nap.take(thread::sleep);
    }
}

/// Rests between checks, longer and longer.
pub(super) struct Nap {
    looking_since: Instant,
}

impl Nap {
    /// How long to spin. Yielding instead would give a busy machine a whole time slice.
    const EAGER: Duration = Duration::from_micros(50);
    pub(super) const LONGEST: Duration = Duration::from_millis(1);

    pub(super) fn new() -> Nap {
        Nap { looking_since: Instant::now() }
    }

    pub(super) fn take(&self, rest: fn(Duration)) {
        let looking = self.looking_since.elapsed();
        if looking < Nap::EAGER {
            std::hint::spin_loop();
        } else {
            rest((looking / 4).min(Nap::LONGEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use tokio::runtime::Builder;

    use super::*;

    /// A bug that this crate had: a worker that looked for work in vain passed for one that ran. With one CPU, where a woken
    /// thread runs at once, each check took hundreds of rounds, and half were given up.
    #[test]
    #[cfg_attr(not(target_os = "linux"), ignore = "needs taskset")]
    fn an_idle_runtime_is_found_idle_on_one_cpu() {
        const INSIDE: &str = "HAIRSPRING_TEST_ON_ONE_CPU";
        if std::env::var_os(INSIDE).is_none() {
            let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
            let (_, cpus) = status.split_once("Cpus_allowed_list:").expect("it says where the process may run");
            let first: String = cpus.trim_start().chars().take_while(char::is_ascii_digit).collect();
            let mut again = Command::new("taskset");
            again.args(["--cpu-list", &first]).arg(std::env::current_exe().expect("it has a name")).env(INSIDE, "");
            let name = "test_util::idle::tests::an_idle_runtime_is_found_idle_on_one_cpu";
            return match again.args(["--exact", name]).status() {
                Ok(status) => assert!(status.success(), "{status}"),
                Err(error) => eprintln!("taskset is missing, so nothing is tested: {error}"),
            };
        }
        let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("there is room for a runtime");
        let activity = Activity::of(runtime.handle(), None);
        let is_found = |_: &i32| {
            wait_until(Duration::MAX, || activity.rests().is_some());
            activity.is_idle(activity.steps())
        };
        assert_eq!((0..200).filter(is_found).count(), 200);
    }
}
