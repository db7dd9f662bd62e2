//! [`Threads`]: the threads that block on a runtime and are not its workers, most often the one in `block_on`.
//!
//! Linux says whether such a thread waits to be woken, as `block_on` does, or does anything else. On other systems that
//! is not known, and the threads count as waiting.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use super::lock;

#[derive(Debug, Default)]
pub(crate) struct Threads {
    /// The threads that are watched.
    known: Mutex<Vec<ThreadId>>,
    // Separate, because this is locked while they are probed: a thread that waits for this lock seems to wait to be
    // woken.
    probes: Mutex<Vec<(ThreadId, Probe)>>,
}

impl Threads {
    /// Watches the calling thread from now on.
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
            // A thread that cannot be probed any more has ended.
            if runs.is_none() {
                lock(&self.known).retain(|known| known != id);
            }
            runs.is_some()
        });
        any_runs
    }
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

    /// Tells a thread in `block_on` from one that waits for a lock, whose owner may be interrupted for milliseconds.
    /// Both wait in the same system call. But `block_on` always waits at the same depth of the stack, and a lock at
    /// another.
    #[derive(Debug)]
    pub(super) struct Probe {
        thread: Thread,
        /// The places, as addresses on the stack, in which the thread is known to wait to be woken.
        known: Vec<u64>,
        /// The place in which it waited at the last probe, and since when.
        waits: Option<(u64, Instant)>,
    }

    impl Probe {
        /// Returns `None` if the system does not say.
        pub(super) fn of_current() -> Option<Probe> {
            Some(Probe { thread: Thread::current()?, known: Vec::new(), waits: None })
        }

        /// Whether the thread does anything but wait to be woken; `None` if it has ended.
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
    /// There are no probes on this system.
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

    /// Probes until the result is `runs`: a thread takes a moment before it waits.
    fn becomes(threads: &Threads, runs: bool) -> bool {
        (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            threads.any_runs() == runs
        })
    }

    #[test]
    fn a_thread_that_waits_to_be_woken_is_distinguished_from_others() {
        if !crate::util::waits::are_known() {
            return; // Under an emulator.
        }
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
        assert!(becomes(&threads, false), "it waits for a message");
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
