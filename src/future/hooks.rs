//! [`WaitHooks`]: tests learn which timers wait. [`TimerKind`]: what for.

use std::panic::Location;

use crate::core::shard::Key;

pub(crate) trait WaitHooks {
    /// An entry of the shard at an address begins to wait. `made` is where the user's code created it.
    #[inline]
    fn begins_to_wait(_shard: usize, _: Key, _made: &'static Location<'static>, _: TimerKind) {}

    #[inline]
    fn waits_no_more(_shard: usize, _: Key) {}
}

#[cfg(not(feature = "test-util"))]
impl WaitHooks for crate::clock::Hooks {}

/// The kind of item that a timer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(unreachable_pub)] // Rust 1.85 does not see that the methods of `Delay` name it.
pub enum TimerKind {
    Sleep,
    Timeout,
    Interval,
    /// The timer of the first entry.
    DelayQueue,
    /// The timer of the first entry.
    DeadlineMap,
}
