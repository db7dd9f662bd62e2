//! [`Publisher`]: how a map or a queue shows its counts to reporters, which may outlive it.
//
// Invariants
// 1. Once it is over, the counts are those last published, and no entry is left.
// 2. Nobody but reporters waits for the lock, and no code of the user's runs under it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Metrics;

/// What was last published.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    pub(crate) counts: Metrics,
    /// Whether the map or the queue is gone.
    pub(crate) is_over: bool,
}

/// Made for the first reporter, and dropped with the map or the queue.
#[derive(Debug, Default)]
pub(crate) struct Publisher(Arc<Mutex<Published>>);

impl Publisher {
    pub(crate) fn publish(&self, counts: Metrics) {
        lock(&self.0).counts = counts;
    }

    /// Reads what was last published, even after the end.
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

fn lock(published: &Mutex<Published>) -> MutexGuard<'_, Published> {
    published.lock().unwrap_or_else(PoisonError::into_inner)
}
