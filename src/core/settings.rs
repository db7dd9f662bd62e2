//! [`Settings`]: the validated configuration of a timer.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::core::alarm::Alarm;
use crate::core::coalesce;
use crate::wheel::Ticks;

pub(crate) const MOST_SHARDS: usize = 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) shards: usize,
    /// Deadlines are rounded up to multiples of this. One tick means no rounding.
    pub(crate) resolution: Ticks,
    pub(crate) capacity: Option<usize>,
    /// How long due timers may wait to share a wake-up; zero for not at all.
    pub(crate) coalesce: Ticks,
    pub(crate) name: Option<&'static str>,
    pub(crate) alarm: Alarm,
}

impl Settings {
    pub(crate) fn for_runtime(runtime: &Handle) -> Settings {
        let shards = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => 1,
            _ => runtime.metrics().num_workers(),
        };
        Settings::with_shards(shards)
    }

    pub(crate) fn with_shards(shards: usize) -> Settings {
        let (shards, coalesce) = (shards.min(MOST_SHARDS), coalesce::DEFAULT);
        Settings { shards, resolution: Ticks::ONE, capacity: None, coalesce, name: None, alarm: Alarm::Auto }
    }
}
