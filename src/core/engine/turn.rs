//! The start and the end of a turn. What comes in between is up to the [memory](crate::core::memory).

use super::{Engine, EngineState};
use crate::core::parker::{Locked, Phase, Then};
use crate::core::wake_list::WakeList;
use crate::util::sync;
use crate::wheel::Tick;

/// Who runs a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runner {
    /// The runtime's I/O driver, in the middle of its pass: it has reported all that came before the alarm.
    IoDriver,
    /// The driver's task, after a pass.
    Task,
    /// tokio's timers, on a paused clock. Only the driver's task can set the alarm again.
    TokioTimers,
    /// The driver's task on a paused clock. It fires only what the last turn has left, and sets its own alarm.
    TaskOnPausedClock,
    /// The helper thread, for a timer without a driver.
    Helper,
}

impl Runner {
    /// Whether time stands still meanwhile, so a turn fires all that is due.
    pub(crate) fn fires_all(self) -> bool {
        matches!(self, Runner::TokioTimers | Runner::TaskOnPausedClock)
    }
}

impl Engine {
    /// Begins a turn, and returns a list for its wakers. It does not if the timer has ended, while a test sets the
    /// time, or during another turn, which then scans again or calls the driver.
    pub(crate) fn begin_turn(&self, by: Runner) -> Option<WakeList> {
        let mut state = self.parker.lock();
        let begun = !self.clock.is_shown() && state.claim();
        state.called = None;
        let calls = match by {
            Runner::TaskOnPausedClock => !begun,
            Runner::TokioTimers => begun,
            Runner::IoDriver | Runner::Task | Runner::Helper => false,
        };
        if calls {
            state.call_after_scan();
        }
        begun.then(WakeList::default)
    }

    /// Ends a turn that `fired` timers by `now` and found `earliest`. Returns when the next turn begins, which may be
    /// later than `earliest` if timers are coalesced, or `None` if this turn has to scan again.
    pub(crate) fn end_turn(&'static self, now: Tick, fired: usize, earliest: Tick) -> Option<Tick> {
        let mut state = self.parker.lock();
        if !self.turn_goes_on(&mut state) {
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
    pub(crate) fn interrupt_turn(&'static self, by: Runner) {
        let mut state = self.parker.lock();
        if !self.turn_goes_on(&mut state) {
            return;
        }
        if by == Runner::Task {
            state.leave();
            self.watch(&mut state, sync::now());
        } else {
            self.call(state);
        }
    }

    /// Whether another turn follows the one that is ending.
    fn turn_goes_on(&'static self, state: &mut Locked<'_, EngineState>) -> bool {
        if self.clock.is_shown() && !state.is_closed() {
            state.leave();
        }
        matches!(state.phase(), Phase::Scanning(_))
    }
}
