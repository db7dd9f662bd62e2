//! [`Instant`]: wraps the standard library's, reads tokio's clock, and saturates.
//
// Invariants
// 1. Nothing here panics, whatever the duration.
// 2. `now` is tokio's: it stands still while a test pauses tokio's clock. With the feature `test-util`, a test's own
//    clock may replace the runtime's.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Hooks, TESTS_MAY_PAUSE};

/// The longest duration that does not count as for ever: 500 years.
pub(crate) const FAR_FUTURE: Duration = Duration::from_secs(500 * 365 * 86_400);

pub(crate) trait ClockHooks {
    /// The time of the current runtime's clock, if that is not tokio's.
    #[inline]
    fn now() -> Option<std::time::Instant> {
        None
    }
}

#[cfg(not(feature = "test-util"))]
impl ClockHooks for Hooks {}

/// A point in time on the monotonic clock, like [`tokio::time::Instant`].
///
/// ```
/// use hairspring::{Duration, Instant};
///
/// let start = Instant::now();
/// assert!(Instant::now() >= start);
/// assert_eq!(start - (start + Duration::from_secs(1)), Duration::ZERO);
/// assert!(start + Duration::MAX > start, "saturates");
///
/// let as_std: std::time::Instant = start.into();
/// let as_tokio: tokio::time::Instant = start.into();
/// assert_eq!(Instant::from(as_std), Instant::from(as_tokio));
/// ```
///
/// [`now`](Instant::now) stands still while a test has paused the runtime's clock. The type wraps
/// [`std::time::Instant`], and converts to and from it and tokio's `Instant`.
///
/// Differences saturate at zero, as in tokio. Sums saturate at the first and the last instant that the platform can
/// represent, where tokio panics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// Returns the current time. If a test has paused the current runtime's clock, this is the time of that clock.
    ///
    /// # Examples
    ///
    /// ```
    /// let now = hairspring::Instant::now();
    /// assert!(hairspring::Instant::now() >= now);
    /// ```
    #[inline]
    #[must_use]
    pub fn now() -> Instant {
        // Read before asking: if another thread pauses the clock in between, that shows no earlier time.
        let runs = Instant(tokio::time::Instant::now().into_std());
        Hooks::now().map_or(runs, Instant)
    }

    /// Wraps a [`std::time::Instant`].
    ///
    /// # Examples
    ///
    /// ```
    /// let std = std::time::Instant::now();
    /// assert_eq!(hairspring::Instant::from_std(std).into_std(), std);
    /// ```
    #[must_use]
    pub fn from_std(std: std::time::Instant) -> Instant {
        Instant(std)
    }

    /// Returns the wrapped [`std::time::Instant`].
    ///
    /// # Examples
    ///
    /// ```
    /// let now = hairspring::Instant::now();
    /// assert!(now.into_std() <= std::time::Instant::now());
    /// ```
    #[must_use]
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!((now + Duration::from_secs(2)).duration_since(now), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this instant, or `None` if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!(now.checked_duration_since(now + Duration::from_nanos(1)), None);
    /// ```
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later, like
    /// [`duration_since`](Self::duration_since).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!(now.saturating_duration_since(now + Duration::from_secs(1)), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// Returns the time since this instant, or zero if it is in the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// assert_eq!((Instant::now() + Duration::from_secs(60)).elapsed(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// Returns this instant plus `duration`, or `None` if the platform cannot represent the result.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// assert_eq!(Instant::now().checked_add(Duration::MAX), None);
    /// ```
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_add(duration).map(Instant)
    }

    /// Returns this instant minus `duration`, or `None` if the platform cannot represent the result.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant};
    /// let now = Instant::now();
    /// assert_eq!((now + Duration::from_secs(1)).checked_sub(Duration::from_secs(1)), Some(now));
    /// ```
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }
}

/// Whether tokio's clock is the system's.
pub(crate) fn clock_is_the_systems() -> bool {
    is_the_systems(tokio::time::Instant::now, || std::time::Instant::now().into())
}

/// Whether tokio's clock stands still while the system's advances.
#[cfg(any(test, feature = "test-util"))]
pub(crate) fn is_paused() -> bool {
    // A clock that runs never stands. One that is paused may move just now.
    const TRIES: u32 = 100;
    (0..TRIES).any(|_| stands(tokio::time::Instant::now))
}

