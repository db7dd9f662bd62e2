//! A turn: fires what is due in all shards, within limits.
//
// Invariants
// 1. A turn does not lock a shard in which nothing is due. It wakes about 1,024 tasks at most, and takes at most
//    256 locks before other tasks run; for a clock that a test has moved, as many as are due.
// 2. A thread that fires timers keeps the memory while it does.
//
// They hold because a turn reads `next` of a shard before it locks it, counts what it does, and is run only by what has
// a guard.

use super::{TimerGuard, TimerLease};
use crate::clock::source;
use crate::core::engine::Runner;
use crate::core::wake_list::WakeList;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

/// The maximum number of scans in a turn. A turn repeats its scan if earlier deadlines are registered during it.
const SCANS: usize = 8;

/// How many tasks a turn may wake before it lets others run. Each lock hold counts as at least `LEAST`.
const WORK: usize = 1024;

const LEAST: usize = 4;

impl TimerLease {
    /// Runs a turn, unless the timer has ended, a test sets the time, or another turn is in progress, which then scans
    /// again. Fires what is due `until` a tick that the runtime's pass came after. `earliest` finds the earliest
    /// remaining deadline. Returns `None` if more timers are due, and otherwise when the next turn begins, if that is
    /// known.
    pub(crate) fn run_turn(self, by: Runner, until: Tick, earliest: fn(TimerLease) -> Tick) -> Option<Tick> {
        let Some(mut wakes) = self.engine().begin_turn(by) else {
            return Some(Tick::MAX);
        };
        let next = self.scan(by, until, earliest, &mut wakes);
        if next.is_none() {
            self.engine().interrupt_turn(by);
        }
        self.close_if_unneeded();
        next
    }

    /// Scans until the turn has ended: returns when the next begins, or `None` if more is left to do.
    fn scan(self, by: Runner, until: Tick, earliest: fn(TimerLease) -> Tick, wakes: &mut WakeList) -> Option<Tick> {
        let (mut work, mut fired) = (WORK, 0);
        // Read once: the runtime does not look at its sockets during a turn.
        let now = self.now();
        let until = until.min(now);
        // An empty shard has work at the tick after the last: never.
        let due = until.min(source::LAST);
        for _ in 0..SCANS {
            let (woken, left) = self.fire_some(due, now, if by.fires_all() { usize::MAX } else { work }, wakes);
            work = left?;
            self.engine().reach(until);
            fired += woken;
            if let Some(at) = self.engine().end_turn(due, fired, earliest(self)) {
                return Some(at);
            }
        }
        None
    }

    /// Fires all entries due at `at`. Returns how many tasks it woke.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn fire_at(self, at: Tick) -> usize {
        self.engine().reach(at);
        // A thread that registers may have read the time before a test moved it. Its deadline is published when it
        // unlocks.
        if self.engine().clock.is_shown() {
            self.all().iter().for_each(|shard| drop(shard.lock()));
        }
        self.fire_some(at, at, usize::MAX, &mut WakeList::default()).0
    }

    /// Fires entries due at `at`, within the limit of `work`. It is `now`, or earlier. Returns how many, and the
    /// remaining `work` if it fired all.
    fn fire_some(self, at: Tick, now: Tick, mut work: usize, wakes: &mut WakeList) -> (usize, Option<usize>) {
        self.memory.turn_count.fetch_add(1, SeqCst);
        let mut fired = 0;
        // One lock hold per shard and round: a shard with many due entries does not delay the others.
        loop {
            let mut rests = true;
            for shard in self.all().iter().filter(|shard| shard.next() <= at) {
                if work == 0 {
                    return (fired, None);
                }
                let woken = shard.fire(at, now, wakes);
                fired += woken;
                work = work.saturating_sub(woken.max(LEAST));
                rests = false;
            }
            if rests {
                return (fired, Some(work));
            }
        }
    }
}

impl TimerGuard {
    /// Runs turns as long as timers are due.
    pub(super) fn turn_without_a_driver(&self) {
        while self.lease().run_turn(Runner::Helper, Tick::MAX, TimerLease::earliest).is_none() {}
    }
}
