//! [`WakeList`]: the wakers of timers that fired.

use std::task::Waker;

use crate::util::panics::catch_panic;

/// Wakers that were taken out and are not yet woken; reused.
#[derive(Debug, Default)]
pub(crate) struct WakeList {
    pub(crate) wakers: Vec<Waker>,
}

impl WakeList {
    pub(crate) fn wake_all(&mut self) -> usize {
        let count = self.wakers.len();
        for waker in self.wakers.drain(..) {
            catch_panic(|| waker.wake());
        }
        count
    }
}
