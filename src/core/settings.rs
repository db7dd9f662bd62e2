//! [`Settings`]: what a timer is made with.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::core::alarm::Alarm;
use crate::core::coalesce;
use crate::wheel::Ticks;

/// The maximum number of shards of a timer.
pub(crate) const MOST_SHARDS: usize = 1024;

/// What a timer is made with, in range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) shards: usize,
    /// Deadlines are rounded up to multiples of this; one tick for not at all.
    pub(crate) resolution: Ticks,
    /// The maximum number of entries, if it is limited.
    pub(crate) capacity: Option<usize>,
    /// How long timers may wait for company; zero for none.
    pub(crate) coalesce: Ticks,
    pub(crate) name: Option<&'static str>,
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
        let (shards, coalesce) = (shards.min(MOST_SHARDS), coalesce::DEFAULT);
        Settings { shards, resolution: Ticks::ONE, capacity: None, coalesce, name: None, alarm: Alarm::Auto }
    }
}
