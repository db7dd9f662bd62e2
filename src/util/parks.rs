//! How often a tokio worker has parked and unparked: an odd number while it is parked.

use tokio::runtime::RuntimeMetrics;

/// Whether tokio counts: not on processors without 64-bit atomics.
pub(crate) const ARE_COUNTED: bool = cfg!(target_has_atomic = "64");

/// Whether the worker is parked; `false` if tokio does not count.
#[cfg(feature = "test-util")]
pub(crate) fn is_parked(metrics: &RuntimeMetrics, worker: usize) -> bool {
    count(metrics, worker) % 2 == 1
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
