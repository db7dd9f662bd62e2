//! Threads that block on a runtime not built by a bubble, and are not its workers; usually the one in `block_on`. After
//! `block_in_place`, a task may run on another. Once that waits for blocking work, or is a worker again, it counts no
//! longer.
//!
//! Linux says whether such a thread waits to be woken, as `block_on` does, or does anything else. On other systems
//! these threads count as waiting, and the clock moves only after a short grace.
//!
//! tokio does not report that a thread has left `block_on`. It has left if it uses the clock of another runtime or of
//! none, or if it has ended. If it waits in any other call for long, it counts as waiting.

use std::cell::RefCell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Waker};

use tokio::task::coop;

use super::Watch;
use super::thread_state::BlockedThread;
use crate::core::registry;
use crate::test_util::hold::Hold;
use crate::test_util::lock;

thread_local! {
    static BLOCKS_ON: RefCell<BlocksOn> = RefCell::default();
}

/// The runtime that the calling thread blocks on.
#[derive(Default)]
struct BlocksOn {
    watch: Weak<Watch>,
    /// The watch has a weak reference, until it forgets the thread.
    thread: Option<Arc<Mutex<BlockedThread>>>,
}

impl BlocksOn {
    fn is_known(&self, watch: &Weak<Watch>) -> bool {
        self.watch.ptr_eq(watch) && self.thread.as_ref().is_none_or(|thread| Arc::weak_count(thread) > 0)
    }
}

impl Watch {
    /// Records the runtime on which the calling thread blocks, if any. `here` watches the current runtime.
    pub(crate) fn note_this_thread(here: Option<&Arc<Watch>>) {
        let here = here.filter(|here| !here.observes_this_thread());
        let new = here.map_or_else(Weak::new, Arc::downgrade);
        let _ = BLOCKS_ON.try_with(|blocks_on| {
            if !blocks_on.borrow().is_known(&new) {
                let here = here.filter(|_| is_polled());
                let thread = here.and_then(|here| {
                    let thread = Arc::new(Mutex::new(BlockedThread::current()?));
                    lock(&here.blocked).push(Arc::downgrade(&thread));
                    Some(thread)
                });
                let watch = here.map_or_else(Weak::new, Arc::downgrade);
                let before = blocks_on.replace(BlocksOn { watch, thread });
                drop(before);
            }
            blocks_on.borrow().watch.upgrade().inspect(|watch| _ = watch.readings.fetch_add(1, SeqCst));
        });
    }

    /// Whether one of the threads visibly does anything but wait.
    pub(super) fn a_blocked_thread_runs(&self) -> bool {
        let mut one_runs = false;
        // Check each, to learn where it waits.
        lock(&self.blocked).retain(|thread| {
            let Some(thread) = thread.upgrade() else { return false };
            let mut thread = lock(&thread);
            let runs = thread.runs();
            one_runs |= runs;
            !thread.has_left
        });
        one_runs
    }

    /// Whether one of the threads was a worker before `block_in_place`. If it is one again, it notes that in a task.
    pub(super) fn a_worker_may_have_come_back(&self) -> bool {
        lock(&self.blocked).iter().filter_map(Weak::upgrade).any(|thread| lock(&thread).was_worker)
    }

    /// Workers, even the only one of a current-thread runtime, are observed by their counts, and the thread of a bubble
    /// by its future.
    fn observes_this_thread(&self) -> bool {
        self.is_one_thread() || self.own.get().is_some() || registry::runs_tasks()
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // After `block_in_place`, the thread may be no worker: only this shows that it goes on to run.
        Watch::note_this_thread(Watch::existing().as_ref());
    }
}

