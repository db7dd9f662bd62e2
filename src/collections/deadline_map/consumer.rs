//! The handshake between those who insert and the one consumer that waits until the earliest deadline.
//!
//! As that of a timer's driver (see `signal`): a mistake here hangs a program. The consumer publishes the tick that it
//! wakes at by itself (`armed`), and whoever has inserted an earlier deadline wakes it.
//!
//! Invariants
//! 1. Order of a wait: leave the waker and publish "never", look at the shards, publish the earliest. Order of an insert:
//!    publish the shard's new earliest deadline, then read `armed`. All four are sequentially consistent, so an insert
//!    that the look missed reads "never", and finds the waker.
//! 2. While no waker is left, `armed` may be anything: nobody waits. Where it is made zero, that is under the lock and
//!    with the waker taken, so that it never hides a waker that was left later.
//! 3. No waker is woken, cloned or dropped under the lock, and no sleep.
//! 4. On a clock that jumps to what is waited for, the consumer leaves its sleep here as well, so that whoever removes or
//!    puts off what it waits for can move it, whether or not the consumer is ever polled again. Order of that: take the
//!    sleep and publish "never", look at the shards, publish the earliest; unless the consumer looks meanwhile.
//!
//! Must not know: keys, values, shards.

use std::sync::PoisonError;
use std::task::Waker;

use crate::future::Sleep;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;

// A cache line of its own: those who insert read it, and it is rarely written.
#[repr(align(128))]
pub(super) struct Consumer {
    /// The tick that a waiting consumer wakes at; `Tick::MAX` while it looks, zero where it does not wait.
    armed: AtomicU64,
    gone: AtomicBool,
    left: Mutex<Left>,
}

/// What the consumer has left here as it waits.
struct Left {
    waker: Option<Waker>,
    /// What it sleeps with, where that can move a clock.
    sleep: Option<Sleep>,
    /// How often it began to look.
    looks: u64,
    /// Whether something was put off since it began to look, which the look may have seen where it was.
    again: bool,
}

impl Consumer {
    pub(super) fn new() -> Self {
        let left = Left { waker: None, sleep: None, looks: 0, again: false };
        Consumer { armed: AtomicU64::new(0), gone: AtomicBool::new(false), left: Mutex::new(left) }
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        // Nothing that can panic runs under this lock.
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A deadline was inserted, earlier than any other of its shard, and the shard has published it.
    pub(super) fn inserted(&self, deadline: Tick) {
        if deadline.0 < self.armed.load(SeqCst) {
            self.wake();
        }
    }

    /// Wakes the consumer, where it waits.
    pub(super) fn wake(&self) {
        if let Some(waker) = self.take_waker() {
            catch_panic(|| waker.wake());
        }
    }

    fn take_waker(&self) -> Option<Waker> {
        let mut left = self.lock();
        self.armed.store(0, SeqCst);
        left.waker.take()
    }

    /// The consumer is about to look at the shards, and to wait where it finds nothing due. Returns the sleep that it left.
    pub(super) fn begin_look(&self, waker: Waker) -> Option<Sleep> {
        let mut left = self.lock();
        let before = left.waker.replace(waker);
        let sleep = left.sleep.take();
        left.looks += 1;
        left.again = false;
        self.armed.store(u64::MAX, SeqCst);
        drop(left);
        drop(before);
        sleep
    }

    /// The consumer has looked, and wakes by itself at the earliest tick that it has seen.
    pub(super) fn end_look(&self, earliest: Tick) {
        self.armed.store(earliest.0, SeqCst);
    }

    /// The consumer waits with a sleep that moves a clock. `true` where it has to look again.
    pub(super) fn leave_sleep(&self, sleep: Sleep) -> bool {
        let mut left = self.lock();
        let before = left.sleep.replace(sleep);
        let again = left.again;
        drop(left);
        drop(before);
        again
    }

    /// Something was removed or put off, and its shard has published what is left: has the consumer sleep until the
    /// `earliest` of all, or look again.
    #[cold]
    pub(super) fn put_off(&self, earliest: impl FnOnce() -> Tick) {
        let mut left = self.lock();
        let Some(mut sleep) = left.sleep.take() else {
            left.again = true;
            return;
        };
        let looks = left.looks;
        if left.waker.is_some() {
            self.armed.store(u64::MAX, SeqCst);
        }
        drop(left);
        let earliest = earliest();
        if earliest == Tick::MAX {
            sleep.disarm();
        } else {
            sleep.reset_to_tick(earliest);
        }
        let mut left = self.lock();
        // Where it has looked meanwhile, it sleeps with another.
        if left.looks == looks {
            if left.waker.is_some() {
                self.armed.store(earliest.0, SeqCst);
            }
            left.sleep = Some(sleep);
        }
    }

    /// The consumer has something to do and will poll again by itself.
    pub(super) fn stop_waiting(&self) {
        drop(self.take_waker());
    }

    /// There is no consumer from now on.
    pub(super) fn leave(&self) {
        self.gone.store(true, SeqCst);
        self.stop_waiting();
        let sleep = self.lock().sleep.take();
        drop(sleep);
    }

    /// The tick that a waiting consumer wakes at.
    #[cfg(test)]
    pub(super) fn armed(&self) -> Tick {
        Tick(self.armed.load(SeqCst))
    }

    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }
}
