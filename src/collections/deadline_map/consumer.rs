//! [`Consumer`]: how the stream of a map waits for the earliest deadline, and how it is woken.
//
// Invariants
// 1. While the consumer does not wait, inserts find the parker `Away`.
// 2. No waker is woken, cloned or dropped under the lock, and no sleep is dropped under it.
// 3. Between polls the sleep is stored here. If a test has paused a clock, a thread that removes or postpones the entry
//    that the sleep waits for can cancel it, even if the consumer is never polled again: the clock does not jump there.

use std::mem;
#[cfg(feature = "metrics")]
use std::sync::OnceLock;
use std::task::Waker;

#[cfg(feature = "metrics")]
use crate::collections::published::Publisher;
use crate::core::parker::{Locked, Parker};
use crate::future::LazySleep;
use crate::util::panics::catch_panic;
use crate::util::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

// Aligned to a cache line, because every insert reads it and it is rarely written.
#[repr(align(128))]
pub(super) struct Consumer {
    parker: Parker<Parked>,
    is_gone: AtomicBool,
    /// Whether the consumer has waited on a clock that a test has paused.
    is_exact: AtomicBool,
    /// Receives the last counters, if there is a reporter. It fits into the alignment's padding.
    #[cfg(feature = "metrics")]
    pub(super) publisher: OnceLock<Publisher>,
}

#[derive(Default)]
struct Parked {
    waker: Option<Waker>,
    sleep: Option<LazySleep>,
}

impl Consumer {
    pub(super) fn new() -> Self {
        Consumer {
            parker: Parker::new(Parked::default()),
            is_gone: AtomicBool::new(false),
            is_exact: AtomicBool::new(false),
            #[cfg(feature = "metrics")]
            publisher: OnceLock::new(),
        }
    }

    /// Called after a shard has published a new earliest deadline.
    pub(super) fn registered(&self, deadline: Tick) {
        if self.parker.is_too_late_for(deadline) {
            let mut parked = self.parker.lock();
            if parked.note(deadline) {
                wake(parked, None);
            }
        }
    }

    /// Called after entries were removed or postponed, with the earliest deadline that the shards have published. If
    /// the consumer waits for an earlier one, cancels its sleep and wakes it.
    #[cold]
    pub(super) fn postponed(&self, earliest: Tick) {
        let mut parked = self.parker.lock();
        if parked.scan_again() {
            return;
        }
        if let Some(sleep) = parked.sleep.take_if(|sleep| sleep.end() < earliest) {
            wake(parked, Some(sleep));
        }
    }

    /// The consumer is about to check the shards, and to wait if nothing is due. Returns the sleep, unless the consumer
    /// has it or it was cancelled.
    pub(super) fn scan(&self, waker: Waker) -> Option<LazySleep> {
        let mut parked = self.parker.lock();
        let before = parked.waker.replace(waker);
        let sleep = parked.sleep.take();
        parked.scan();
        drop(parked);
        drop(before);
        sleep
    }

    /// The consumer has checked the shards and waits until `earliest`. Returns the sleep if it has to check again.
    pub(super) fn park(&self, earliest: Tick, sleep: LazySleep) -> Result<(), LazySleep> {
        let mut parked = self.parker.lock();
        if !parked.park(earliest) {
            return Err(sleep);
        }
        parked.sleep = Some(sleep);
        Ok(())
    }

    /// The consumer no longer waits. It stores its sleep here, if it has one.
    pub(super) fn stop_waiting(&self, sleep: Option<LazySleep>) {
        let mut parked = self.parker.lock();
        let waker = parked.waker.take();
        parked.sleep = sleep.or(parked.sleep.take());
        parked.leave();
        drop(parked);
        drop(waker);
    }

    pub(super) fn leave(&self) {
        self.is_gone.store(true, SeqCst);
        let left = {
            let mut parked = self.parker.lock();
            parked.leave();
            mem::take(&mut *parked)
        };
        drop(left);
    }

    /// The tick at which the consumer wakes; tick 0 while it does not wait.
    #[cfg(test)]
    pub(super) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }

    #[inline]
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact.load(Relaxed)
    }

    pub(super) fn be_exact(&self) {
        self.is_exact.store(true, SeqCst);
    }

    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }
}

/// Unlocks, drops the sleep, and wakes the consumer if it waits.
fn wake(mut parked: Locked<'_, Parked>, sleep: Option<LazySleep>) {
    let waker = parked.waker.take();
    parked.leave();
    drop(parked);
    drop(sleep);
    if let Some(waker) = waker {
        catch_panic(|| waker.wake());
    }
}
