//! [`Epoch`]: the number of one use of memory that timers reuse. [`RefCount`]: a count that keeps the memory from its
//! next use.
//
// Invariants
// 1. Each use of the same memory has its own epoch; it returns after 2^24 uses.
// 2. A use that has no user left gets no new one.
//
// They hold because the epoch and the count are one atomic word: who joins or leaves compares the one and changes the
// other in one step.

use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u32);

impl Epoch {
    /// The number of bits. A sleep keeps its marks in the rest of the word.
    pub(crate) const BITS: u32 = 24;

    const LAST: Epoch = Epoch((1 << Epoch::BITS) - 1);

    pub(crate) fn next(self) -> Epoch {
        Epoch((self.0 + 1) & Epoch::LAST.0)
    }
}

/// The users of a use: its epoch in the upper half of the word, whether it is open, and their number.
pub(crate) struct RefCount(AtomicU64);

const OPEN: u64 = 1 << 31;

fn pack(epoch: Epoch, open: u64, users: u64) -> u64 {
    u64::from(epoch.0) << 32 | open | users
}

impl RefCount {
    pub(crate) fn none() -> Self {
        RefCount(AtomicU64::new(0))
    }

    /// The epoch of the use, or of the last.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch((self.0.load(SeqCst) >> 32) as u32)
    }

    /// Begins a use, with one user.
    pub(crate) fn begin(&self, epoch: Epoch) {
        self.0.store(pack(epoch, OPEN, 1), SeqCst);
    }

    /// Ends a use, which keeps its users. Returns `false` if it has ended before.
    pub(crate) fn end(&self, epoch: Epoch) -> bool {
        self.change(epoch, |now| now & !OPEN).is_ok_and(|before| before & OPEN != 0)
    }

    #[inline]
    pub(crate) fn is_open(&self, epoch: Epoch) -> bool {
        self.0.load(SeqCst) & !(OPEN - 1) == pack(epoch, OPEN, 0)
    }

    /// Adds a user. Returns `false` if the use has none left.
    pub(crate) fn join(&self, epoch: Epoch) -> bool {
        self.change(epoch, |now| now + 1).is_ok()
    }

    /// Removes a user, if the use has any. Returns whether it was the last.
    pub(crate) fn leave(&self, epoch: Epoch) -> bool {
        self.change(epoch, |now| now - 1).is_ok_and(|before| before & (OPEN - 1) == 1)
    }

    pub(crate) fn are_any(&self, epoch: Epoch) -> bool {
        is_counted(self.0.load(SeqCst), epoch)
    }

    fn change(&self, epoch: Epoch, change: impl Fn(u64) -> u64) -> Result<u64, u64> {
        self.0.fetch_update(SeqCst, SeqCst, |now| is_counted(now, epoch).then(|| change(now)))
    }
}

/// Whether the word belongs to this use and has a count that is neither zero nor full.
fn is_counted(word: u64, epoch: Epoch) -> bool {
    (pack(epoch, 0, 1)..pack(epoch, 0, OPEN - 1)).contains(&(word & !OPEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_joins_a_use_that_has_ended() {
        let users = RefCount::none();
        assert!(!users.join(Epoch(0)), "none has begun");
        for epoch in [Epoch(0), Epoch(1), Epoch::LAST] {
            let others = [epoch.next(), Epoch(epoch.0.wrapping_sub(1) & Epoch::LAST.0)];
            users.begin(epoch);
            assert!(users.join(epoch) && !others.iter().any(|&other| users.join(other) || users.leave(other)));
            assert!(users.is_open(epoch) && !others.iter().any(|&other| users.is_open(other) || users.end(other)));
            assert!(!users.leave(epoch));
            assert!(users.end(epoch) && !users.end(epoch) && !users.is_open(epoch), "once");
            assert!(users.are_any(epoch) && users.leave(epoch), "the last");
            assert!(!users.join(epoch) && !users.leave(epoch) && !users.are_any(epoch));
        }
    }
}
