//! [`Pool`]: memory that is never freed, but reused by one owner after another.
//!
//! A sleep points to its shard without counting references, which would cost as much as the shard's lock. So shards are
//! never freed, and wait in a pool for their next use. A [`Lease`] names one use, which serves until it ends.
//
// Invariants
// 1. Each use has an epoch of its own among the uses of the same memory. It begins with one holder, who ends it.
// 2. Memory goes back to the pool when the last holder of an ended use leaves: once for each use.
// 3. Nobody joins the holders of a use that has none left.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::PoisonError;

use crate::util::sync::Mutex;
use crate::util::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The number of a use among all uses of the same memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u32);

impl Epoch {
    /// How many bits it has. A sleep keeps its marks in the rest of the word.
    pub(crate) const BITS: u32 = 26;

    const LAST: Epoch = Epoch((1 << Epoch::BITS) - 1);

    /// The epoch of the next use.
    pub(crate) fn next(self) -> Epoch {
        Epoch((self.0 + 1) & Epoch::LAST.0)
    }
}

/// Memory that can be pooled.
pub(crate) trait Pooling: Sized + Sync + 'static {
    /// The pool that it goes back to.
    fn pool() -> &'static Pool<Self>;

    /// The size, by which memory is pooled.
    fn size(&self) -> usize;
}

/// Memory without a use at present, by its size.
pub(crate) struct Pool<T: 'static>(Mutex<BTreeMap<usize, Vec<&'static Pooled<T>>>>);

/// Memory, with its present use.
pub(crate) struct Pooled<T> {
    /// The epoch of the present use, or of the next.
    epoch: AtomicU32,
    holders: Holders,
    value: T,
}

/// One use. It serves until it ends; then the memory may get another.
pub(crate) struct Lease<T: 'static> {
    of: &'static Pooled<T>,
    epoch: Epoch,
}

/// Keeps memory from being reused as long as it lives.
pub(crate) struct Hold<T: Pooling>(Lease<T>);

impl<T> Pool<T> {
    pub(crate) fn new() -> Self {
        Pool(Mutex::new(BTreeMap::new()))
    }

    fn take(&self, size: usize) -> Option<&'static Pooled<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&size)?.pop()
    }

    fn put_back(&self, size: usize, pooled: &'static Pooled<T>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(size).or_default().push(pooled);
    }
}

impl<T: Pooling> Pooled<T> {
    pub(crate) fn new(value: T) -> Self {
        Pooled { epoch: AtomicU32::new(0), holders: Holders::none(), value }
    }

    /// Begins a use. The caller must have the memory to itself.
    pub(crate) fn begin(&'static self) -> Lease<T> {
        let begun = self.present();
        self.holders.begin(begun.epoch);
        begun
    }

    /// The present use, or the next if there is none at present.
    pub(crate) fn present(&'static self) -> Lease<T> {
        self.at(Epoch(self.epoch.load(SeqCst)))
    }

    /// The use with this epoch.
    pub(crate) fn at(&'static self, epoch: Epoch) -> Lease<T> {
        Lease { of: self, epoch }
    }
}

impl<T: Pooling> Lease<T> {
    /// Begins a use of pooled memory of a size, or of what `make` returns if the pool has none.
    pub(crate) fn take(size: usize, make: impl FnOnce() -> &'static Pooled<T>) -> Lease<T> {
        T::pool().take(size).unwrap_or_else(make).begin()
    }

    pub(crate) fn epoch(self) -> Epoch {
        self.epoch
    }

    /// Whether the use has not ended.
    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.of.epoch.load(SeqCst) == self.epoch.0
    }

    /// Ends the use. The caller is then the holder that it began with, and must [let go](Lease::let_go) after clearing
    /// up. Returns `false` if the use has ended before.
    pub(crate) fn end(self) -> bool {
        let next = self.epoch.next();
        self.of.epoch.compare_exchange(self.epoch.0, next.0, SeqCst, SeqCst).is_ok()
    }

    pub(crate) fn let_go(self) {
        if self.of.holders.leave(self.epoch) {
            T::pool().put_back(self.of.value.size(), self.of);
        }
    }

    /// Keeps the memory for this use. Returns `None` if the use has ended and has no other holder.
    pub(crate) fn try_hold(self) -> Option<Hold<T>> {
        self.of.holders.join(self.epoch).then(|| Hold(self))
    }

    /// Keeps the memory for this use, which must serve or have another holder.
    pub(crate) fn hold(self) -> Hold<T> {
        self.try_hold().expect("the use has not ended")
    }
}

impl<T> Lease<T> {
    /// The memory, which may have another use by now.
    #[inline]
    pub(crate) fn get(self) -> &'static T {
        &self.of.value
    }

    /// The same, with what tells its uses apart.
    pub(crate) fn pooled(self) -> &'static Pooled<T> {
        self.of
    }
}

impl<T> Deref for Pooled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Lease<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Lease<T> {}

impl<T> Deref for Lease<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.of.value
    }
}

impl<T> PartialEq for Lease<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.of, other.of) && self.epoch == other.epoch
    }
}

impl<T> Eq for Lease<T> {}

impl<T: Pooling> Hold<T> {
    pub(crate) fn lease(&self) -> Lease<T> {
        self.0
    }
}

impl<T: Pooling> Clone for Hold<T> {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl<T: Pooling> Drop for Hold<T> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

/// The holders of a use: its epoch in the upper half, their number in the lower.
pub(crate) struct Holders(AtomicU64);

fn pack(epoch: Epoch, holders: u32) -> u64 {
    u64::from(epoch.0) << 32 | u64::from(holders)
}

impl Holders {
    pub(crate) fn none() -> Self {
        Holders(AtomicU64::new(0))
    }

    /// Begins a use, with one holder.
    pub(crate) fn begin(&self, epoch: Epoch) {
        self.0.store(pack(epoch, 1), SeqCst);
    }

    /// Adds a holder. Returns `false` if the use has none left.
    pub(crate) fn join(&self, epoch: Epoch) -> bool {
        self.change(epoch, |now| now + 1).is_ok()
    }

    /// Removes a holder, if the use has any. Returns whether it was the last.
    pub(crate) fn leave(&self, epoch: Epoch) -> bool {
        self.change(epoch, |now| now - 1) == Ok(pack(epoch, 1))
    }

    /// Whether the use has any.
    pub(crate) fn are_any(&self, epoch: Epoch) -> bool {
        is_held(self.0.load(SeqCst), epoch)
    }

    fn change(&self, epoch: Epoch, change: impl Fn(u64) -> u64) -> Result<u64, u64> {
        self.0.fetch_update(SeqCst, SeqCst, |now| is_held(now, epoch).then(|| change(now)))
    }
}

/// Whether `holders` counts some of a use, and no more than it can.
fn is_held(holders: u64, epoch: Epoch) -> bool {
    holders > pack(epoch, 0) && holders < pack(epoch, u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_joins_a_use_that_has_ended() {
        let holders = Holders::none();
        assert!(!holders.join(Epoch(0)), "none has begun");
        for epoch in [Epoch(0), Epoch(1), Epoch::LAST] {
            let others = [epoch.next(), Epoch(epoch.0.wrapping_sub(1) & Epoch::LAST.0)];
            holders.begin(epoch);
            assert!(holders.join(epoch) && !others.iter().any(|&other| holders.join(other) || holders.leave(other)));
            assert!(!holders.leave(epoch));
            assert!(holders.are_any(epoch) && holders.leave(epoch), "the last");
            assert!(!holders.join(epoch) && !holders.leave(epoch) && !holders.are_any(epoch));
        }
    }
}
