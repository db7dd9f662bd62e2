//! [`IoProbe`]: detects whether a runtime has an I/O driver. A call that needs one would panic if it is missing.
//!
//! tokio does not say. But one idle worker of a runtime waits in the runtime's driver: in `epoll_wait` if that driver
//! does I/O, and otherwise on a futex like all other idle workers. Linux reports where a thread waits, in
//! `/proc/self/task/N/syscall`.
//!
//! Some workers are known, as they have run one of our tasks: the timer's driver, or a task that comes to each worker
//! that first uses the timer. The one that waits in the I/O driver may have done neither. But all workers have the same
//! name, with other threads: if fewer threads of that name than there are workers may be parked elsewhere, one of the
//! workers waits for files. An idle thread of `spawn_blocking` waits with a limit, and is not parked.
//!
//! Four cases give a wrong answer if that runtime has no I/O driver: a former worker's thread is in `block_in_place`
//! and runs a runtime there that has one; it now runs such a runtime while another thread drives this one; the program
//! names the workers of each runtime differently, but as it names those of several others; or tokio's own timers wait
//! in this runtime, and all others with workers of that name have one worker. The call that follows then panics; the
//! panic is caught, but the process's panic hook is called. Programs that abort on panics therefore do not search.
//
// Invariants
// 1. The answer is yes only if all workers are parked, and meanwhile a thread that was a worker is in `epoll_wait`, or
//    of the threads with its name fewer than all workers are where they may be parked without that.
// 2. The answer is never "no". Checks become rare, and each reads a bounded number of files.
// 3. Checks run on the alarm thread, so there is one at a time in the process, and no thread is started for them. In
//    the half second after a worker is first seen some are booked, so that most programs have an answer before any
//    limit passes; later ones come with turns, so an idle program makes none.
//
// They hold because tokio counts how often each worker parks: if the counts before and after the look are equal, all
// were parked meanwhile.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::thread::{self, AlarmHandler, BookingId};
use crate::core::tasks;
use crate::util::sync;
use crate::util::waits::{self, Wait};

/// In a process with more threads, only the workers that are known are looked at.
const MOST_THREADS: usize = 256;

/// When the first check after a worker is first seen is booked. Each later one comes after twice as long.
const FIRST_CHECK: Duration = Duration::from_millis(1);

/// The number of checks that are booked then.
const BOOKED: u32 = 9;

/// The binary logarithm of how many turns a check skips at most.
const RAREST: u32 = 10;

/// Whether the search is possible. The caught panic of a wrong answer would end a program that aborts.
const CAN_BE_SEEN: bool = cfg!(all(target_os = "linux", panic = "unwind")) && waits::PARKS_ARE_COUNTED;

pub(crate) struct IoProbe {
    id: BookingId,
    found: AtomicBool,
    search: Mutex<Option<Search>>,
}

struct Search {
    workers: Workers,
    /// Wakes the driver's task.
    driver: Option<Waker>,
    /// Whether checks may be booked.
    books: bool,
    /// How many were booked since a worker was first seen.
    booked: u32,
    /// How many checks came with turns.
    checks: u32,
    /// How many turns to skip before the next check.
    turns_left: u32,
}

/// What is known of a runtime's workers.
#[derive(Clone)]
struct Workers {
    runtime: Handle,
    /// The numbers of the threads that have run one of our tasks, the last first.
    threads: VecDeque<u32>,
}

impl IoProbe {
    /// One whose bookings have this number.
    pub(crate) fn new(id: BookingId) -> IoProbe {
        IoProbe { id, found: AtomicBool::new(false), search: Mutex::new(None) }
    }

    pub(crate) fn begin(&self, runtime: &Handle) {
        self.set(self.lock(), CAN_BE_SEEN.then(|| Search::new(runtime)), false);
    }

    /// Makes no more checks of its own: in a test on a paused clock, nothing is to happen in real time.
    pub(crate) fn rest(&self) {
        self.with_search(|search| search.books = false);
        thread::cancel(self.id);
    }

    pub(crate) fn forget(&self) {
        self.rest();
        self.set(self.lock(), None, false);
    }

    pub(crate) fn found(&self) -> bool {
        self.found.load(Relaxed)
    }

