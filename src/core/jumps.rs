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
use crate::core::alarm::thread::{self, Booker, BookerId};
use crate::core::stand_ins::StandIns;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::{Counter, Mutex, MutexGuard, per_process};

/// Far above the numbers that timers come to.
const ID: BookerId = BookerId(u64::MAX >> 2);

/// How many wakers are taken out in one hold of the lock.
const BATCH: usize = 64;

struct Jumps {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<u64, Task>,
    /// What is booked, if anything is.
    booked: Option<Booked>,
}

/// A task that waits.
struct Task {
    /// Where it was polled: what a test does to the clocks of one runtime concerns no other.
    #[cfg(feature = "test-util")]
    runtime: Option<runtime::Id>,
    /// `None` if it was woken and was not polled since.
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
enum Booked {
    /// The next jump.
    Jump,
    /// A look at the clocks, which then differed by this from the monotonic one.
    Look(Offsets),
}

impl Booked {
    /// Whether a clock may have jumped between these two.
    fn differs_from(self, before: Booked) -> bool {
        match (before, self) {
            (Booked::Look(before), Booked::Look(now)) => now.differ_from(before),
            (Booked::Jump, _) | (_, Booked::Jump) => true,
        }
    }

    /// Books the next call.
    fn next(jumps: &'static Jumps) -> Booked {
        if thread::book_jump(ID, jumps) { Booked::Jump } else { Booked::Look(Offsets::now()) }
    }
}

per_process! {
    fn jumps() -> &'static Jumps = |_| Jumps { state: Mutex::new(State::default()) };
}

impl Jumps {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks that are meant.
    fn wake(&self, is_meant: impl Fn(&Task) -> bool) {
        let mut from = 0;
        loop {
            let mut wakers = Vec::with_capacity(BATCH);
            let mut state = self.lock();
            let mut batch = state.waiting.range_mut(from..).take(BATCH).peekable();
            if batch.peek().is_none() {
                return;
            }
            for (&number, task) in batch {
                from = number + 1;
                if is_meant(task) {
                    wakers.extend(task.waker.take());
                }
            }
            drop(state);
            for waker in wakers {
                catch_panic(|| waker.wake());
            }
        }
    }
}

impl Booker for Jumps {
    fn alarm(&'static self, stand_ins: &'static StandIns) {
        let mut state = self.lock();
        let before = state.booked.take();
        if state.waiting.is_empty() {
            return;
        }
        // First, so that no jump from here on is missed.
        let now = Booked::next(self);
        let may_have_jumped = before.is_none_or(|before| now.differs_from(before));
        // Many small steps are a jump too.
        state.booked = if may_have_jumped { Some(now) } else { before };
        drop(state);
        if may_have_jumped {
            stand_ins.send(Box::new(|| self.wake(|_| true)));
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
        if state.booked.is_none() {
            state.booked = Some(Booked::next(jumps));
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
