//! [`Capacity`]: how many entries a timer or a map may have over all its shards, and how many it has refused.
//
// Invariants
// 1. If there is a limit, `taken` is never less than the entries, and equals them while no shard is locked.
// 2. Without a limit nothing is counted here: threads share no memory for it.

use crate::util::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stands for no limit.
const NONE: usize = usize::MAX;

pub(crate) struct Capacity {
    most: AtomicUsize,
    taken: AtomicUsize,
    refused: AtomicU64,
}

impl Capacity {
    pub(crate) fn new() -> Self {
        Capacity { most: AtomicUsize::new(NONE), taken: AtomicUsize::new(0), refused: AtomicU64::new(0) }
    }

    /// Begins a timer, which has no entries yet.
    pub(crate) fn open(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(NONE), Ordering::SeqCst);
        self.taken.store(0, Ordering::SeqCst);
        self.refused.store(0, Ordering::SeqCst);
    }

    /// The limit, if there is one.
    pub(crate) fn most(&self) -> Option<usize> {
        Some(self.most.load(Ordering::Acquire)).filter(|&most| most != NONE)
    }

    /// How many entries were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Acquire)
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

    /// Counts an entry that was refused for want of room.
    #[cold]
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back the room of entries that were taken out.
    #[inline]
    pub(crate) fn give(&self, entries: usize) {
        if entries > 0 && self.most.load(Ordering::Relaxed) != NONE {
            self.taken.fetch_sub(entries, Ordering::Relaxed);
        }
    }
}
