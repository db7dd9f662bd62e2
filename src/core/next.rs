//! [`Next`]: when a wheel next has work, readable without its lock.
//
// Invariants
// 1. It changes only under the lock of the wheel, and is never later than the wheel's earliest deadline.
// 2. It is sequentially consistent, as the handshake of the [parker](super::parker) needs.

use crate::util::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

#[derive(Debug)]
pub(crate) struct Next(AtomicU64);

impl Next {
    /// For a wheel with no entries.
    pub(crate) fn never() -> Self {
        Next(AtomicU64::new(u64::MAX))
    }

    /// `Tick::MAX` if there is no entry.
    #[inline]
    pub(crate) fn get(&self) -> Tick {
        Tick(self.0.load(SeqCst))
    }

    /// An entry was registered. Publishes its deadline if it is the earliest, and returns whether it is.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) -> bool {
        let is_earliest = deadline.0 < self.0.load(Relaxed);
        if is_earliest {
            self.0.store(deadline.0, SeqCst);
        }
        is_earliest
    }

    /// Publishes the wheel's next expiration.
    pub(crate) fn publish(&self, next: Option<Tick>) -> Tick {
        let next = next.unwrap_or(Tick::MAX);
        self.0.store(next.0, SeqCst);
        next
    }
}
