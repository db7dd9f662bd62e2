//! A turn, from its start to its end: fires what is due, within limits.
//
// Invariants
// 1. A turn does not lock a shard in which nothing is due. It wakes about 1,024 tasks at most, and takes at most
//    256 locks before other tasks run; for a clock that a test has moved, as many as are due.
// 2. A thread that fires timers holds the engine while it does.

use super::{Engine, EngineState, TimerHold, TimerLease};
use crate::clock::source;
use crate::core::parker::{Locked, Phase, Then};
use crate::core::wake_list::WakeList;
use crate::util::sync;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

/// Who runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The runtime's I/O driver, in the middle of its pass: it has reported all that came before the alarm.
    Event,
    /// The driver's task, after a pass.
    Pass,
    /// tokio's timers, on a paused clock. Only the driver's task can set the alarm again.
    PausedClock,
    /// The driver's task on a paused clock. It fires only what the last turn has left, and sets its own alarm.
    Driver,
    /// A helper, for a timer without a driver.
    Helper,
}

impl By {
    /// Whether time stands still meanwhile, so a turn fires all that is due.
    fn fires_all(self) -> bool {
        matches!(self, By::PausedClock | By::Driver)
    }
}

/// The maximum number of scans in a turn. A turn repeats its scan if earlier deadlines are registered during it.
const SCANS: usize = 8;

/// How many tasks a turn may wake before it lets others run. Each lock hold counts as at least `HOLD`.
const WORK: usize = 1024;

const HOLD: usize = 4;

impl Engine {
    /// Begins a turn, and returns a list for its wakers. It does not if the timer has ended, while a test sets the
    /// time, or during another turn, which then scans again or calls the driver.
    pub(crate) fn begin_turn(&self, by: By) -> Option<WakeList> {
        let mut state = self.parker.lock();
        let begun = !self.clock.is_shown() && state.claim();
        state.called = None;
        let calls = match by {
            By::Driver => !begun,
            By::PausedClock => begun,
            By::Event | By::Pass | By::Helper => false,
        };
        if calls {
            state.call_after_scan();
        }
        begun.then(WakeList::default)
    }

    /// Ends a turn that `fired` timers by `now` and found `earliest`. Returns when the next turn begins, which may be
    /// later than `earliest` if timers are coalesced, or `None` if this turn has to scan again.
    pub(super) fn end_turn(&'static self, now: Tick, fired: usize, earliest: Tick) -> Option<Tick> {
        let mut state = self.parker.lock();
        if !self.goes_on(&mut state) {
            return Some(Tick::MAX);
        }
        if state.phase() == Phase::Scanning(Then::Call) {
            self.call(state);
            return Some(Tick::MAX);
        }
        // tokio rounds anyway, and no time passes on a paused clock.
        let waits = !state.alarm.is_tokios();
        let coalesce = if waits { state.coalesce.after_turn(now, fired, earliest) } else { state.coalesce };
        let earliest = if waits { coalesce.earliest_turn(earliest) } else { earliest };
        if !state.park(earliest) {
            return None;
        }
        state.coalesce = coalesce;
        self.set_alarm(&mut state, earliest);
        Some(earliest)
    }

    /// Ends a turn early. The next has to begin soon. After a pass, the driver's task wakes itself.
    pub(crate) fn interrupt_turn(&'static self, by: By) {
        let mut state = self.parker.lock();
        if !self.goes_on(&mut state) {
            return;
        }
        if by == By::Pass {
            state.leave();
            self.watch(&mut state, sync::now());
        } else {
            self.call(state);
        }
    }

    /// Whether another turn follows the one that is ending.
    fn goes_on(&'static self, state: &mut Locked<'_, EngineState>) -> bool {
        if self.clock.is_shown() && !state.is_closed() {
            state.leave();
        }
        matches!(state.phase(), Phase::Scanning(_))
    }
}

impl TimerLease {
    /// Runs a turn, unless the timer has ended, a test sets the time, or another turn is in progress, which then scans
    /// again. Fires what is due `until` a tick that the runtime's pass came after. `earliest` finds the earliest
    /// remaining deadline. Returns `None` if more timers are due, and otherwise when the next turn begins, if that is
    /// known.
    pub(crate) fn run_turn(self, by: By, until: Tick, earliest: fn(TimerLease) -> Tick) -> Option<Tick> {
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
    fn scan(self, by: By, until: Tick, earliest: fn(TimerLease) -> Tick, wakes: &mut WakeList) -> Option<Tick> {
        let (mut work, mut fired) = (WORK, 0);
        // Read once: the runtime does not look at its sockets during a turn.
        let now = self.now();
        let until = until.min(now);
        for _ in 0..SCANS {
            // An empty shard has work at the tick after the last: never.
            let due = until.min(source::LAST);
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
        self.engine().turn_count.fetch_add(1, SeqCst);
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
                work = work.saturating_sub(woken.max(HOLD));
                rests = false;
            }
            if rests {
                return (fired, Some(work));
            }
        }
    }
}

impl TimerHold {
    /// Runs turns as long as timers are due.
    pub(super) fn turn_without_a_driver(&self) {
        while self.lease().run_turn(By::Helper, Tick::MAX, TimerLease::earliest).is_none() {}
    }
}
