//! [`Consumer`]: how the stream of a map waits until the earliest deadline, and is woken by those who insert.
//
// Invariants
// 1. While nobody waits, inserts find the parker `Away`.
// 2. No waker is woken, cloned or dropped under the lock, and no sleep.
// 3. On a clock that jumps to what is waited for, the consumer leaves its sleep here as well, so that whoever removes or
//    puts off what it waits for can move it, whether or not the consumer is ever polled again. That is a look of its own:
//    take the sleep and begin to look, look at the shards, park; unless the consumer looks meanwhile.
//
// Must not know: keys, values, shards.

use std::task::Waker;

use crate::core::parker::{Found, Locked, Parker, Phase};
use crate::future::Sleep;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

// A cache line of its own: all who insert read it, and it is rarely written.
#[repr(align(128))]
pub(super) struct Consumer {
    parker: Parker<Left>,
    is_gone: AtomicBool,
}

/// What the consumer has left here as it waits.
struct Left {
    waker: Option<Waker>,
    /// What it sleeps with, if that can move a clock.
    sleep: Option<Sleep>,
    /// How often it began to look.
    looks: u64,
}

impl Consumer {
    pub(super) fn new() -> Self {
        let parker = Parker::new(Left { waker: None, sleep: None, looks: 0 });
        Consumer { parker, is_gone: AtomicBool::new(false) }
    }

    /// A deadline was inserted, earlier than any other of its shard, and the shard has published it.
    pub(super) fn registered(&self, deadline: Tick) {
        if self.parker.is_too_late_for(deadline) {
            let mut left = self.parker.lock();
            if left.registered(deadline) == Found::Sleeper {
                wake(left);
            }
        }
    }

    /// Wakes the consumer if it waits.
    pub(super) fn wake(&self) {
        let mut left = self.parker.lock();
        match left.phase() {
            Phase::Away => {}
            Phase::Looking { .. } => left.look_again(),
            Phase::Parked => wake(left),
        }
    }

    /// The consumer is about to look at the shards, and to wait if it finds nothing due. Returns the sleep that it left.
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

    /// The consumer has looked, and sleeps until the earliest tick that it has seen; with `sleep`, if that moves a clock.
    /// Gives the sleep back if it has to look again.
    pub(super) fn park(&self, earliest: Tick, sleep: Option<Sleep>) -> Result<(), Option<Sleep>> {
        let mut left = self.parker.lock();
        if !left.park(earliest) {
            return Err(sleep);
        }
        left.sleep = sleep;
        Ok(())
    }

    /// Something was removed or put off, and its shard has published what is left: has the consumer sleep until the
    /// `earliest` of all, or look again.
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
        // A look in the consumer's place. What is registered meanwhile finds it.
        let waits = left.phase() == Phase::Parked;
        if waits {
            left.look();
        }
        drop(left);
        let earliest = earliest();
        if earliest == Tick::MAX {
            sleep.disarm();
        } else {
            sleep.reset_to_tick(earliest);
        }
        let mut left = self.parker.lock();
        // If it has looked meanwhile it sleeps with another, and if it has gone with none.
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

    /// The consumer has something to do and will poll again by itself.
    pub(super) fn stop_waiting(&self) {
        let mut left = self.parker.lock();
        let waker = left.waker.take();
        left.leave();
        drop(left);
        drop(waker);
    }

    /// There is no consumer from now on.
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

/// Wakes the consumer, with the lock let go.
fn wake(mut left: Locked<'_, Left>) {
    let waker = left.waker.take();
    left.leave();
    drop(left);
    if let Some(waker) = waker {
        catch_panic(|| waker.wake());
    }
}
