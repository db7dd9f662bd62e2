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
// 2. There is no answer "no": after some looks, nobody looks any more.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

use self::system::Workers;

/// How often to look. The worker that waits in the driver need not be among those that have run a task yet.
const LOOKS: u32 = 4096;

/// The search for one timer.
pub(crate) struct FindIo {
    /// Whether to go on.
    looks: AtomicBool,
    found: AtomicBool,
    search: Mutex<Option<Search>>,
}

struct Search {
    workers: Workers,
    looks: u32,
}

impl FindIo {
    pub(crate) fn new() -> FindIo {
        FindIo { looks: AtomicBool::new(false), found: AtomicBool::new(false), search: Mutex::new(None) }
    }

    /// Begins with a runtime.
    pub(crate) fn begin(&self, runtime: &Handle) {
        self.set(self.lock(), Workers::of(runtime).map(|workers| Search { workers, looks: 0 }), false);
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
        if self.looks.load(Relaxed) {
            if let Some(search) = &mut *self.lock() {
                search.workers.note_this();
            }
        }
    }

    /// Looks whether one of the workers waits in an I/O driver, each time at another. Called now and then.
    pub(crate) fn look(&self) {
        if !self.looks.load(Relaxed) {
            return;
        }
        let mut search = self.lock();
        let Some(Search { workers, looks }) = &mut *search else { return };
        *looks += 1;
        let found = workers.waits_for_files(*looks as usize);
        if found || *looks == LOOKS {
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

    fn lock(&self) -> MutexGuard<'_, Option<Search>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;

    use tokio::runtime::{Handle, RuntimeFlavor, RuntimeMetrics, worker_index};

    use crate::util::parks;
    use crate::util::waits::{self, On};

    pub(super) struct Workers {
        metrics: RuntimeMetrics,
        /// Whether the one worker may be another thread at each `block_on`.
        may_move: bool,
        /// Each worker's thread, as far as it is known.
        threads: Vec<Option<Thread>>,
    }

    #[derive(Clone, Copy)]
    struct Thread {
        number: u32,
        /// How often the worker had parked and unparked when it was noted.
        parks: u64,
    }

    impl Workers {
        pub(super) fn of(runtime: &Handle) -> Option<Workers> {
            let metrics = runtime.metrics();
            let threads = vec![None; metrics.num_workers()];
            let may_move = runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
            // The caught panic of a wrong answer would end a program that aborts.
            let looks = cfg!(panic = "unwind") && parks::ARE_COUNTED;
            looks.then_some(Workers { metrics, may_move, threads })
        }

        /// Notes the worker of this thread.
        pub(super) fn note_this(&mut self) {
            let Some(index) = worker_index().filter(|&index| index < self.threads.len()) else { return };
            let parks = parks::count(&self.metrics, index);
            self.threads[index] = Some(Thread { number: waits::current_number(), parks });
        }

        /// Whether the `n`th of the known workers is parked in an I/O driver.
        pub(super) fn waits_for_files(&self, n: usize) -> bool {
            let known = self.threads.iter().enumerate().filter_map(|(index, thread)| Some((index, (*thread)?)));
            let nth = known.clone().cycle().nth(n % self.threads.len());
            // Under an emulator the numbers of system calls are not those that are looked for.
            waits::are_known() && nth.is_some_and(|(index, thread)| self.is_in_driver(index, thread))
        }

        fn is_in_driver(&self, index: usize, thread: Thread) -> bool {
            let parks = parks::while_parked(&self.metrics, index);
            if parks.is_none() || (self.may_move && parks != Some(thread.parks + 1)) {
                return false;
            }
            let Ok(doing) = fs::read(waits::file_of(thread.number)) else { return false };
            let waits_for_files = waits::wait(&doing).is_some_and(|wait| wait.on == On::Files);
            waits_for_files && parks == parks::while_parked(&self.metrics, index)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use tokio::runtime::Handle;

    /// This system does not say where a thread waits.
    pub(super) enum Workers {}

    impl Workers {
        pub(super) fn of(_: &Handle) -> Option<Workers> {
            None
        }

        pub(super) fn note_this(&mut self) {
            match *self {}
        }

        pub(super) fn waits_for_files(&self, _: usize) -> bool {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux", target_has_atomic = "64"))]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

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
            std::thread::sleep(Duration::from_millis(5));
            search.look();
            search.found()
        })
    }

    #[test]
    fn an_io_driver_is_found_if_there_is_one() {
        if !crate::util::waits::are_known() {
            return; // Under an emulator.
        }
        let of = |workers| Builder::new_multi_thread().worker_threads(workers).enable_io().build().unwrap();
        assert!(finds_io(&of(1), 2_000));
        assert!(finds_io(&of(2), 2_000));
    }

    #[test]
    fn no_io_driver_is_found_if_there_is_none() {
        // Another runtime of the process has one.
        let _other = Builder::new_multi_thread().worker_threads(1).enable_io().build().unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        assert!(!finds_io(&runtime, 20));
    }

    #[test]
    fn the_search_ends() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let search = FindIo::new();
        search.begin(runtime.handle());
        (0..LOOKS).for_each(|_| search.look());
        assert!(!search.looks.load(Relaxed) && search.lock().is_none() && !search.found());
    }
}
