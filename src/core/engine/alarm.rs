//! The alarm of an engine: when the alarm thread calls, and what it does then.
//!
//! If the runtime waits for the alarm itself, in a `timerfd`, the thread checks from time to time that it does. It
//! never turns for a runtime: it wakes the driver's task, whose poll brings an idle worker to the runtime's own
//! drivers.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::{Engine, EngineState, wake};
use crate::clock::{self, source};
use crate::core::alarm::TurnAlarm;
use crate::core::alarm::thread::{self, AlarmHandler};
use crate::core::parker::{Locked, Phase};
use crate::util::sync;
use crate::wheel::Tick;

/// How long a driver's task that was woken may take to bring a turn until another worker polls it; each time, twice as
/// long. Without a driver, how long a turn may take to begin before the helper thread is called again.
pub(super) const PATIENCE: Duration = Duration::from_millis(1);

/// The longest time between two such calls.
pub(super) const LONGEST_PATIENCE: Duration = Duration::from_secs(1);

/// How late the report of a `timerfd` may be before the driver's task is woken, for another worker to come to the I/O
/// driver. `PATIENCE`, if one was late within `DISTRUST`: a worker that took its events, and then blocks, does not look
/// for the next.
pub(crate) const PATIENCE_WITH_TIMERFD: Duration = Duration::from_millis(5);

const DISTRUST: Duration = Duration::from_secs(1);

/// The minimum time between checks of a `timerfd` that was on time.
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

pub(super) enum Due {
    Nothing,
    Wake(Waker),
    /// Send a helper to run a turn: there is no driver.
    Helper,
}

impl EngineState {
    fn is_distrusted(&self, now: Instant) -> bool {
        self.was_late.is_some_and(|late| now < late + DISTRUST)
    }

    /// A turn is to come. If the driver's task was woken and not polled since, it will be; nobody else can turn.
    fn turn_is_due(&mut self) -> Due {
        if self.is_driverless {
            return Due::Helper;
        }
        self.called.get_or_insert_with(sync::now);
        self.driver.take().map_or(Due::Nothing, Due::Wake)
    }

    /// How late a turn may be before the alarm thread wakes the driver's task; `None` if it does not.
    fn patience(&self, now: Instant) -> Option<Duration> {
        match &self.alarm {
            TurnAlarm::Tokio(_) | TurnAlarm::Paused => None,
            TurnAlarm::Thread => Some(Duration::ZERO),
            TurnAlarm::Timerfd(alarm) if self.is_distrusted(now) => alarm.patience.map(|time| time.min(PATIENCE)),
            TurnAlarm::Timerfd(alarm) => alarm.patience,
        }
    }
}

impl Engine {
    /// Lets a turn begin soon, and unlocks.
    pub(super) fn call(&'static self, mut state: Locked<'_, EngineState>) {
        state.leave();
        let now = sync::now();
        if state.is_driverless {
            self.watch(&mut state, now);
        } else if state.needs_driver(state.is_paused()) {
            wake(state);
        } else if !self.set_off_alarm(&mut state) {
            // Not woken from here: tokio keeps a task that a worker wakes for that worker, which may compute.
            state.called.get_or_insert(now);
            self.book(now);
        }
    }

    /// Makes the alarm go off at once. Returns `false` if that is not in the runtime, but the alarm thread's.
    pub(super) fn set_off_alarm(&'static self, state: &mut Locked<'_, EngineState>) -> bool {
        match &mut state.alarm {
            TurnAlarm::Timerfd(alarm) if !alarm.set(source::system_now()) => state.alarm = TurnAlarm::Thread,
            TurnAlarm::Tokio(sleep) => sleep.set_soon(Tick::ZERO),
            _ => {}
        }
        self.watch(state, sync::now());
        matches!(state.alarm, TurnAlarm::Timerfd(_) | TurnAlarm::Tokio(_))
    }

