//! What a timer is to have counted.
//!
//! Must not know: when what counts.

use hairspring::{Duration, Timer};

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) registered: u64,
    pub(super) fired: u64,
}

impl Counts {
    /// What the timer says at a moment when no operation is on.
    pub(super) fn compare(&self, timer: &Timer, pending: u64) {
        let metrics = timer.metrics();
        let told = (metrics.registered(), metrics.fired(), metrics.pending());
        assert_eq!(told, (self.registered, self.fired, pending), "registered, fired and pending");
        assert_eq!(metrics.cancelled(), self.registered - self.fired - pending);
        // A manual clock stops at each deadline, rounded up, and turns the wheels there. What a waker's jump of the clock
        // makes late was taken out before it, or is fired by it at its own tick: the wake is late, and no turn is.
        let lateness = metrics.lateness();
        assert_eq!(lateness.count(), self.fired, "what has fired was on time or late");
        assert_eq!(lateness.max(), Duration::ZERO, "the latest");
    }
}
