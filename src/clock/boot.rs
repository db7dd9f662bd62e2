//! [`Instant`]: a point in time on the clock that goes on while the machine sleeps.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use super::jumping::{ClockTime, Jumping, Reading};

/// A point in time on the clock that goes on while the machine sleeps.
///
/// It is a type of its own: it neither compares with [`hairspring::Instant`](crate::Instant) nor converts to it,
/// because the distance of the two clocks grows each time the machine sleeps. To go from one clock to the other, take
/// what is left, `deadline - boot::Instant::now()`, and add that to the other clock's `now`. What you lose is that the
/// result is right only until the machine next sleeps.
///
/// Differences saturate at zero. Sums do not overflow: the type holds nanoseconds in 128 bits.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// let start = boot::Instant::now();
/// let deadline = start + Duration::from_secs(1);
/// assert_eq!(deadline - start, Duration::from_secs(1));
/// assert_eq!(start - deadline, Duration::ZERO);
/// ```
///
/// Instants of different clocks do not mix:
///
/// ```compile_fail
/// let elapsed = hairspring::Instant::now() - hairspring::boot::Instant::now();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Reading);

impl Instant {
    /// Returns the present. If a test has paused the clock of the current runtime, it follows that clock.
    ///
    /// ```
    /// use hairspring::boot;
    /// let now = boot::Instant::now();
    /// assert!(boot::Instant::now() >= now);
    /// ```
    #[must_use]
    pub fn now() -> Instant {
        Instant(Jumping::Boot.now())
    }

    /// Returns how long after `earlier` this is, or zero if it is not after it.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!((now + Duration::from_secs(2)).duration_since(now), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.since(earlier.0)
    }

    /// Returns how long after `earlier` this is, or `None` if it is before it.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!(now.checked_duration_since(now + Duration::from_nanos(1)), None);
    /// ```
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        (*self >= earlier).then(|| self.duration_since(earlier))
    }

    /// Returns how long ago this was, suspension included, or zero if it is in the future.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// assert_eq!((boot::Instant::now() + Duration::from_secs(60)).elapsed(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }
}

impl ClockTime for Instant {
    const CLOCK: Jumping = Jumping::Boot;

    fn of(reading: Reading) -> Instant {
        Instant(reading)
    }

    fn reading(self) -> Reading {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.after(duration))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.before(duration))
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("boot::Instant").field("nanos", &self.0.0).finish()
    }
}
