//! [`Capacity`]: how many entries a timer may have over all its shards.
//
// Invariants
// 1. If a timer has a limit, `taken` is never less than its entries, and equals them while no shard is locked.
// 2. A timer without a limit is not counted here: its threads share no memory for it.

use crate::util::sync::atomic::{AtomicUsize, Ordering};

/// Stands for no limit.
const NONE: usize = usize::MAX;

pub(crate) struct Capacity {
    most: AtomicUsize,
    taken: AtomicUsize,
}

impl Capacity {
    pub(crate) fn new() -> Self {
        Capacity { most: AtomicUsize::new(NONE), taken: AtomicUsize::new(0) }
    }

    /// Begins a timer, which has no entries yet.
    pub(crate) fn open(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(NONE), Ordering::SeqCst);
        self.taken.store(0, Ordering::SeqCst);
    }

    /// Takes room for an entry that is about to be inserted. If there is none, returns the number of entries.
    #[inline]
    pub(crate) fn take(&self) -> Result<(), usize> {
        match self.most.load(Ordering::Relaxed) {
            NONE => Ok(()),
            most => {
                let more = |taken| if taken < most { Some(taken + 1) } else { None };
                self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop)
            }
        }
    }

    /// Gives back the room of entries that were taken out.
    #[inline]
    pub(crate) fn give(&self, entries: usize) {
        if entries > 0 && self.most.load(Ordering::Relaxed) != NONE {
            self.taken.fetch_sub(entries, Ordering::Relaxed);
        }
    }
}
