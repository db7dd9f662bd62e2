//! [`Waiter`]: a task that waits on a clock that may jump. After a jump, all such tasks check their clocks again.
//!
//! The tasks wait on ordinary sleeps; this file knows neither deadlines nor time.
//
// Invariants
// 1. A task that checks its clock after it began to wait is woken if a clock jumps after that check.
// 2. Nothing is booked while no task waits, except for one booking that may be left over.
// 3. A waker is never woken, cloned or dropped under the lock.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use tokio::runtime::{self, Handle};

use crate::clock::jumping::Offsets;
use crate::core::alarm::thread::{self, AlarmHandler};
use crate::core::helpers::Helpers;
use crate::util::panics::catch_panic;
use crate::util::sync::{Counter, Mutex, MutexGuard, per_process};

#[derive(Default)]
struct Jumps {
    waiting: BTreeMap<u64, WaitingTask>,
    /// How far the clocks were ahead of the monotonic clock at the last check; `None` if no check is booked.
    offsets: Option<Offsets>,
    /// Whether the booked check follows only after a jump.
    is_told: bool,
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
    jumps().lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Books the next check, and makes this one. Returns whether a clock may have jumped since the last.
    fn check(&mut self) -> bool {
        // Book first, to miss no jump from here on.
        let was_told = std::mem::replace(&mut self.is_told, thread::book_jump(jumps()));
        let now = Offsets::now();
        let may_have_jumped = was_told || self.offsets.is_none_or(|before| now.differ_from(before));
        if may_have_jumped {
            self.offsets = Some(now); // Otherwise keep them: small adjustments add up to a jump.
        }
        may_have_jumped
    }
}

impl AlarmHandler for Mutex<Jumps> {
    fn alarm(&'static self, helpers: &'static Helpers) {
        let mut jumps = lock();
        if jumps.waiting.is_empty() {
            (jumps.offsets, jumps.is_told) = (None, false);
        } else if jumps.check() {
            drop(jumps);
            helpers.send(Box::new(|| wake(|_| true)));
        }
    }
}

pub(crate) fn here() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// A task that waits. It stops waiting when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    number: Option<u64>,
}

impl Waiter {
    /// Waits with the waker of the current poll. Check the clock after this.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        // A forked process continues its parent's numbers: an inherited waiter is not mistaken for a new one.
        static NEXT: Counter = Counter::new(0);
        let number = *self.number.get_or_insert_with(|| NEXT.fetch_add(1, Relaxed));
        let task = WaitingTask { runtime: here(), waker: Some(waker.clone()) };
        let mut jumps = lock();
        let before = jumps.waiting.insert(number, task);
        if jumps.offsets.is_none() {
            jumps.check();
        }
        drop(jumps);
        drop(before);
    }

    pub(crate) fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            // Drops the waker after unlocking.
            let left = lock().waiting.remove(&number);
            drop(left);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}
