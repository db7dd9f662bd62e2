//! The only place where tests reach into the crate.
//!
//! With the feature `test-util`, these are functions of [`test_util`](crate::test_util), which documents them.
//! Otherwise they do nothing and cost nothing.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};

#[cfg(not(feature = "test-util"))]
pub(crate) use nothing::*;

use crate::core::lease::TimerLease;
use crate::core::settings::Settings;

#[cfg(feature = "test-util")]
pub(crate) use crate::test_util::{
    by_tokio::{Approach, ahead_of, rang_early},
    chance::{arrange, fires},
    deadlock::task,
    held::opens,
    jumps::ahead,
    pause::{now, timer_here, timer_made},
    pending::{begins_to_wait, waits_no_more},
};

/// Whether tests can reach in. If so, a test may pause the clock of a current-thread runtime at any time.
pub(crate) const IS_ON: bool = cfg!(feature = "test-util");

/// A clock that a test moves.
pub(crate) trait ShowsTime: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    fn open(&self, settings: &Settings) -> TimerLease;
}

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

#[cfg(not(feature = "test-util"))]
#[allow(clippy::unused_self)] // The same interface as with the feature.
mod nothing {
    use std::panic::Location;
    use std::time::Instant;

    use tokio::runtime;

    use super::TimerKind;
    use crate::clock;
    use crate::clock::jumping::Jumping;
    use crate::core::alarm::driver_sleep::DriverSleep;
    use crate::core::lease::TimerLease;
    use crate::core::shard::Key;
    use crate::wheel::Tick;

    #[inline]
    pub(crate) fn now() -> Option<Instant> {
        None
    }

    #[inline]
    pub(crate) fn ahead(_: Jumping) -> i128 {
        0
    }

    #[inline]
    pub(crate) fn opens(_: TimerLease) {}

    #[inline]
    pub(crate) fn timer_made(_: runtime::Id, _: TimerLease) {}

    #[inline]
    pub(crate) fn timer_here(_: TimerLease) {}

    #[inline]
    pub(crate) fn task<F>(_: runtime::Id, task: F) -> F {
        task
    }

    #[inline]
    pub(crate) fn begins_to_wait(_: usize, _: Key, _: &'static Location<'static>, _: TimerKind) {}

    #[inline]
    pub(crate) fn waits_no_more(_: usize, _: Key) {}

    #[inline]
    pub(crate) fn fires(_: usize, _: Tick) {}

    #[inline]
    pub(crate) fn arrange<T>(_: usize, _: &mut [T]) {}

    #[inline]
    pub(crate) fn ahead_of(at: clock::Instant) -> clock::Instant {
        at
    }

    #[inline]
    pub(crate) fn rang_early(_: TimerLease) -> bool {
        false
    }

    pub(crate) struct Approach;

    impl Approach {
        pub(crate) fn new() -> Self {
            Approach
        }

        #[inline]
        pub(crate) fn begin(&mut self, _: &mut DriverSleep, _: TimerLease, _: Tick) -> bool {
            false
        }
    }
}
