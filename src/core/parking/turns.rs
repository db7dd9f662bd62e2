//! How turns of a timer begin and end, whoever makes them: the driver, a stand-in, or the driver's own alarm.

use std::sync::Arc;
use std::task::Waker;

use super::{DriverWaker, Parking, WakesBy, wake};
use crate::clock::instant;
use crate::core::alarm::SharedAlarm;
use crate::core::parker::Phase;
use crate::util::sync;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

impl Parking {
    /// The driver is about to look at the shards. `waker` wakes its task.
    pub(crate) fn begin_turn(&self, waker: DriverWaker) {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return;
        }
        plan.look();
        plan.is_expected = false;
        self.certain.store(u64::MAX, SeqCst);
        let before = plan.waker.replace(waker);
        drop(plan);
        drop(before);
    }

    /// A stand-in is about to look at the shards, at the time `now`. Returns `false` if the timer has ended, a test shows
    /// its time, or the driver has come and turns.
    pub(crate) fn begin_turn_as_stand_in(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        let driver_turns = matches!(plan.phase(), Phase::Looking { .. }) && !plan.is_expected && !self.is_driverless();
        if !plan.is_open || self.clock.is_shown() || driver_turns {
            return false;
        }
        if !self.is_driverless() {
            self.unconfirmed.add(now);
        }
        self.expect_driver(&mut plan);
        true
    }

    /// Whether a test has paused the clock of the driver's runtime, which a stand-in has to check before it turns.
    pub(crate) fn is_paused(&self) -> bool {
        let Some(runtime) = self.parker.lock().runtime.clone() else { return false };
        let _entered = runtime.enter();
        !instant::clock_is_the_systems()
    }

    /// A stand-in has more to do. The alarm thread calls it again, after other bookings that are due. Other turns may
    /// have missed what is left.
    pub(crate) fn call_again(&self) {
        let plan = self.parker.lock();
        if matches!(plan.phase(), Phase::Looking { .. }) && plan.is_expected {
            self.book(sync::now());
        }
        self.turn_by(plan, Tick::ZERO);
    }

    /// A turn at the time `now` has looked. The next begins at `earliest`, or later if timers are to be coalesced.
    /// Returns when the driver will wake at the latest, or `None` if it has to look again.
    pub(crate) fn end_turn(&self, now: Tick, earliest: Tick, by: WakesBy) -> Option<Tick> {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return Some(Tick::MAX);
        }
        // On a paused clock no time passes in which to wait for company.
        let waits = !matches!(by, WakesBy::Itself | WakesBy::NowAndThen);
        let coalesce = if waits { plan.coalesce.after_turn(now) } else { plan.coalesce };
        let earliest = if waits { coalesce.earliest_turn(earliest) } else { earliest };
        // Another turn has ended meanwhile, and may have found an earlier deadline.
        let alarm_serves = matches!(plan.wakes_by, WakesBy::Thread | WakesBy::ThreadOrTokio);
        if alarm_serves && plan.wakes_by(earliest) {
            return Some(earliest);
        }
        // An alarm of the driver's own that the other turn has set may have been cleared since, so it is set anew.
        let other_found = if plan.phase() == Phase::Parked { self.next_wake() } else { Tick::MAX };
        let earliest = earliest.min(other_found);
        if !plan.park(earliest) {
            return None;
        }
        if self.clock.is_shown() {
            plan.leave();
            return Some(earliest);
        }
        plan.wakes_by = by;
        plan.coalesce = coalesce;
        self.set_alarm(&mut plan, earliest);
        Some(earliest)
    }

    /// Wakes `waker` when the timer ends or its clock runs. Returns `false` if no test shows the time.
    pub(crate) fn wait_while_shown(&self, waker: &Waker) -> bool {
        let waker = DriverWaker { waker: waker.clone(), is_foreign: true };
        let mut plan = self.parker.lock();
        if !self.clock.is_shown() {
            drop(plan);
            return false;
        }
        let before = plan.waker.replace(waker);
        if plan.is_open {
            drop(plan);
        } else {
            // The timer ended meanwhile: the driver completes when it is polled again.
            wake(plan);
        }
        drop(before);
        true
    }

    /// A turn stops before it is done, and the driver has woken its own task.
    pub(crate) fn interrupt_turn(&self) {
        let mut plan = self.parker.lock();
        if let Phase::Looking { .. } = plan.phase() {
            plan.is_expected = true;
            if instant::clock_is_the_systems() {
                self.watch_driver(&mut plan);
            }
        }
    }

    /// The driver's own alarm has gone off, and whoever it called looks at the shards in the driver's place. Returns the
    /// alarm; `None` if the timer has ended or has no such alarm.
    pub(crate) fn begin_turn_inline(&self) -> Option<Arc<dyn SharedAlarm>> {
        let mut plan = self.parker.lock();
        let alarm = plan.alarm.clone()?;
        if plan.looks_at.is_none() {
            self.watch_driver(&mut plan);
        }
        self.expect_driver(&mut plan);
        Some(alarm)
    }

    /// A turn in the driver's place was not through.
    pub(crate) fn wake_late_driver(&self) {
        let mut plan = self.parker.lock();
        if let Phase::Looking { .. } = plan.phase() {
            plan.is_expected = true;
            self.watch_driver(&mut plan);
        }
        wake(plan);
    }
}
