//! The threads that block on a runtime and so are not among its workers: the one that runs `block_on`, most often.
//!
//! On Linux the system tells whether such a thread waits to be woken, as `block_on` does, or does anything else. On
//! other systems nobody does, and the threads count as waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// Those that are looked after.
    known: Mutex<Vec<ThreadId>>,
    // Apart, as this is locked while they are asked: one that waited for it then would seem to wait to be woken.
    probes: Mutex<Vec<(ThreadId, Probe)>>,
}

impl Threads {
    /// Looks after the calling thread from now on.
    pub(crate) fn add_current(&self) {
        let id = thread::current().id();
        if !lock(&self.known).contains(&id) {
            lock(&self.probes).extend(Probe::of_current().map(|probe| (id, probe)));
            lock(&self.known).push(id);
        }
    }

    /// Whether one of the threads does anything but wait to be woken.
    pub(super) fn any_runs(&self) -> bool {
        let mut any_runs = false;
        lock(&self.probes).retain_mut(|(id, probe)| {
            let runs = probe.runs();
            any_runs |= runs == Some(true);
            // One that cannot be asked any more has ended.
            if runs.is_none() {
                lock(&self.known).retain(|known| known != id);
            }
            runs.is_some()
        });
        any_runs
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(target_os = "linux")]
use linux::Probe;
#[cfg(not(target_os = "linux"))]
use other::Probe;

#[cfg(target_os = "linux")]
mod linux {
    use std::time::{Duration, Instant};

    use super::super::system::{On, Thread};

    /// How long a thread waits in one place before that counts as waiting to be woken, the first time.
    const FIRST: Duration = Duration::from_millis(20);
    /// The same in any place that is found after the first.
    const OTHER: Duration = Duration::from_millis(500);

    /// `block_on` waits in the call that locks wait in as well, for an owner who may be interrupted for milliseconds.
    /// But it always waits at the same depth of the thread's stack, and a lock that is taken further in at another.
    #[derive(Debug)]
    pub(super) struct Probe {
        thread: Thread,
        /// The places, as addresses on the stack, that the thread is known to wait in to be woken.
        known: Vec<u64>,
        /// The place that it waited in when it was last asked, and since when.
        waits: Option<(u64, Instant)>,
    }

    impl Probe {
        /// `None` where the system does not say.
        pub(super) fn of_current() -> Option<Probe> {
            Some(Probe { thread: Thread::current()?, known: Vec::new(), waits: None })
        }

        /// Whether the thread does anything but wait to be woken; `None` where it has ended.
        pub(super) fn runs(&mut self) -> Option<bool> {
            let wait = self.thread.wait().ok()?.filter(|wait| wait.on != On::Files);
            if wait.is_none() {
                self.waits = None;
            }
            if wait.is_none_or(|wait| !self.is_known(wait.stack)) {
                return Some(true);
            }
            self.thread.is_awake()
        }

        fn is_known(&mut self, place: u64) -> bool {
            if self.known.contains(&place) {
                return true;
            }
            let since = self.waits.filter(|(known, _)| *known == place).map_or_else(Instant::now, |(_, since)| since);
            self.waits = Some((place, since));
            let is_known = since.elapsed() >= if self.known.is_empty() { FIRST } else { OTHER };
            if is_known {
                self.known.push(place);
            }
            is_known
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    /// There is none.
    #[derive(Debug)]
    pub(super) enum Probe {}

    impl Probe {
        pub(super) fn of_current() -> Option<Probe> {
            None
        }

        pub(super) fn runs(&mut self) -> Option<bool> {
            match *self {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    /// Asks until the answer is as it should be: a thread takes a moment to get where it waits.
    fn becomes(threads: &Threads, runs: bool) -> bool {
        (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            threads.any_runs() == runs
        })
    }

    #[test]
    fn a_thread_that_waits_to_be_woken_is_told_from_one_that_does_not() {
        let threads = Arc::new(Threads::default());
        let (go, wait) = mpsc::channel::<()>();
        let (sleeps, started) = mpsc::channel::<()>();
        let seen = Arc::new(AtomicBool::new(false));
        let (watched, seen_elsewhere) = (threads.clone(), seen.clone());
        let thread = thread::spawn(move || {
            watched.add_current();
            watched.add_current();
            sleeps.send(()).unwrap();
            wait.recv().unwrap();
            sleeps.send(()).unwrap();
            while !seen_elsewhere.load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            wait.recv().unwrap();
        });
        started.recv().unwrap();
        assert_eq!(threads.probes.lock().unwrap().len(), 1);
        assert!(becomes(&threads, false), "it waits for word");
        go.send(()).unwrap();
        started.recv().unwrap();
        assert!(threads.any_runs(), "it sleeps, or is about to");
        seen.store(true, SeqCst);
        assert!(becomes(&threads, false), "it waits again");
        go.send(()).unwrap();
        thread.join().unwrap();
        assert!(becomes(&threads, false) && threads.probes.lock().unwrap().is_empty(), "it has ended");
    }
}
