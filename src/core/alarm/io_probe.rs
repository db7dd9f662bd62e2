//! [`IoProbe`]: detects whether a runtime has an I/O driver. A call that needs one would panic if it is missing.
//!
//! tokio does not say. But one idle worker of a runtime waits in the runtime's driver: in `epoll_wait` if that driver
//! does I/O, and otherwise on a futex like all other idle workers. Linux reports where a thread waits, in
//! `/proc/self/task/N/syscall`. A runtime's workers are the threads that have polled the timer's driver.
//!
//! Two cases give a wrong answer if that runtime has no I/O driver: a former worker's thread is in `block_in_place` and runs
//! a runtime there that has one; or it now runs such a runtime while another thread drives this one. The call that
//! follows then panics; the panic is caught, but the process's panic hook is called. Programs that abort on panics
//! therefore do not search.
//
// Invariants
// 1. The answer is yes only if a thread that was a worker of that runtime is in `epoll_wait` while all workers are parked.
// 2. The answer is never "no": after `CHECKS` checks the search ends. Each reads one file at most.
// 3. Checks run on the alarm thread, so there is one at a time in the process, and no thread is started for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use tokio::runtime::{Handle, RuntimeMetrics};

use crate::util::{sync, waits};

/// The number of checks. The worker that waits in the driver may not be known yet at the first ones.
const CHECKS: u32 = 32;

/// Whether the search is possible. The caught panic of a wrong answer would end a program that aborts.
const CAN_BE_SEEN: bool = cfg!(all(target_os = "linux", panic = "unwind")) && waits::PARKS_ARE_COUNTED;

pub(crate) struct IoProbe {
    found: AtomicBool,
    search: Mutex<Option<Search>>,
}

struct Search {
    metrics: RuntimeMetrics,
    /// The numbers of its workers' threads. The next check considers the last.
    threads: VecDeque<u32>,
    checks: u32,
    /// How many turns to skip before the next check.
    turns_left: u32,
}

impl IoProbe {
    pub(crate) fn new() -> IoProbe {
        IoProbe { found: AtomicBool::new(false), search: Mutex::new(None) }
    }

    pub(crate) fn begin(&self, runtime: &Handle) {
        let search = Search { metrics: runtime.metrics(), threads: VecDeque::new(), checks: 0, turns_left: 0 };
        self.set(self.lock(), CAN_BE_SEEN.then_some(search), false);
    }

    pub(crate) fn forget(&self) {
        self.set(self.lock(), None, false);
    }

    pub(crate) fn found(&self) -> bool {
        self.found.load(Relaxed)
    }

    /// Notes the calling worker for later checks. For the timer's driver, a task of the runtime that holds the engine.
    pub(crate) fn note_worker(&self) {
        self.with_search(|search| {
            let thread = waits::current_number();
            if !search.threads.contains(&thread) {
                search.threads.push_front(thread);
                search.threads.truncate(search.metrics.num_workers());
            }
        });
    }

    /// Makes a check, if one is due. Call this before waking the driver for a turn: the workers that ran the tasks of
    /// the last one are mostly idle again by then.
    pub(crate) fn check_if_due(&self) {
        if self.with_search(Search::is_due) == Some(true) {
            self.check();
        }
    }

    /// Checks whether a worker waits in an I/O driver; each time, another worker.
    fn check(&self) {
        let mut search = self.lock();
        let Some(going_on) = &mut *search else { return };
        going_on.checks += 1;
        let found = going_on.one_waits_for_files();
        if found || going_on.checks == CHECKS {
            self.set(search, None, found);
        }
    }

    fn set(&self, mut search: MutexGuard<'_, Option<Search>>, next: Option<Search>, found: bool) {
        self.found.store(found, Relaxed);
        let before = std::mem::replace(&mut *search, next);
        drop(search);
        drop(before);
    }

