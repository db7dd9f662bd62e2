//! [`FindIo`]: whether a runtime has an I/O driver, found without a call that panics if it has none.
//!
//! Tokio does not say. But one idle worker of a runtime waits in its driver: in `epoll_wait` if that has I/O, and
//! otherwise for a word in memory, as all other idle workers do. Linux says where a thread waits.
//!
//! The answer may be wrong in one case: the worker's thread is in `block_in_place` and runs another runtime there, which
//! has an I/O driver, and its own runtime has none. The call that follows then panics, and the panic is caught, though
//! the process's panic hook is called. A program that aborts on panics does not look.
//
// Invariants
// 1. The answer is yes only if a thread that last ran as a worker is in `epoll_wait` while that worker is parked.
// 2. There is no answer "no": after `LOOKS` looks, nobody looks any more. Each reads one file at most.
// 3. A thread of its own looks, after the alarm thread has woken the driver, whose turn is short. Nobody waits for that.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics, worker_index};

use crate::util::waits;

/// How often to look. The worker that waits in the driver need not be among those that have run a task yet.
const LOOKS: u32 = 32;

/// How long before a look: the turn has woken tasks, and their workers rest again by then.
const REST: Duration = Duration::from_millis(2);

/// Whether it can be found. The caught panic of a wrong answer would end a program that aborts.
const CAN_BE_SEEN: bool = cfg!(all(target_os = "linux", panic = "unwind")) && waits::PARKS_ARE_COUNTED;

/// The search for one timer.
pub(crate) struct FindIo {
    /// Whether to go on.
    looks: AtomicBool,
    found: AtomicBool,
    search: Mutex<Option<Search>>,
}

struct Search {
    metrics: RuntimeMetrics,
    /// The number of each worker's thread, as far as it is known.
    threads: Vec<Option<u32>>,
    /// At which worker to look next, or at one after it.
    next: usize,
    looks: u32,
    /// How many turns go by before the next look.
    turns_left: u32,
}

impl FindIo {
    pub(crate) fn new() -> FindIo {
        FindIo { looks: AtomicBool::new(false), found: AtomicBool::new(false), search: Mutex::new(None) }
    }

    /// Begins with a runtime, if that has workers of its own.
    pub(crate) fn begin(&self, runtime: &Handle) {
        let metrics = runtime.metrics();
        let threads = vec![None; metrics.num_workers()];
        let search = Search { metrics, threads, next: 0, looks: 0, turns_left: 0 };
        let is_possible = CAN_BE_SEEN && runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
        self.set(self.lock(), is_possible.then_some(search), false);
    }

    /// Ends the search, and forgets what was found.
    pub(crate) fn forget(&self) {
        self.set(self.lock(), None, false);
    }

    /// Whether the runtime is known to have an I/O driver.
    pub(crate) fn found(&self) -> bool {
        self.found.load(Relaxed)
    }

    /// Notes the worker on whose thread this is called, to look at while it is idle. Call this in a task that was spawned
    /// on the runtime, before it runs any code of the user's.
    pub(crate) fn note_worker(&self) {
        self.with_search(|search| {
            if let Some(thread) = worker_index().and_then(|index| search.threads.get_mut(index)) {
                *thread = Some(waits::current_number());
            }
        });
    }

    /// Whether a helper thread is to look after this wake-up.
    pub(crate) fn is_due(&self) -> bool {
        self.with_search(Search::is_due).unwrap_or(false)
    }

    /// Looks on another thread, if the system grants one. To be called when it is due.
    pub(crate) fn look_soon(&'static self) {
        let thread = std::thread::Builder::new().name("hairspring-helper".into());
        let _ = thread.spawn(|| {
            std::thread::sleep(REST);
            self.look();
        });
    }

    /// Looks whether one of the workers waits in an I/O driver, each time at another.
    fn look(&self) {
        let mut search = self.lock();
        let Some(going_on) = &mut *search else { return };
        let found = going_on.one_waits_for_files();
        if found || going_on.looks == LOOKS {
            self.set(search, None, found);
        }
    }

