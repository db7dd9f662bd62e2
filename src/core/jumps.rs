//! [`Waiter`]: a task that waits for a clock that jumps. When one has jumped, all such tasks look at it again.
//!
//! They wait on an ordinary sleep meanwhile, so these lists see neither deadlines nor time.
//
// Invariants
// 1. A task that looks at a clock after it began to wait is woken if a clock jumps after that look.
// 2. As long as nobody waits, nothing is booked; one booking may be left over from before.
// 3. A waker is never woken, cloned or dropped under the lock.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;

use tokio::runtime::{self, Handle};

use crate::clock::jumping::Offsets;
use crate::core::alarm::thread::{self, Booker};
use crate::core::helpers::Helpers;
use crate::util::panics::catch_panic;
use crate::util::sync::{Counter, Mutex, MutexGuard, per_process};

#[derive(Default)]
struct Jumps {
    waiting: BTreeMap<u64, WaitingTask>,
    /// How far the clocks were ahead of the monotonic one at the last look; `None` if no look is booked.
    offsets: Option<Offsets>,
    /// Whether that look comes only after a jump.
    is_told: bool,
}

/// A task that waits.
struct WaitingTask {
    /// Where it was polled: what a test does to the clocks of one runtime concerns no other.
    runtime: Option<runtime::Id>,
    /// `None` if it was woken and was not polled since.
    waker: Option<Waker>,
}

per_process! {
    fn jumps() -> &'static Mutex<Jumps> = |_| Mutex::new(Jumps::default());
}

fn lock() -> MutexGuard<'static, Jumps> {
    // Nothing that can panic runs under this lock.
    jumps().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the tasks that wait on runtimes that are meant, one in each hold of the lock.
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
    /// Books the next look, and takes this one. Returns whether a clock may have jumped since the last.
    fn look(&mut self) -> bool {
        // First, so that no jump from here on is missed.
        let was_told = std::mem::replace(&mut self.is_told, thread::book_jump(jumps()));
        let now = Offsets::now();
        let may_have_jumped = was_told || self.offsets.is_none_or(|before| now.differ_from(before));
        if may_have_jumped {
            self.offsets = Some(now); // Otherwise they stay: many small steps are a jump too.
        }
        may_have_jumped
    }
}

impl Booker for Mutex<Jumps> {
    fn alarm(&'static self, helpers: &'static Helpers) {
        let mut jumps = lock();
        if jumps.waiting.is_empty() {
            (jumps.offsets, jumps.is_told) = (None, false);
        } else if jumps.look() {
            drop(jumps);
            helpers.send(Box::new(|| wake(|_| true)));
        }
    }
}

/// The current runtime, if there is one.
pub(crate) fn here() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

/// Names a task that waits. It waits no more when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    number: Option<u64>,
}

impl Waiter {
    /// Waits, with the waker of this poll in place of the last one. Look at the clock after this.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        // A forked process goes on with its parent's numbers, so that what it inherits is not taken for its own.
        static NEXT: Counter = Counter::new(0);
        let number = *self.number.get_or_insert_with(|| NEXT.fetch_add(1, Relaxed));
        let task = WaitingTask { runtime: here(), waker: Some(waker.clone()) };
        let mut jumps = lock();
        let before = jumps.waiting.insert(number, task);
        if jumps.offsets.is_none() {
            jumps.look();
        }
        drop(jumps);
        drop(before);
    }

    pub(crate) fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            // A statement of its own: the waker is dropped after the lock is given back.
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
