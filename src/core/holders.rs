//! [`Holders`]: who may still use a thing that is never freed, but used again by one user after the other.
//!
//! Invariants
//! 1. A use, named by a number of its own, begins with one holder and ends for good when the last leaves.
//! 2. Nobody joins a use that has ended, nor takes another for the one it names. So of a thing that waits for its next
//!    use there is no holder, and it is put back once a use.
//!
//! Must not know: what is held.

use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The number of the use in the upper half, how many hold it in the lower.
pub(crate) struct Holders(AtomicU64);

fn pack(usage: u32, holders: u32) -> u64 {
    u64::from(usage) << 32 | u64::from(holders)
}

impl Holders {
    /// Of a thing that nobody holds.
    pub(crate) fn none() -> Self {
        Holders(AtomicU64::new(0))
    }

    /// A use begins, with one holder. Only for whoever has the thing to itself.
    pub(crate) fn begin(&self, usage: u32) {
        self.0.store(pack(usage, 1), SeqCst);
    }

    /// One more holds the thing for a use; `false` if that has ended.
    pub(crate) fn join(&self, usage: u32) -> bool {
        let one_more = |now| (now > pack(usage, 0) && now < pack(usage, u32::MAX)).then(|| now + 1);
        self.0.fetch_update(SeqCst, SeqCst, one_more).is_ok()
    }

    /// One holds it no longer. Whether that was the last, who puts it back.
    pub(crate) fn leave(&self) -> bool {
        // The lower half is not zero: whoever leaves is counted there.
        let before = self.0.fetch_sub(1, SeqCst);
        before & u64::from(u32::MAX) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_joins_a_use_that_has_ended() {
        let holders = Holders::none();
        assert!(!holders.join(0), "none has begun");
        for usage in [0, 1, u32::MAX] {
            holders.begin(usage);
            assert!(
                holders.join(usage) && !holders.join(usage.wrapping_add(1)) && !holders.join(usage.wrapping_sub(1))
            );
            assert!(!holders.leave());
            assert!(holders.leave(), "the last");
            assert!(!holders.join(usage));
        }
    }
}