    /// A thread uses the timer for the first time. If it may be a worker that is not known, a task comes to it: not the
    /// driver, which nobody could take from a worker that goes on to compute.
    pub(crate) fn thread_came(&'static self) {
        let unknown = self.with_search(|search| {
            let is_unknown = |here: &Handle| search.workers.are_of(here) && !search.workers.have_this_thread();
            Handle::try_current().ok().filter(is_unknown)
        });
        if let Some(runtime) = unknown.flatten() {
            tasks::spawn(&runtime, "hairspring worker", async { self.task_came(None) });
        }
    }

    /// The timer's driver is polled: notes the calling worker for later checks, and whom to wake with the answer.
    pub(crate) fn driver_came(&'static self, driver: &Waker) {
        self.task_came(Some(driver));
    }

    /// A whole task of the runtime is polled, which may be the driver.
    fn task_came(&'static self, driver: Option<&Waker>) {
        let noted = self.with_search(|search| {
            let before = driver.and_then(|driver| search.driver.replace(driver.clone()));
            let is_new = !search.workers.have_this_thread();
            if is_new {
                search.workers.add_this_thread();
                search.booked = 0;
            }
            (before, is_new && search.books)
        });
        if noted.is_some_and(|(_, books)| books) {
            self.book(FIRST_CHECK);
        }
    }

    /// Makes a check, if one is due. Call this before waking the driver for a turn: the workers that ran the tasks of
    /// the last one are mostly idle again by then.
    pub(crate) fn check_if_due(&self) {
        if self.with_search(Search::is_due) == Some(true) {
            self.check();
        }
    }

    /// Checks whether a worker waits in an I/O driver. Nobody waits for what this reads.
    fn check(&self) {
        let workers = self.with_search(|search| search.workers.clone());
        let Some(workers) = workers.filter(Workers::one_waits_for_files) else { return };
        let mut search = self.lock();
        let found = search.as_mut().filter(|search| search.workers.are_of(&workers.runtime));
        if let Some(driver) = found.map(|search| search.driver.take()) {
            self.set(search, None, true);
            driver.into_iter().for_each(Waker::wake);
        }
    }

    /// How many workers are known.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.lock().as_ref().map_or(0, |search| search.workers.threads.len())
    }

    fn book(&'static self, after: Duration) {
        thread::book(self.id, Instant::now() + after, self);
    }

    fn set(&self, mut search: MutexGuard<'_, Option<Search>>, next: Option<Search>, found: bool) {
        self.found.store(found, Relaxed);
        let before = std::mem::replace(&mut *search, next);
        drop(search);
        drop(before);
    }

    /// `None` if there is no search.
    fn with_search<T>(&self, code: impl FnOnce(&mut Search) -> T) -> Option<T> {
        self.lock().as_mut().map(code)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Search>> {
        sync::lock(&self.search)
    }
}

impl AlarmHandler for IoProbe {
    fn alarm(&'static self) {
        self.check();
        let next = self.with_search(|search| {
            search.booked += 1;
            (search.books && search.booked < BOOKED).then(|| FIRST_CHECK * (1 << search.booked))
        });
        next.flatten().into_iter().for_each(|after| self.book(after));
    }
}

impl Search {
    fn new(runtime: &Handle) -> Search {
        let workers = Workers { runtime: runtime.clone(), threads: VecDeque::new() };
        Search { workers, driver: None, books: true, booked: 0, checks: 0, turns_left: 0 }
    }

    fn is_due(&mut self) -> bool {
        if self.turns_left > 0 {
            self.turns_left -= 1;
            return false;
        }
        self.checks += 1;
        // Skip twice as many turns after every third check.
        self.turns_left = 1 << (self.checks / 3).min(RAREST);
        true
    }
}

impl Workers {
    fn are_of(&self, runtime: &Handle) -> bool {
        self.runtime.id() == runtime.id()
    }

    fn have_this_thread(&self) -> bool {
        self.threads.contains(&waits::current_number())
    }

    fn add_this_thread(&mut self) {
        self.threads.push_front(waits::current_number());
        self.threads.truncate(self.runtime.metrics().num_workers());
    }

    /// Whether a worker certainly waits in an I/O driver. Not unless all are parked.
    fn one_waits_for_files(&self) -> bool {
        let metrics = self.runtime.metrics();
        let workers = 0..metrics.num_workers();
        let parks = || workers.clone().map(|worker| waits::while_parked(&metrics, worker)).collect::<Option<Vec<_>>>();
        let Some(before) = parks() else { return false };
        let found =
            self.threads.iter().any(|&thread| waits::wait_of(thread) == Wait::Files) || self.few_wait_elsewhere();
        found && parks().as_ref() == Some(&before)
    }

