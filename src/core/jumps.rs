//! [`JumpListener`]: a task that waits on a clock that may jump. After a jump, all such tasks check their clocks again.
//!
//! The tasks wait on ordinary sleeps; this file knows neither deadlines nor time.
//!
//! While tasks wait, a thread watches the clocks. On Linux it sleeps on a `timerfd` that reports jumps. Where none
//! does, the thread compares the clocks once a second.
//
// Invariants
// 1. A task that checks its clock after it began to listen is woken if a clock jumps after that check, unless `listen`
//    said that the thread cannot be started.
// 2. A thread that compares the clocks ends soon after no task waits any more. One that sleeps on the file may stay: it
//    ends at the next jump.
// 3. A waker is never woken, cloned or dropped under the lock, nor on the thread that watches, unless no
//    helper thread can be started.
// 4. If jumps are reported, the file is armed before the thread starts and before it wakes tasks, and keeps a report
//    until it is armed again: no jump is missed in between.
//
// They hold because a task is listed before it checks its clock, and the file is armed before the thread looks at the
// list.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;

use tokio::runtime::{self, Handle};

use crate::clock::jumping::Offsets;
use crate::core::alarm::has_threads;
use crate::core::alarm::priority::copy_the_main_threads_priority;
use crate::core::alarm::timerfd::Timerfd;
use crate::core::helpers;
use crate::util::panics::catch_panic;
use crate::util::sync::{Counter, MODELLED, Mutex, MutexGuard, per_process, unpoisoned};

/// How often clocks are compared if the system does not report jumps.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Jumps {
    waiting: BTreeMap<u64, WaitingTask>,
    /// Whether the thread runs.
    is_watched: bool,
    /// Reports jumps to the thread. If there is none, the thread compares the clocks with `offsets`.
    file: Option<&'static Timerfd>,
    offsets: Option<Offsets>,
}

struct WaitingTask {
    /// Where the task was polled: a test may move the clocks of one runtime only.
    runtime: Option<runtime::Id>,
    /// `None` if the task was woken and not polled since.
    waker: Option<Waker>,
}

per_process! {
    fn jumps() -> &'static Mutex<Jumps> = |_| Mutex::new(Jumps::default());
}

fn lock() -> MutexGuard<'static, Jumps> {
    // Nothing that can panic runs under this lock.
    unpoisoned(jumps().lock())
}

/// Wakes the tasks that wait on the selected runtimes, one per lock hold.
pub(crate) fn wake(is_meant: impl Fn(Option<runtime::Id>) -> bool) {
    let mut from = 0;
    loop {
        let mut jumps = lock();
        let Some((&number, task)) = jumps.waiting.range_mut(from..).next() else { return };
        from = number + 1;
        let waker = if is_meant(task.runtime) { task.waker.take() } else { None };
        drop(jumps);
        if let Some(waker) = waker {
            catch_panic(|| waker.wake());
        }
    }
}

impl Jumps {
    /// Starts the thread unless it runs. Returns `false` if it cannot be started.
    fn start(&mut self) -> bool {
        // Without threads nothing notices jumps.
        if self.is_watched || MODELLED || !has_threads() {
            return true;
        }
        self.file = self.file.or_else(|| Some(Box::leak(Box::new(Timerfd::on_the_wall_clock().ok()?))));
        self.arm();
        self.is_watched = std::thread::Builder::new().name("hairspring-jumps".into()).spawn(watch).is_ok();
        self.is_watched
    }

    /// Lets the thread notice every jump from here on.
    fn arm(&mut self) {
        self.file = self.file.filter(|file| file.watch_for_jumps());
        self.offsets = Some(Offsets::now());
    }
}

/// The thread's work, until it finds that no task waits.
fn watch() {
    copy_the_main_threads_priority();
    let mut jumps = lock();
    while jumps.is_watched {
        let (file, offsets) = (jumps.file, jumps.offsets);
        drop(jumps);
        let may_have_jumped = file.is_some_and(Timerfd::wait) || {
            std::thread::sleep(CHECK_INTERVAL);
            // If not, `offsets` stays: small adjustments add up to a jump.
            offsets.is_none_or(|before| Offsets::now().differ_from(before))
        };
        jumps = lock();
        jumps.is_watched = !jumps.waiting.is_empty();
        if jumps.is_watched && may_have_jumped {
            jumps.arm();
            drop(jumps);
            helpers::send(|| wake(|_| true));
            jumps = lock();
        }
    }
}

pub(crate) fn here() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// A task that waits. It stops waiting when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct JumpListener {
    number: Option<u64>,
}

impl JumpListener {
    /// Waits with the waker of the current poll. Check the clock after this. Returns `false` if jumps go unnoticed,
    /// because no thread can be started.
    pub(crate) fn listen(&mut self, waker: &Waker) -> bool {
        // A forked process continues its parent's numbers: an inherited listener is not mistaken for a new one.
        static NEXT: Counter = Counter::new(0);
        let number = *self.number.get_or_insert_with(|| NEXT.fetch_add(1, Relaxed));
        let task = WaitingTask { runtime: here(), waker: Some(waker.clone()) };
        let mut jumps = lock();
        let before = jumps.waiting.insert(number, task);
        let is_watched = jumps.start();
        drop(jumps);
        drop(before);
        is_watched
    }

    pub(crate) fn leave(&mut self) {
        let Some(number) = self.number.take() else { return };
        let left = lock().waiting.remove(&number);
        // Drops the waker after unlocking.
        drop(left);
    }
}

impl Drop for JumpListener {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(all(test, target_os = "linux", not(hairspring_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;
    use std::time::Instant;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn wait_until(what: &str, seen: impl Fn() -> bool) {
        let start = Instant::now();
        while !seen() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            std::thread::yield_now();
        }
    }

    /// Ends the wait of the thread, as a jump does.
    fn jump() {
        let now = Instant::now();
        lock().file.expect("the system has one").set(Some(now), now);
    }

    // This is one test, because all tests of this program share the thread.
    #[test]
    fn each_jump_wakes_a_listener_once_and_the_thread_ends_if_there_is_none() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut listener = JumpListener::default();
        for jumps in 1..=3 {
            assert!(listener.listen(&waker));
            jump();
            wait_until("a jump wakes it", || woken.0.load(SeqCst) == jumps);
        }
        drop(listener);
        jump();
        wait_until("the thread ends", || !lock().is_watched);
        assert_eq!(woken.0.load(SeqCst), 3);
        assert_eq!(Arc::strong_count(&woken), 2, "only the test has its waker");
    }
}
