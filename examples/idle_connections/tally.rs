//! Counts that server and clients keep while they run.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hairspring::Timeout;
use hairspring::error::Elapsed;

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) accepted: Count,
    pub(crate) ended: Count,
    pub(crate) closed_as_silent: Count,
    pub(crate) heartbeats: Count,
    /// The server's: one for each read.
    pub(crate) reads: Timers,
    /// The clients': one for each heartbeat.
    pub(crate) beats: Timers,
}

#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Default)]
pub(crate) struct Timers {
    pub(crate) armed: Count,
    pub(crate) cancelled: Count,
    pub(crate) fired: Count,
}

impl Timers {
    /// Awaits `limited`, and counts what became of its timer.
    pub(crate) async fn count<F: Future>(&self, limited: Timeout<F>) -> Result<F::Output, Elapsed> {
        let mut limited = pin!(limited);
        let mut is_armed = false;
        let result = poll_fn(|cx| {
            let result = limited.as_mut().poll(cx);
            // What is ready at once, as a read of bytes that are there, arms no timer.
            if result.is_pending() && !is_armed {
                is_armed = true;
                self.armed.add(1);
            }
            result
        })
        .await;
        if is_armed {
            let fate = if result.is_ok() { &self.cancelled } else { &self.fired };
            fate.add(1);
        }
        result
    }

    pub(crate) fn waiting(&self) -> u64 {
        // Read last, as other threads go on counting.
        let over = self.cancelled.get() + self.fired.get();
        self.armed.get().saturating_sub(over)
    }
}
