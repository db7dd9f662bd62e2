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
//! 3. No waker is woken, cloned or dropped under the lock.
//!
//! Must not know: keys, values, shards.

use std::sync::PoisonError;
use std::task::Waker;

use crate::contain::contain;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};
use crate::tick::Tick;

// A cache line of its own: those who insert read it, and it is rarely written.
#[repr(align(128))]
pub(super) struct Consumer {
    /// The tick that a waiting consumer wakes at; `Tick::MAX` while it looks, zero where it does not wait.
    armed: AtomicU64,
    gone: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Consumer {
    pub(super) fn new() -> Self {
        Consumer { armed: AtomicU64::new(0), gone: AtomicBool::new(false), waker: Mutex::new(None) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // Nothing that can panic runs under this lock.
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
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
            contain(|| waker.wake());
        }
    }

    fn take_waker(&self) -> Option<Waker> {
        let mut slot = self.lock();
        self.armed.store(0, SeqCst);
        slot.take()
    }

    /// The consumer is about to look at the shards, and to wait where it finds nothing due.
    pub(super) fn begin_look(&self, waker: Waker) {
        let mut slot = self.lock();
        let before = slot.replace(waker);
        self.armed.store(u64::MAX, SeqCst);
        drop(slot);
        drop(before);
    }

    /// The consumer has looked, and wakes by itself at the earliest tick that it has seen.
    pub(super) fn end_look(&self, earliest: Tick) {
        self.armed.store(earliest.0, SeqCst);
    }

    /// The consumer has something to do and will poll again by itself.
    pub(super) fn stop_waiting(&self) {
        drop(self.take_waker());
    }

    /// There is no consumer from now on.
    pub(super) fn leave(&self) {
        self.gone.store(true, SeqCst);
        self.stop_waiting();
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
