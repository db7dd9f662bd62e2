//! [`Publisher`]: passes the counters of a map or a queue to reporters, which may outlive it.
//
// Invariants
// 1. After the end, the counters are those last published, with no entries left.
// 2. Only reporters wait for the lock, and no user code runs under it.

use std::sync::{Arc, Mutex};

use super::Metrics;
use crate::util::sync::lock;

#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) counts: Metrics,
    /// Whether the map or the queue was dropped.
    pub(crate) is_over: bool,
}

/// Created for the first reporter, and dropped with the map or the queue.
#[derive(Debug, Default)]
pub(crate) struct Publisher(Arc<Mutex<Published>>);

impl Publisher {
    pub(crate) fn publish(&self, counts: Metrics) {
        lock(&self.0).counts = counts;
    }

    pub(crate) fn reader(&self) -> impl Fn() -> Published + Send + Sync + use<> {
        let published = Arc::clone(&self.0);
        move || lock(&published).clone()
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let mut last = lock(&self.0);
        last.counts.pending = 0;
        last.is_over = true;
    }
}
