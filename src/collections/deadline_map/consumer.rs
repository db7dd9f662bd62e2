//! [`Consumer`]: how the stream of a map waits for the earliest deadline, and how inserts wake it.
//
// Invariants
// 1. While nobody waits, inserts find the parker `Away`.
// 2. No waker is woken, cloned or dropped under the lock, and no sleep is dropped under it.
// 3. A consumer whose sleep drives a clock leaves the sleep here. So whoever removes or puts off the entry that it
//    waits for can move the sleep, even if the consumer is never polled again. That is a look of its own: take the
//    sleep and begin to look, look at the shards, park. It ends early if the consumer looks meanwhile.

use std::task::Waker;

use crate::core::parker::{Found, Locked, Parker, Phase};
use crate::future::Sleep;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

// On a cache line of its own: every insert reads it, and it is rarely written.
#[repr(align(128))]
pub(super) struct Consumer {
    parker: Parker<Left>,
    is_gone: AtomicBool,
}

/// What the consumer leaves here while it waits.
struct Left {
    waker: Option<Waker>,
    /// Its sleep, if that drives a clock.
    sleep: Option<Sleep>,
    /// How often it began to look.
    looks: u64,
}

impl Consumer {
    pub(super) fn new() -> Self {
        let parker = Parker::new(Left { waker: None, sleep: None, looks: 0 });
        Consumer { parker, is_gone: AtomicBool::new(false) }
    }

    /// A deadline was inserted that is the earliest of its shard, and the shard has published it.
    pub(super) fn registered(&self, deadline: Tick) {
        if self.parker.is_too_late_for(deadline) {
            let mut left = self.parker.lock();
            if left.registered(deadline) == Found::Parked {
                wake(left);
            }
        }
    }

    /// Wakes the consumer if it waits.
    pub(super) fn wake(&self) {
        let mut left = self.parker.lock();
        match left.phase() {
            Phase::Away => {}
            Phase::Looking { .. } => _ = left.look_again(),
            Phase::Parked => wake(left),
        }
    }

    /// The consumer is about to look at the shards, and to wait if it finds nothing due. Returns the sleep that it left
    /// here.
    pub(super) fn look(&self, waker: Waker) -> Option<Sleep> {
        let mut left = self.parker.lock();
        let before = left.waker.replace(waker);
        let sleep = left.sleep.take();
        left.looks += 1;
        left.look();
        drop(left);
        drop(before);
        sleep
    }

    /// The consumer has looked, and sleeps until the earliest tick that it found. It leaves `sleep` here if that drives
    /// a clock, and gets it back if it has to look again.
    pub(super) fn park(&self, earliest: Tick, sleep: Option<Sleep>) -> Result<(), Option<Sleep>> {
        let mut left = self.parker.lock();
        if !left.park(earliest) {
            return Err(sleep);
        }
        left.sleep = sleep;
        Ok(())
    }

    /// An entry was removed or put off, and its shard has published what is left. Makes the consumer sleep until the
    /// `earliest` of all shards, or look again.
    #[cold]
    pub(super) fn put_off(&self, earliest: impl FnOnce() -> Tick) {
        let mut left = self.parker.lock();
        let Some(mut sleep) = left.sleep.take() else {
            if let Phase::Looking { .. } = left.phase() {
                left.look_again();
            }
            return;
        };
        let looks = left.looks;
        // A look in the consumer's place. Registrations meanwhile find it.
        let waits = left.phase() == Phase::Parked;
        if waits {
            left.look();
        }
        drop(left);
        let earliest = earliest();
        sleep.wait_for(earliest);
        let mut left = self.parker.lock();
        // If the consumer has looked meanwhile it has another sleep, and if it has gone it has none.
        if left.looks != looks || self.is_gone() {
            drop(left);
            drop(sleep);
            return;
        }
        left.sleep = Some(sleep);
        if waits && left.phase() != Phase::Away && !left.park(earliest) {
            wake(left);
        }
    }

    /// The consumer has an entry and will poll again by itself.
    pub(super) fn stop_waiting(&self) {
        let mut left = self.parker.lock();
        let waker = left.waker.take();
        left.leave();
        drop(left);
        drop(waker);
    }

    /// The stream was dropped.
    pub(super) fn leave(&self) {
        self.is_gone.store(true, SeqCst);
        self.stop_waiting();
        let sleep = self.parker.lock().sleep.take();
        drop(sleep);
    }

    /// The tick at which a waiting consumer wakes.
    #[cfg(test)]
    pub(super) fn next_wake(&self) -> Tick {
        self.parker.next_wake()
    }

    #[inline]
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }
}

/// Unlocks, then wakes the consumer.
fn wake(mut left: Locked<'_, Left>) {
    let waker = left.waker.take();
    left.leave();
    drop(left);
    if let Some(waker) = waker {
        catch_panic(|| waker.wake());
    }
}
