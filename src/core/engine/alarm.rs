//! The alarm of an engine: when the alarm thread calls, and what it does then.
//!
//! If the runtime waits for the alarm itself, in a `timerfd`, the thread checks from time to time that it does.

use std::task::Waker;
use std::time::{Duration, Instant};

use super::{Engine, EngineState};
use crate::clock;
use crate::core::alarm::TurnAlarm;
use crate::core::alarm::thread::{self, AlarmHandler};
use crate::core::helpers;
use crate::core::parker::{Locked, Phase};
use crate::util::sync::{self, MODELLED};
use crate::wheel::Tick;

/// How long a called driver may take until the alarm thread looks for its turn; each time, twice as long. Without a
/// driver, how long a turn may take to begin before another helper is sent.
pub(super) const PATIENCE: Duration = Duration::from_millis(1);

/// How long a runtime may fail to come to its drivers before a helper turns for it. A worker that computes is not a
/// runtime that nobody drives: what a helper fires has not seen the sockets.
pub(super) const PATIENCE_WITH_RUNTIME: Duration = Duration::from_secs(1);

/// How late a `timerfd` may be before the driver is called. `PATIENCE`, if it was late within `DISTRUST`: a worker that
/// took its event from the I/O driver, and then blocks, does not look for the next.
pub(super) const PATIENCE_WITH_TIMERFD: Duration = Duration::from_millis(5);

const DISTRUST: Duration = Duration::from_secs(1);

/// The minimum time between checks of a `timerfd` that was on time.
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);

pub(super) enum Due {
    Nothing,
    Wake(Waker),
    /// Send a helper to run a turn: there is no driver, or it was woken and is late.
    Helper,
}

impl EngineState {
    fn is_distrusted(&self, now: Instant) -> bool {
        self.was_late.is_some_and(|late| now < late + DISTRUST)
    }

    /// How late a turn may be before the alarm thread calls the driver; `None` if it does not.
    fn patience(&self, now: Instant) -> Option<Duration> {
        match self.alarm {
            TurnAlarm::DriverSleep | TurnAlarm::Nothing => None,
            TurnAlarm::Thread => Some(Duration::ZERO),
            TurnAlarm::Timerfd(_) if self.is_distrusted(now) => Some(PATIENCE),
            TurnAlarm::Timerfd(_) => Some(PATIENCE_WITH_TIMERFD),
        }
    }
}

impl Engine {
    /// Makes the alarm thread check that a turn follows a call of the driver, unless only the driver can set the alarm.
    pub(super) fn watch(&'static self, state: &mut Locked<'_, EngineState>) {
        let now = sync::now();
        if state.patience(now).is_none() {
            return;
        }
        let at = now + PATIENCE;
        // A helper that runs turn after turn keeps the check that is booked.
        if state.is_driverless && state.checks_at.is_some_and(|before| before <= at) {
            return;
        }
        state.called.get_or_insert(now);
        state.checks_at = state.is_driverless.then_some(at);
        self.book(at);
    }

    /// Called by the alarm thread.
    pub(super) fn due(&'static self) -> Due {
        let mut state = self.parker.lock();
        state.checks_at = None;
        match state.phase() {
            Phase::Closed | Phase::Scanning(_) => Due::Nothing,
            _ if self.clock.is_shown() => Due::Nothing,
            Phase::Idle => self.alarm_in_time(state),
            Phase::Away => self.call_again(state),
        }
    }

    /// The driver was called, and no turn has come.
    fn call_again(&'static self, mut state: Locked<'_, EngineState>) -> Due {
        let now = sync::now();
        let since = *state.called.get_or_insert(now);
        // Without a runtime, as in a model, there is no pass to wait for.
        let patience = if state.is_driverless || MODELLED { Duration::ZERO } else { PATIENCE_WITH_RUNTIME };
        if now.duration_since(since) >= patience {
            return Due::Helper;
        }
        self.book((now + now.duration_since(since).max(PATIENCE)).min(since + patience));
        // If it was polled meanwhile, its worker may block: another polls it now.
        state.driver.take().map_or(Due::Nothing, Due::Wake)
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
        if let TurnAlarm::Timerfd(_) = state.alarm {
            state.was_late = Some(now);
        }
        state.leave();
        let Some(driver) = state.driver.take() else { return self.call_again(state) };
        self.watch(&mut state);
        Due::Wake(driver)
    }

    pub(super) fn set_alarm(&'static self, state: &mut Locked<'_, EngineState>, tick: Tick) {
        if let TurnAlarm::Timerfd(alarm) = &state.alarm {
            // A spurious wake-up is cheaper than disarming the alarm every time. Setting it fails if the program has
            // closed the file, or in a forked process. The driver keeps the alarm.
            if tick < Tick::MAX && alarm.set(clock::instant_of(tick).into_std()).is_err() {
                state.alarm = TurnAlarm::Thread;
            }
        }
        let now = sync::now();
        match state.patience(now).filter(|_| tick < Tick::MAX) {
            None if matches!(state.alarm, TurnAlarm::Timerfd(_)) => {}
            None => self.cancel_check(state),
            Some(patience) => self.check_at(state, now, clock::instant_of(tick).into_std() + patience),
        }
    }

    /// Makes the alarm thread call the driver at an instant, unless a turn comes before. For a `timerfd`, postpones a
    /// check that is due soon, to save a wake-up: it was on time, or has yet to go off. Not while it is distrusted.
    fn check_at(&'static self, state: &mut Locked<'_, EngineState>, now: Instant, at: Instant) {
        let is_trusted = matches!(state.alarm, TurnAlarm::Timerfd(_)) && !state.is_distrusted(now);
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
        // Read first: the engine may serve another timer by the time that this one is found late.
        let timer = self.lease(self.holders.epoch());
        match self.due() {
            Due::Nothing => {}
            Due::Wake(driver) => {
                self.io.check_if_due();
                driver.wake();
            }
            Due::Helper => {
                if let Some(timer) = timer.try_hold() {
                    helpers::send(move || timer.help_the_driver());
                }
            }
        }
    }
}