    /// Whether fewer threads with a worker's name than there are workers may be parked elsewhere.
    fn few_wait_elsewhere(&self) -> bool {
        let workers = self.runtime.metrics().num_workers();
        if self.threads.len() == workers {
            return false;
        }
        let namesakes = self.threads.front().and_then(|&worker| waits::namesakes(worker, MOST_THREADS));
        namesakes.is_some_and(|threads| {
            let waits: Vec<_> = threads.into_iter().map(waits::wait_of).collect();
            let count = |wait| waits.iter().filter(|&&other| other == wait).count();
            waits.len() >= workers && count(Wait::Files) > 0 && count(Wait::Unknown) < workers
        })
    }
}

#[cfg(all(test, target_os = "linux", target_has_atomic = "64"))]
mod tests {
    use std::sync::mpsc;

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// A search of which no check is booked.
    fn searching(runtime: &Runtime) -> &'static IoProbe {
        let search = Box::leak(Box::new(IoProbe::new(BookingId(u64::MAX))));
        search.set(search.lock(), Some(Search::new(runtime.handle())), false);
        search
    }

    /// Checks the workers of a runtime repeatedly, each time after one has run a task.
    fn finds_io(runtime: &Runtime, tries: u32) -> bool {
        let search = searching(runtime);
        (0..tries).any(|_| {
            let (done, is_done) = mpsc::channel();
            runtime.spawn(async move {
                search.driver_came(Waker::noop());
                done.send(()).unwrap();
            });
            is_done.recv().unwrap();
            // The worker is idle again by then.
            std::thread::sleep(Duration::from_millis(2));
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
        for workers in [1, 2, 4, 8] {
            let runtime = of(workers);
            while !finds_io(&runtime, 1) {}
        }
    }

    /// One task runs now and then, so only one or two of the workers are ever known. Other threads have the same name.
    #[test]
    fn an_io_driver_is_found_though_the_worker_in_it_is_unknown() {
        if !waits::are_known() {
            return;
        }
        let _other =
            Builder::new_multi_thread().worker_threads(2).thread_name("unknown").enable_time().build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(8).thread_name("probed").enable_io().build().unwrap();
        while !finds_io(&runtime, 1) {}
    }

    /// A bug that this crate had: as long as one such thread was idle, the search mostly failed.
    #[test]
    fn an_io_driver_is_found_beside_idle_threads_for_blocking_work() {
        if !waits::are_known() {
            return;
        }
        for blocking in [1, 3] {
            let runtime =
                Builder::new_multi_thread().worker_threads(8).thread_name("beside").enable_io().build().unwrap();
            begin_blocking_threads(&runtime, blocking);
            assert!(finds_io(&runtime, 1_000));
        }
    }

    /// Lets a runtime have idle threads for blocking work.
    fn begin_blocking_threads(runtime: &Runtime, count: usize) {
        let together = std::sync::Arc::new(std::sync::Barrier::new(count));
        let works: Vec<_> = (0..count)
            .map(|_| {
                let together = together.clone();
                runtime.spawn_blocking(move || _ = together.wait())
            })
            .collect();
        for work in works {
            runtime.block_on(work).unwrap();
        }
    }

    #[test]
    fn no_io_driver_is_found_if_there_is_none() {
        let with_io = |workers| Builder::new_multi_thread().worker_threads(workers).enable_io().build().unwrap();
        for (workers, others) in [(1, vec![1]), (2, vec![1, 1, 1]), (4, vec![1, 4, 8])] {
            let _others: Vec<_> = others.into_iter().map(with_io).collect();
            let runtime = Builder::new_multi_thread().worker_threads(workers).enable_time().build().unwrap();
            assert!(!finds_io(&runtime, 20));
            begin_blocking_threads(&runtime, 2);
            assert!(!finds_io(&runtime, 20));
        }
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
            while !finds_io_on_one_thread(Builder::new_current_thread().enable_io(), 1) {}
        }
        assert!(!finds_io_on_one_thread(Builder::new_current_thread().enable_time(), 20));
    }

    #[test]
    fn checks_become_rare() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let search = searching(&runtime);
        let checks = (0..20_000).filter(|_| search.with_search(Search::is_due) == Some(true));
        assert_eq!(checks.count(), 46);
    }
}