    /// `None` if there is no search, and while the alarm thread checks, because nothing may wait for its read.
    fn with_search<T>(&self, code: impl FnOnce(&mut Search) -> T) -> Option<T> {
        self.search.try_lock().ok()?.as_mut().map(code)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Search>> {
        sync::lock(&self.search)
    }
}

impl Search {
    fn is_due(&mut self) -> bool {
        if self.turns_left > 0 {
            self.turns_left -= 1;
            return false;
        }
        // Skip twice as many turns after every third check, which spreads the checks over the first thousands of turns.
        self.turns_left = 1 << (self.checks / 3);
        true
    }

    /// Whether the next known worker waits in an I/O driver. Not unless all are parked.
    fn one_waits_for_files(&mut self) -> bool {
        let workers = 0..self.metrics.num_workers();
        let parks =
            || workers.clone().map(|worker| waits::while_parked(&self.metrics, worker)).collect::<Option<Vec<_>>>();
        let Some(before) = parks() else { return false };
        let Some(thread) = self.threads.pop_back() else { return false };
        let found = waits::is_for_files(thread) && parks().as_ref() == Some(&before);
        self.threads.push_front(thread);
        found
    }
}

#[cfg(all(test, target_os = "linux", target_has_atomic = "64"))]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Checks the workers of a runtime repeatedly, each time after one has run a task.
    fn finds_io(runtime: &Runtime, tries: u32) -> bool {
        let search = Arc::new(IoProbe::new());
        search.begin(runtime.handle());
        (0..tries).any(|_| {
            let of_task = search.clone();
            let (done, is_done) = mpsc::channel();
            runtime.spawn(async move {
                of_task.note_worker();
                done.send(()).unwrap();
            });
            is_done.recv().unwrap();
            // The worker is idle again by then.
            std::thread::sleep(Duration::from_millis(2));
            while search.with_search(Search::is_due) == Some(false) {}
            search.check();
            search.found()
        })
    }

    #[test]
    fn an_io_driver_is_found_if_there_is_one() {
        if !waits::are_known() {
            return; // Under an emulator.
        }
        let of = |workers| Builder::new_multi_thread().worker_threads(workers).enable_io().build().unwrap();
        // The worker that waits in the driver may stay unknown for a whole search.
        for workers in [1, 2] {
            let runtime = of(workers);
            while !finds_io(&runtime, CHECKS) {}
        }
    }

    #[test]
    fn no_io_driver_is_found_if_there_is_none() {
        let _other = Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        assert!(!finds_io(&runtime, 20));
    }

    /// Lets a thread drive a current-thread runtime while another checks.
    fn finds_io_on_one_thread(builder: &mut Builder, tries: u32) -> bool {
        let runtime = builder.build().unwrap();
        let (end, ends) = tokio::sync::oneshot::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| runtime.block_on(ends));
            let found = finds_io(&runtime, tries);
            end.send(()).unwrap();
            found
        })
    }

    #[test]
    fn an_io_driver_is_found_on_a_current_thread_runtime_if_there_is_one() {
        if waits::are_known() {
            while !finds_io_on_one_thread(Builder::new_current_thread().enable_io(), CHECKS) {}
        }
        assert!(!finds_io_on_one_thread(Builder::new_current_thread().enable_time(), 20));
    }

    #[test]
    fn the_search_ends_after_32_checks() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let search = Arc::new(IoProbe::new());
        search.begin(runtime.handle());
        let of_task = search.clone();
        runtime.block_on(runtime.spawn(async move { of_task.note_worker() })).unwrap();
        let (mut checks, mut turns) = (0, 0);
        while search.lock().is_some() {
            turns += 1;
            if search.with_search(Search::is_due) == Some(true) {
                search.check();
                checks += 1;
            }
        }
        assert!(search.lock().is_none() && !search.found());
        assert_eq!(checks, 32);
        assert!(turns > 500, "they are spread over {turns} turns");
    }
}