/// Whether the calling thread is in `block_on`, rather than having entered a runtime: only code that tokio polls has a
/// budget, and it ends.
fn is_polled() -> bool {
    /// More than the budget of a poll.
    const MANY: usize = 256;
    let mut context = Context::from_waker(Waker::noop());
    let mut taken = Vec::with_capacity(MANY);
    while coop::has_budget_remaining() && taken.len() < MANY {
        taken.push(coop::poll_proceed(&mut context));
    }
    let is_polled = taken.len() < MANY;
    // Each gives back what was left before it was taken.
    while taken.pop().is_some() {}
    is_polled
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc;

    use std::thread;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    fn blocked(watch: &Watch) -> usize {
        lock(&watch.blocked).iter().filter(|thread| thread.strong_count() > 0).count()
    }

    /// Checks until the result is `runs`: a thread takes a moment before it waits.
    fn becomes(watch: &Watch, runs: bool) -> bool {
        (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            watch.a_blocked_thread_runs() == runs
        })
    }

    /// A thread that blocks on a runtime and `does` something there. Returns the watch over the runtime.
    fn that_does(does: impl FnOnce() + Send + 'static) -> (Arc<Watch>, thread::JoinHandle<()>) {
        let (begins, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
            let watch = Watch::of(runtime.handle());
            let entered = runtime.enter();
            Watch::note_this_thread(Some(&watch));
            assert!(blocked(&watch) == 0, "it does not block");
            drop(entered);
            runtime.block_on(async {
                Watch::note_this_thread(Some(&watch));
                Watch::note_this_thread(Some(&watch));
                begins.send(watch.clone()).unwrap();
                does();
            });
        });
        (begun.recv().unwrap(), thread)
    }

    #[test]
    fn a_thread_that_waits_to_be_woken_is_distinguished_from_others() {
        if !crate::util::waits::are_known() {
            return; // Under an emulator.
        }
        let (go, wait) = mpsc::channel::<()>();
        let seen = Arc::<AtomicBool>::default();
        let (seen_elsewhere, (runs, running)) = (seen.clone(), mpsc::channel());
        let (watch, thread) = that_does(move || {
            wait.recv().unwrap();
            runs.send(()).unwrap();
            while !seen_elsewhere.load(SeqCst) {
                std::hint::spin_loop();
            }
            wait.recv().unwrap();
        });
        assert_eq!(blocked(&watch), 1);
        assert!(becomes(&watch, false), "it waits for a message");
        go.send(()).unwrap();
        running.recv().unwrap();
        assert!(watch.a_blocked_thread_runs());
        thread::sleep(Duration::from_millis(200));
        assert!(watch.a_blocked_thread_runs(), "however long");
        seen.store(true, SeqCst);
        assert!(becomes(&watch, false), "it waits again");
        go.send(()).unwrap();
        thread.join().unwrap();
        assert!(blocked(&watch) == 0, "it has ended");
    }

    #[test]
    fn only_a_polled_thread_has_a_budget_and_it_stays_the_same() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        assert!(!is_polled());
        let entered = runtime.enter();
        assert!(!is_polled());
        drop(entered);
        runtime.block_on(async {
            for spent in 0..200 {
                assert!(is_polled(), "{spent}");
                tokio::task::consume_budget().await;
            }
            tokio::task::yield_now().await;
            let mut left = Vec::new();
            while coop::has_budget_remaining() {
                assert!(is_polled());
                let part = coop::poll_proceed(&mut Context::from_waker(Waker::noop()));
                let _ = part.map(|part| part.made_progress());
                left.push(());
            }
            assert!(!left.is_empty(), "the budget of a poll");
            assert!(is_polled());
        });
    }

    #[test]
    fn a_thread_that_blocks_elsewhere_runs_at_first_and_not_for_ever() {
        if !crate::util::waits::are_known() {
            return; // Under an emulator.
        }
        let (end, ends) = std::os::unix::net::UnixStream::pair().unwrap();
        // A file is read with `read`, a socket with `recv`.
        let mut end = std::fs::File::from(std::os::fd::OwnedFd::from(end));
        let (watch, thread) = that_does(move || _ = std::io::Read::read(&mut end, &mut [0]));
        assert!(watch.a_blocked_thread_runs());
        assert!(becomes(&watch, false), "for all we know it has left");
        drop(ends);
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_that_goes_to_another_runtime_has_left() {
        let (go, wait) = mpsc::channel::<()>();
        let (left, has_left) = mpsc::channel();
        let (watch, thread) = that_does(move || {
            Watch::note_this_thread(None);
            left.send(()).unwrap();
            let _ = wait.recv();
        });
        has_left.recv().unwrap();
        assert!(blocked(&watch) == 0);
        drop(go);
        thread.join().unwrap();
    }
}
