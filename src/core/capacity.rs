//! [`Limit`]: how many entries a timer may have over all its shards.
//!
//! Invariants
//! 1. Of a timer with a limit, `taken` is never less than its entries, and equal to them while no shard is locked.
//! 2. A timer without one is not counted here: its threads share no memory for it.
//!
//! Must not know: shards.

use crate::util::sync::atomic::{AtomicUsize, Ordering};

/// A limit of this many is none.
const NONE: usize = usize::MAX;

pub(crate) struct Limit {
    most: AtomicUsize,
    taken: AtomicUsize,
}

impl Limit {
    pub(crate) fn new() -> Self {
        Limit { most: AtomicUsize::new(NONE), taken: AtomicUsize::new(0) }
    }

    /// A timer begins, with none of its entries in a shard yet.
    pub(crate) fn open(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(NONE), Ordering::SeqCst);
        self.taken.store(0, Ordering::SeqCst);
    }

    #[inline]
    fn is_none(&self) -> bool {
        self.most.load(Ordering::Relaxed) == NONE
    }

    /// Takes room for an entry that is about to be inserted. Where there is none, says how many there are.
    #[inline]
    pub(crate) fn take(&self) -> Result<(), usize> {
        if self.is_none() {
            return Ok(());
        }
        let most = self.most.load(Ordering::Relaxed);
        let more = |taken| if taken < most { Some(taken + 1) } else { None };
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop)
    }

    /// Gives back the room of entries that were taken out.
    #[inline]
    pub(crate) fn give(&self, entries: usize) {
        if entries > 0 && !self.is_none() {
            self.taken.fetch_sub(entries, Ordering::Relaxed);
        }
    }
}