    fn set(&self, mut search: MutexGuard<'_, Option<Search>>, next: Option<Search>, found: bool) {
        self.looks.store(next.is_some(), Relaxed);
        self.found.store(found, Relaxed);
        let before = std::mem::replace(&mut *search, next);
        drop(search);
        drop(before);
    }

    /// `None` if there is no search, and while another thread looks: nobody waits for the read of a file.
    fn with_search<T>(&self, code: impl FnOnce(&mut Search) -> T) -> Option<T> {
        if !self.looks.load(Relaxed) {
            return None;
        }
        self.search.try_lock().ok()?.as_mut().map(code)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Search>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Search {
    fn is_due(&mut self) -> bool {
        if self.turns_left > 0 {
            self.turns_left -= 1;
            return false;
        }
        self.looks += 1;
        // Twice as many turns go by each third time, so that the looks are spread over the first thousands.
        self.turns_left = 1 << (self.looks / 3);
        true
    }

    /// Whether the next of the known workers that are parked is so in an I/O driver.
    fn one_waits_for_files(&mut self) -> bool {
        let workers = self.threads.len();
        let parks = |worker| waits::while_parked(&self.metrics, worker);
        let mut order = (self.next..self.next + workers).map(|number| number % workers);
        let next = order.find_map(|worker| Some((worker, self.threads[worker]?, parks(worker)?)));
        let Some((worker, thread, before)) = next else { return false };
        let found = waits::is_for_files(thread) && parks(worker) == Some(before);
        self.next = worker + 1;
        found
    }
}

#[cfg(all(test, target_os = "linux", target_has_atomic = "64"))]
mod tests {
    use std::sync::{Arc, mpsc};

    use tokio::runtime::{Builder, Runtime};

    use super::*;

    /// Looks at the workers of a runtime again and again, each time after one has run a task.
    fn finds_io(runtime: &Runtime, tries: u32) -> bool {
        let search = Arc::new(FindIo::new());
        search.begin(runtime.handle());
        (0..tries).any(|_| {
            let of_task = search.clone();
            let (done, is_done) = mpsc::channel();
            runtime.spawn(async move {
                of_task.note_worker();
                done.send(()).unwrap();
            });
            is_done.recv().unwrap();
            std::thread::sleep(REST);
            while !search.is_due() && search.looks.load(Relaxed) {}
            search.look();
            search.found()
        })
    }

    #[test]
    fn an_io_driver_is_found_if_there_is_one() {
        if !waits::are_known() {
            return; // Under an emulator.
        }
        let of = |workers| Builder::new_multi_thread().worker_threads(workers).enable_io().build().unwrap();
        // Of several workers the one that waits in the driver may stay unknown for a whole search, and on a busy machine
        // that is common.
        for workers in [1, 2] {
            let runtime = of(workers);
            while !finds_io(&runtime, LOOKS) {}
        }
    }

    #[test]
    fn no_io_driver_is_found_if_there_is_none() {
        // Another runtime of the process has one.
        let _other = Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        assert!(!finds_io(&runtime, 20));
    }

    /// A runtime whose one worker is idle and known.
    fn idle() -> (Runtime, Arc<FindIo>) {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let search = Arc::new(FindIo::new());
        search.begin(runtime.handle());
        let of_task = search.clone();
        runtime.block_on(runtime.spawn(async move { of_task.note_worker() })).unwrap();
        (runtime, search)
    }

    #[test]
    fn the_search_ends_after_32_looks() {
        let (_runtime, search) = idle();
        let (mut looks, mut turns) = (0, 0);
        while search.looks.load(Relaxed) {
            turns += 1;
            if search.is_due() {
                search.look();
                looks += 1;
            }
        }
        assert!(search.lock().is_none() && !search.found());
        assert_eq!(looks, 32);
        assert!(turns > 500, "they are spread over {turns} turns");
    }
}
