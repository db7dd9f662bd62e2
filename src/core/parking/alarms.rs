//! What a [`Parking`] sets to be woken: the alarm thread, the driver's own alarm, or both.

use std::sync::Arc;
use std::time::Instant;

use super::{ALARM_MAY_LAG, BETWEEN_LOOKS, NOW_AND_THEN, PATIENCE_WITH_OWN_ALARM, Parking, Plan, WakesBy};
use crate::core::alarm::SharedAlarm;
use crate::core::alarm::thread;
use crate::core::parker::Locked;
use crate::util::sync;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

impl Parking {
    /// Sets what wakes the driver at a tick.
    pub(super) fn set_alarm(&self, plan: &mut Locked<'_, Plan>, tick: Tick) {
        // For never, an alarm that goes off for nothing costs less than to take it back each time.
        if plan.wakes_by == WakesBy::OwnAlarm && tick < Tick::MAX && !self.set_own_alarm(plan, tick) {
            plan.wakes_by = WakesBy::Thread;
        }
        let certain = match plan.wakes_by {
            WakesBy::Thread => tick + ALARM_MAY_LAG,
            WakesBy::OwnAlarm if plan.runtime.is_none() => tick + ALARM_MAY_LAG,
            _ => Tick::MAX,
        };
        self.certain.store(certain.0, SeqCst);
        if plan.wakes_by == WakesBy::OwnAlarm {
            if tick < Tick::MAX {
                self.look_at(plan, self.late(tick));
            }
            return;
        }
        plan.looks_at = None;
        match plan.wakes_by {
            WakesBy::Thread | WakesBy::ThreadOrTokio => self.book_for(tick),
            WakesBy::NowAndThen if tick < Tick::MAX => self.book(sync::now() + NOW_AND_THEN),
            WakesBy::OwnAlarm | WakesBy::NowAndThen | WakesBy::Itself => thread::cancel(self.id),
        }
    }

    /// `false` if the program has closed the alarm's file, or if this is a forked process and the alarm its parent's.
    fn set_own_alarm(&self, plan: &Locked<'_, Plan>, tick: Tick) -> bool {
        let at = self.clock.instant_of(tick).into_std();
        plan.alarm.as_ref().is_some_and(|alarm| alarm.set(at).is_ok())
    }

    /// From when on a driver is late whose own alarm goes off at a tick.
    pub(super) fn late(&self, tick: Tick) -> Instant {
        self.clock.instant_of(tick).into_std() + PATIENCE_WITH_OWN_ALARM
    }

    /// Makes the alarm thread look at an instant, or earlier if it looks earlier anyway.
    pub(super) fn look_at(&self, plan: &mut Locked<'_, Plan>, at: Instant) {
        if plan.looks_at.is_none_or(|before| at + BETWEEN_LOOKS < before) {
            plan.looks_at = Some(at);
            self.book(at);
        }
    }

    /// From now on this is what is set for [`WakesBy::OwnAlarm`].
    pub(crate) fn use_alarm(&self, alarm: Arc<dyn SharedAlarm>) {
        let mut plan = self.parker.lock();
        let before = if plan.is_open { plan.alarm.replace(alarm) } else { None };
        drop(plan);
        drop(before);
    }

    /// Books a call of the alarm thread at a tick. The lock is held.
    pub(super) fn book_for(&self, tick: Tick) {
        if tick == Tick::MAX {
            thread::cancel(self.id);
        } else {
            self.book(self.clock.instant_of(tick).into_std());
        }
    }

    pub(super) fn book(&self, at: Instant) {
        if let Some(booker) = self.booker.get() {
            thread::book(self.id, at, *booker);
        }
    }

    /// When the alarm thread will call.
    #[cfg(test)]
    pub(crate) fn booked(&self) -> Option<Instant> {
        thread::booked(self.id)
    }
}