/// Whether a clock is the system's: unless a test has paused or moved it, a reading of the system's lies between two
/// readings of that clock. The reverse does not work: the system's clock may just pass a paused one.
pub(super) fn is_the_systems<T: PartialOrd>(clock: impl Fn() -> T, system: impl Fn() -> T) -> bool {
    let (before, system, after) = (clock(), system(), clock());
    before <= system && system <= after && !(TESTS_MAY_PAUSE && before == after && stands(clock))
}

fn stands<T: PartialEq>(clock: impl Fn() -> T) -> bool {
    let shown = clock();
    let start = std::time::Instant::now();
    while std::time::Instant::now() == start {
        std::hint::spin_loop();
    }
    clock() == shown
}

/// The current runtime, if tokio can pause its clock. A timer that waits notices that at its next turn or registration.
pub(crate) fn runtime_that_may_pause() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
}

/// As far from `from` as `step` can go, found bit by bit.
#[cold]
pub(super) fn saturate<T>(from: T, step: fn(&T, Duration) -> Option<T>) -> T {
    let seconds = (0..u64::BITS).rev().map(|bit| Duration::from_secs(1 << bit));
    let nanos = (0..30).rev().map(|bit| Duration::from_nanos(1 << bit));
    seconds.chain(nanos).fold(from, |at, length| step(&at, length).unwrap_or(at))
}

impl Add<Duration> for Instant {
    type Output = Instant;

    #[inline]
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.checked_add(duration).unwrap_or_else(|| saturate(self.0, std::time::Instant::checked_add)))
    }
}

super::add_and_sub_assign!(Instant);

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.checked_sub(duration).unwrap_or_else(|| saturate(self.0, std::time::Instant::checked_sub)))
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Instant {
        Instant(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> std::time::Instant {
        instant.0
    }
}

impl From<tokio::time::Instant> for Instant {
    fn from(tokio: tokio::time::Instant) -> Instant {
        Instant(tokio.into_std())
    }
}

impl From<Instant> for tokio::time::Instant {
    fn from(instant: Instant) -> tokio::time::Instant {
        tokio::time::Instant::from_std(instant.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_saturate_at_the_last_and_first_instant() {
        let now = Instant::now();
        let last = now + Duration::MAX;
        assert_eq!(last.checked_add(Duration::from_nanos(1)), None, "nothing is later");
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(now + Duration::MAX.saturating_sub(Duration::from_nanos(2)), last);
        let first = now - Duration::MAX;
        assert_eq!(first.checked_sub(Duration::from_nanos(1)), None, "nothing is earlier");
        assert!(first < now && now < last);
    }

    #[test]
    fn the_systems_clock_is_recognised() {
        assert!((0..1_000).all(|_| clock_is_the_systems()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_recognised() {
        assert!(!(0..1_000).any(|_| clock_is_the_systems()));
    }

    #[tokio::test]
    async fn a_clock_that_runs_again_is_not_paused() {
        assert!(!is_paused());
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(is_paused());
        tokio::time::resume();
        assert!(!is_paused());
    }

    /// A bug that this crate had: a hold on another thread panicked, because the clock was not paused.
    #[test]
    fn a_clock_is_paused_while_its_runtime_moves_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let asks = runtime.spawn_blocking(|| (0..20_000).all(|_| is_paused()));
        let moves = async {
            while !asks.is_finished() {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            asks.await
        };
        assert!(runtime.block_on(moves).unwrap());
    }

    /// A bug that this crate had: if the thread was interrupted between two readings while the system's clock passed
    /// the paused one, that was taken for the system's, and a deadline was a millisecond late.
    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_is_recognised_while_the_systems_comes_by() {
        if !TESTS_MAY_PAUSE {
            return;
        }
        let system = std::time::Instant::now;
        for _ in 0..100 {
            let ahead = system() + Duration::from_micros(20);
            tokio::time::advance(ahead.saturating_duration_since(Instant::now().into_std())).await;
            while system() < ahead + Duration::from_micros(5) {
                assert!(!clock_is_the_systems());
            }
        }
    }
}
