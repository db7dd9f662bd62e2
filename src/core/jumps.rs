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

#[cfg(feature = "test-util")]
use tokio::runtime::{self, Handle};

use crate::clock::jumping::Offsets;
use crate::core::alarm::thread::{self, Booker};
use crate::core::helpers::Helpers;
use crate::util::panics::catch_panic;
use crate::util::sync::{Counter, Mutex, MutexGuard, per_process};

struct Jumps {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u64, Task>,
    /// How far the clocks were ahead of the monotonic one at the last look; `None` if no look is booked.
    offsets: Option<Offsets>,
    /// Whether that look comes only after a jump.
    is_told_of_jumps: bool,
}

/// A task that waits.
struct Task {
    /// Where it was polled: what a test does to the clocks of one runtime concerns no other.
    #[cfg(feature = "test-util")]
    runtime: Option<runtime::Id>,
    /// `None` if it was woken and was not polled since.
    waker: Option<Waker>,
}

per_process! {
    fn jumps() -> &'static Jumps = |_| Jumps { state: Mutex::new(State::default()) };
}

impl State {
    /// Books the next look, and takes this one. Returns whether a clock may have jumped since the last.
    fn look(&mut self, jumps: &'static Jumps) -> bool {
        // First, so that no jump from here on is missed.
        let is_told = std::mem::replace(&mut self.is_told_of_jumps, thread::book_jump(jumps));
        let now = Offsets::now();
        let may_have_jumped = is_told || self.offsets.is_none_or(|before| now.differ_from(before));
        if may_have_jumped {
            self.offsets = Some(now); // Otherwise they stay: many small steps are a jump too.
        }
        may_have_jumped
    }
}

impl Jumps {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that are meant, one in each hold of the lock.
    fn wake(&self, is_meant: impl Fn(&Task) -> bool) {
        let mut from = 0;
        loop {
            let mut state = self.lock();
            let Some((&number, task)) = state.waiting.range_mut(from..).next() else { return };
            from = number + 1;
            let waker = if is_meant(task) { task.waker.take() } else { None };
            drop(state);
            if let Some(waker) = waker {
                catch_panic(|| waker.wake());
            }
        }
    }
}

impl Booker for Jumps {
    fn alarm(&'static self, helpers: &'static Helpers) {
        let mut state = self.lock();
        if state.waiting.is_empty() {
            (state.offsets, state.is_told_of_jumps) = (None, false);
        } else if state.look(self) {
            drop(state);
            helpers.send(Box::new(|| self.wake(|_| true)));
        }
    }
}

/// Wakes the tasks that wait on a runtime, or outside all, because a test has made a clock jump there.
#[cfg(feature = "test-util")]
pub(crate) fn wake_on(runtime: Option<runtime::Id>) {
    jumps().wake(|task| task.runtime == runtime);
}

/// The current runtime, if there is one.
#[cfg(feature = "test-util")]
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
        let jumps = jumps();
        let task = Task {
            #[cfg(feature = "test-util")]
            runtime: here(),
            waker: Some(waker.clone()),
        };
        let mut state = jumps.lock();
        let before = state.waiting.insert(number, task);
        if state.offsets.is_none() {
            state.look(jumps);
        }
        drop(state);
        drop(before);
    }

    pub(crate) fn leave(&mut self) {
        if let Some(number) = self.number.take() {
            // A statement of its own: the waker is dropped after the lock is given back.
            let left = jumps().lock().waiting.remove(&number);
            drop(left);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}
