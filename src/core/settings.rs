//! [`Settings`]: what a timer is made with.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::core::alarm::Alarm;
use crate::core::coalesce;
use crate::core::driver::Driver;
use crate::core::shards::{TimerLease, Wanted};
use crate::wheel::Ticks;

/// The maximum number of shards of a timer.
pub(crate) const MOST_SHARDS: usize = 1024;

/// A clock that a test moves, which shows the time of its timers.
pub(crate) trait ShowsTime: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// Makes a timer on this clock.
    fn open(&self, wanted: Wanted) -> TimerLease;
}

/// Settings that a builder has checked.
pub(crate) struct Settings {
    pub(crate) wanted: Wanted,
    pub(crate) alarm: Alarm,
}

impl Settings {
    /// The default settings of a runtime's timer.
    pub(crate) fn of(runtime: &Handle) -> Settings {
        let shards = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => 1,
            _ => runtime.metrics().num_workers(),
        };
        Settings::with_shards(shards)
    }

    /// Settings with the given number of shards, and the defaults for the rest.
    pub(crate) fn with_shards(shards: usize) -> Settings {
        let shards = shards.min(MOST_SHARDS);
        let wanted = Wanted { shards, resolution: Ticks::ONE, capacity: None, coalesce: coalesce::DEFAULT, name: None };
        Settings { wanted, alarm: Alarm::Auto }
    }

    /// Makes a timer and its driver.
    pub(crate) fn make(&self) -> (TimerLease, Driver) {
        let lease = TimerLease::open(self.wanted);
        (lease, Driver::new(lease, self.alarm))
    }
}
