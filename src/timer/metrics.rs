//! [`Metrics`]: what a timer has done so far.
//!
//! Must not know: the inside of the futures.

use crate::hub::Hub;
use crate::shard::{Counts, Epoch};

/// A snapshot of what a timer has done, from [`Timer::metrics`](super::Timer::metrics).
///
/// Each timer that was registered is in the end fired or cancelled: `registered() == fired() + cancelled() + pending()`
/// holds in every snapshot. Those that a shutdown ended count as cancelled. A sleep that was ready at its first poll was
/// never registered. All is zero for a timer that has ended and whose place another has taken.
///
/// ```
/// use hairspring::{Duration, Timer, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// sleep(Duration::from_millis(1)).await;
/// let metrics = Timer::current().metrics();
/// assert_eq!(metrics.pending(), 0);
/// assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Metrics {
    counts: Counts,
    turns: u64,
}

impl Metrics {
    pub(super) fn of(hub: &Hub, epoch: Epoch) -> Self {
        Metrics { counts: hub.counts(epoch), turns: hub.turns(epoch) }
    }

    /// Timers that wait.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.counts.pending
    }

    /// Timers that were armed so far.
    #[must_use]
    pub fn registered(&self) -> u64 {
        self.counts.registered
    }

    /// Timers that were fired so far.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.counts.fired
    }

    /// Timers that were cancelled so far: dropped, or found past their deadline by a poll before they were fired.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.counts.registered - self.counts.fired - self.counts.pending
    }

    /// How often the wheels were turned: looked at for something due.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// How many times an entry moved down a level of a wheel.
    #[must_use]
    pub fn cascaded(&self) -> u64 {
        self.counts.cascaded
    }
}