    /// Lets the alarm thread look in a while whether a turn has come. If only the driver sets the alarm, it need not.
    pub(super) fn watch(&'static self, state: &mut Locked<'_, EngineState>, now: Instant) {
        let Some(patience) = state.patience(now) else { return };
        let since = *state.called.get_or_insert(now);
        let at = now + now.duration_since(since).max(patience).clamp(PATIENCE, LONGEST_PATIENCE);
        // A helper that runs turn after turn keeps the check that is booked.
        if state.is_driverless && state.checks_at.is_some_and(|before| before <= at) {
            return;
        }
        self.check_at(state, now, at);
    }

    /// Called by the alarm thread.
    pub(super) fn due(&'static self) -> Due {
        let mut state = self.parker.lock();
        state.checks_at = None;
        match state.phase() {
            Phase::Closed | Phase::Scanning(_) => Due::Nothing,
            _ if self.clock.is_shown() => Due::Nothing,
            Phase::Idle => self.alarm_in_time(state),
            Phase::Away => state.turn_is_due(),
        }
    }

    /// Handles the alarm in phase `Idle`.
    fn alarm_in_time(&'static self, mut state: Locked<'_, EngineState>) -> Due {
        let (now, next_wake) = (sync::now(), self.next_wake());
        let patience = state.patience(now).filter(|_| next_wake < Tick::MAX);
        let Some(patience) = patience else { return Due::Nothing };
        if clock::instant_of(next_wake).into_std() + patience > now {
            // The booking was replaced just before the call, or a check has found nothing: the next is not due soon.
            state.checks_at = Some(now);
            self.set_alarm(&mut state, next_wake);
            return Due::Nothing;
        }
        if matches!(&state.alarm, TurnAlarm::Timerfd(alarm) if alarm.patience == Some(PATIENCE_WITH_TIMERFD)) {
            state.was_late = Some(now);
        }
        state.leave();
        state.turn_is_due()
    }

    pub(super) fn set_alarm(&'static self, state: &mut Locked<'_, EngineState>, tick: Tick) {
        if tick < Tick::MAX {
            match &mut state.alarm {
                // In a forked process. The driver keeps the alarm.
                TurnAlarm::Timerfd(alarm) if !alarm.set(tick) => state.alarm = TurnAlarm::Thread,
                TurnAlarm::Tokio(sleep) => sleep.set_soon(tick),
                _ => {}
            }
        }
        // A spurious wake-up is cheaper than disarming the alarm every time.
        let now = sync::now();
        match state.patience(now).filter(|_| tick < Tick::MAX) {
            None if matches!(state.alarm, TurnAlarm::Timerfd(_)) => {}
            None => self.cancel_check(state),
            Some(patience) => self.check_at(state, now, clock::instant_of(tick).into_std() + patience),
        }
    }

    /// Makes the alarm thread wake the driver's task at an instant, unless a turn comes before. For a `timerfd`,
    /// postpones a check that is due soon, to save a wake-up: it was on time, or has yet to go off. Not while it is
    /// distrusted.
    fn check_at(&'static self, state: &mut Locked<'_, EngineState>, now: Instant, at: Instant) {
        let is_trusted = matches!(&state.alarm, TurnAlarm::Timerfd(alarm) if alarm.patience != Some(Duration::ZERO));
        let is_trusted = is_trusted && !state.is_distrusted(now);
        let at = match state.checks_at {
            Some(before) if is_trusted && before < now + BETWEEN_CHECKS * 3 / 4 => at.max(now + BETWEEN_CHECKS),
            Some(before) if is_trusted && before < at + BETWEEN_CHECKS => return,
            _ => at,
        };
        state.checks_at = Some(at);
        self.book(at);
    }

    fn book(&'static self, at: Instant) {
        thread::book(self.id, at, self);
    }

    pub(super) fn cancel_check(&'static self, state: &mut EngineState) {
        state.checks_at = None;
        thread::cancel(self.id);
    }
}

impl AlarmHandler for Engine {
    fn alarm(&'static self) {
        #[cfg(test)]
        if self.ignores_alarm.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        match self.due() {
            Due::Nothing => {}
            Due::Wake(driver) => {
                self.io.check_if_due();
                driver.wake();
            }
            Due::Helper => self.above().turn_without_a_driver(),
        }
    }
}
