//! How often a tokio worker has parked and unparked: an odd number while it is parked.

#[cfg(feature = "test-util")]
use std::time::Duration;

use tokio::runtime::RuntimeMetrics;

/// Whether tokio counts: not on processors without 64-bit atomics.
pub(crate) const ARE_COUNTED: bool = cfg!(target_has_atomic = "64");

/// [`count`] of a worker that is parked; `None` if it is not, or if tokio does not count.
pub(crate) fn while_parked(metrics: &RuntimeMetrics, worker: usize) -> Option<u64> {
    Some(count(metrics, worker)).filter(|parks| parks % 2 == 1)
}

/// How often the worker has parked and unparked so far; zero if tokio does not count.
pub(crate) fn count(metrics: &RuntimeMetrics, worker: usize) -> u64 {
    #[cfg(target_has_atomic = "64")]
    return metrics.worker_park_unpark_count(worker);
    #[cfg(not(target_has_atomic = "64"))]
    {
        let _ = (metrics, worker);
        0
    }
}

/// [`count`], and for how long the worker was busy before it last returned to the runtime. Both are zero if tokio does
/// not count.
#[cfg(feature = "test-util")]
pub(crate) fn progress(metrics: &RuntimeMetrics, worker: usize) -> (u64, Duration) {
    #[cfg(target_has_atomic = "64")]
    return (metrics.worker_park_unpark_count(worker), metrics.worker_total_busy_duration(worker));
    #[cfg(not(target_has_atomic = "64"))]
    (count(metrics, worker), Duration::ZERO)
}
