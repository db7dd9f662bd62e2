//! A [`Parking`] while somebody shows the time: nobody is woken for what is registered, as whoever moves the clock fires
//! what is due.

use super::Parking;
use crate::clock::source::Course;
use crate::core::alarm::thread;
use crate::wheel::Tick;

impl Parking {
    /// A timer begins whose time somebody shows, `now` to begin with.
    pub(crate) fn open_by_hand(&self, now: Tick) {
        self.driverless.store(false, super::SeqCst);
        self.unconfirmed.forget();
        self.clock.begin_to_show(now);
        self.begin().leave();
    }

    /// From now on somebody shows the time. `false` if the timer has ended.
    pub(crate) fn take_by_hand(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        if !plan.is_open {
            return false;
        }
        self.clock.begin_to_show(now);
        self.unconfirmed.confirm(now);
        plan.leave();
        self.certain.store(u64::MAX, super::SeqCst);
        thread::cancel(self.id);
        true
    }

    /// From now on the clock runs.
    pub(crate) fn run(&self, course: Course) {
        let plan = self.parker.lock();
        if plan.is_open {
            self.clock.run(course);
            self.wake_up(plan);
        }
    }
}
