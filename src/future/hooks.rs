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
impl WaitHooks for crate::clock::hooks::Hooks {}

/// The kind of item that a [`Pending`](crate::test_util::Pending) timer belongs to.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use hairspring::test_util::{self, TimerKind};
/// tokio::spawn(async { hairspring::interval(hairspring::Duration::from_secs(1)).tick().await });
/// test_util::settle().await;
/// assert!(test_util::pending().iter().all(|timer| timer.kind() == TimerKind::Interval));
/// # }
/// # #[cfg(not(feature = "test-util"))]
/// # fn main() {}
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[allow(unreachable_pub)] // `test_util` makes it public.
pub enum TimerKind {
    /// A [`Sleep`](crate::Sleep).
    Sleep,
    /// A [`Timeout`](crate::Timeout).
    Timeout,
    /// An [`Interval`](crate::Interval).
    Interval,
    /// A [`DelayQueue`](crate::DelayQueue): the timer of its first entry.
    DelayQueue,
    /// The [`Expirations`](crate::Expirations) of a [`DeadlineMap`](crate::DeadlineMap): the timer of the first entry.
    DeadlineMap,
}
