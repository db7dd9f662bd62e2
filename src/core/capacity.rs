//! [`Capacity`]: the limit on entries over all shards of a timer or a map, and the number of refused entries.
//
// Invariants
// 1. If there is a limit, `taken` is never less than the number of entries, and equals it while no shard is locked.
// 2. Without a limit nothing is counted, and threads share no memory here.
//
// They hold because an entry takes its room before it is inserted, and gives it back after it was removed, before its
// shard is unlocked.

use crate::util::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

    pub(crate) fn open(&self, most: Option<usize>) {
        self.most.store(most.unwrap_or(NONE), Ordering::SeqCst);
        self.taken.store(0, Ordering::SeqCst);
        self.refused.store(0, Ordering::SeqCst);
    }

    pub(crate) fn most(&self) -> Option<usize> {
        Some(self.most.load(Ordering::Acquire)).filter(|&most| most != NONE)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.most.load(Ordering::Relaxed) != NONE
    }

    /// Reserves `room` for an entry. If there is none, returns the number of entries.
    #[inline]
    pub(crate) fn take(&self, room: usize) -> Result<(), usize> {
        match self.most.load(Ordering::Relaxed) {
            NONE => Ok(()),
            most => {
                // What was reset while it waited may take more than there is.
                let more = |taken| (room == 0 || taken + room <= most).then_some(taken + room);
                self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map(drop)
            }
        }
    }

    #[cold]
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// An entry that waits takes other room than before. This cannot be refused.
    #[cold]
    pub(crate) fn change(&self, before: usize, after: usize) {
        // In one step: between two, another thread would be refused although there is room.
        let difference = after.wrapping_sub(before);
        if difference != 0 {
            self.taken.fetch_add(difference, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn give(&self, entries: usize) {
        if entries > 0 && self.is_limited() {
            self.taken.fetch_sub(entries, Ordering::Relaxed);
        }
    }
}
