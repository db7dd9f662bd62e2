//! [`Shards`]: the shards of one timer, and the turn that fires their due entries.
//
// Invariants
// 1. A turn does not lock a shard in which nothing is due. It wakes about 1,024 tasks at most, or 64 without a driver,
//    and takes at most 256 locks before other tasks run.
//
// Must not know: which timer uses this memory.

use crate::core::capacity::Capacity;
use crate::core::epoch::Holders;
use crate::core::schedule::Schedule;
use crate::core::shard::{Shard, WAKES, WakeList};
use crate::util::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::util::sync::keep;
use crate::wheel::Tick;

/// The memory of a timer. It is never freed.
pub(crate) struct Shards {
    pub(crate) schedule: &'static Schedule,
    pub(crate) all: Vec<&'static Shard>,
    pub(crate) capacity: &'static Capacity,
    /// How many of the shards the current timer uses.
    pub(crate) used: AtomicUsize,
    pub(crate) turns: AtomicU64,
    /// The epoch of the current use, or of the next.
    pub(crate) epoch: AtomicU32,
    pub(crate) holders: Holders,
}

/// The maximum number of scans in a turn. A turn repeats its scan if earlier deadlines are registered during it.
const SCANS: usize = 8;

/// How many tasks a turn may wake before it lets others run. Each lock hold counts as at least `HOLD`.
const WORK: usize = 1024;

const HOLD: usize = 4;

impl Shards {
    pub(crate) fn new(shards: usize) -> &'static Shards {
        let schedule = keep!(Schedule, Schedule::new());
        let capacity = keep!(Capacity, Capacity::new());
        let all = (0..shards).map(|_| keep!(Shard, Shard::new(schedule, capacity))).collect();
        let (used, turns, epoch) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU32::new(0));
        keep!(Shards, Shards { schedule, all, capacity, used, turns, epoch, holders: Holders::none() })
    }

    pub(crate) fn all(&self) -> &[&'static Shard] {
        &self.all[..self.used.load(Ordering::Relaxed)]
    }

    /// From now on, makes the driver notice removals: a paused clock must not jump to removed deadlines, and a replaced
    /// timer ends with its last entry.
    pub(crate) fn publish_removals(&self) {
        self.all().iter().for_each(|shard| shard.publish_removals());
    }

    pub(crate) fn first_deadline(&self) -> Tick {
        self.all().iter().map(|shard| shard.first_deadline()).min().unwrap_or(Tick::MAX)
    }

    /// Scans until the turn has ended: returns when the next begins, or `None` if more is left to do.
    pub(crate) fn scan(&self, at: Option<Tick>, earliest: fn(&Shards) -> Tick, list: &mut WakeList) -> Option<Tick> {
        let (mut work, mut fired) = (if list.later { WAKES } else { WORK }, 0);
        for _ in 0..SCANS {
            let now = at.unwrap_or_else(|| self.schedule.clock.now());
            let (wakes, left) = self.fire_some(now, if at.is_some() { usize::MAX } else { work }, list);
            work = left?;
            fired += wakes;
            if let Some(at) = self.schedule.end_turn(now, fired, earliest(self)) {
                return Some(at);
            }
        }
        None
    }

    /// Fires all entries due at `at`. Returns how many tasks it woke.
    pub(crate) fn fire_at(&self, at: Tick) -> usize {
        // A thread that registers may have read the time before a test moved it. Its deadline is published when it
        // unlocks.
        if self.schedule.clock.is_shown() {
            self.all().iter().for_each(|shard| drop(shard.lock()));
        }
        self.fire_some(at, usize::MAX, &mut WakeList::default()).0
    }

    /// Fires entries due at `at`, within the limit of `work`. Returns how many, and the remaining `work` if it fired
    /// all.
    fn fire_some(&self, at: Tick, mut work: usize, list: &mut WakeList) -> (usize, Option<usize>) {
        self.turns.fetch_add(1, Ordering::Release);
        let mut wakes = 0;
        // One lock hold per shard and round: a shard with many due entries does not delay the others.
        loop {
            let mut rests = true;
            for shard in self.all().iter().filter(|shard| shard.next() <= at) {
                if work == 0 {
                    return (wakes, None);
                }
                let woken = shard.fire(at, list);
                wakes += woken;
                work = work.saturating_sub(woken.max(HOLD));
                rests = false;
            }
            if rests {
                return (wakes, Some(work));
            }
        }
    }

    pub(crate) fn earliest(&self) -> Tick {
        self.all().iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX)
    }
}
