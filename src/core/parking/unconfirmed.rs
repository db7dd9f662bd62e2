//! [`Unconfirmed`]: the time of a stand-in's turn, until the driver has turned at a later one.
//!
//! A stand-in goes by the system's clock, because it has no runtime. If a test has paused the runtime's clock just
//! then, what the stand-in fired was not due. So until the driver has reached that time by its own clock, polls check
//! theirs.

use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::wheel::Tick;

/// Tick 0 if there is none.
#[derive(Debug)]
pub(crate) struct Unconfirmed(AtomicU64);

impl Unconfirmed {
    pub(super) fn none() -> Self {
        Unconfirmed(AtomicU64::new(0))
    }

    pub(crate) fn forget(&self) {
        self.0.store(0, SeqCst);
    }

    /// Whether a turn is unconfirmed.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(SeqCst) > 0
    }

    /// A stand-in turns at the time `now`.
    pub(super) fn add(&self, now: Tick) {
        self.0.fetch_max(now.0, SeqCst);
    }

    /// The driver has turned at the time `now` of the timer's own clock.
    pub(crate) fn confirm(&self, now: Tick) {
        let latest = self.0.load(SeqCst);
        if latest > 0 && latest <= now.0 {
            // If another stand-in has turned meanwhile, its time stays.
            let _ = self.0.compare_exchange(latest, 0, SeqCst, SeqCst);
        }
    }
}
