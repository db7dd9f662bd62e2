//! [`DriverWaker`]: wakes the task that polls a driver.

use std::task::Waker;

use crate::util::catch_panic::catch_panic;

/// Wakes the driver's task.
pub(crate) struct DriverWaker {
    pub(crate) waker: Waker,
    /// Whether this may be foreign code, which the alarm thread does not run. The waker of a tokio task is not: it
    /// never blocks.
    pub(crate) is_foreign: bool,
}

impl DriverWaker {
    pub(crate) fn wake(self) {
        // A panic is no fault of whoever registers a deadline, shuts the timer down, or waits on it.
        catch_panic(|| self.waker.wake());
    }
}
