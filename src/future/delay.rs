//! [`Delay`]: what a [`Timeout`] and an [`Interval`] wait on, so that there is one of each for all clocks, and whether or
//! not they return errors. [`TrySleep`]: a sleep that returns errors in cases in which others panic.
//!
//! [`Timeout`]: crate::future::Timeout
//! [`Interval`]: crate::future::Interval
//
// Invariants
// 1. A poll is ready only at or after the deadline, or with an error.
//
// Must not know: what waits on a sleep.

use std::future::Future;
use std::ops::{Add, Sub};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::future::Sleep;
use crate::util::error::Error;

/// A sleep: [`Sleep`], [`TrySleep`] or `boot::Sleep`. Users cannot name this, so they cannot implement it.
pub trait Delay: Unpin {
    /// A time on its clock.
    type Time: Copy + Add<Duration, Output = Self::Time> + Sub<Output = Duration>;

    /// What those that wait on it return in place of a `T`: a `T` if errors panic, and otherwise a result.
    type Outcome<T>;

    fn deadline(&self) -> Self::Time;

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    fn now(&self) -> Self::Time;

    /// How long ago the deadline was, or zero.
    fn late(&self) -> Duration {
        self.now() - self.deadline()
    }

    fn reset_at(&mut self, deadline: Self::Time);

    /// Polls. Only a poll that is ready spends the task's budget, and none does if the caller has spent it.
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>>;

    fn outcome<T>(&self, result: Result<T, Error>) -> Self::Outcome<T>;
}

impl Delay for Sleep {
    type Time = Instant;
    type Outcome<T> = T;

    fn deadline(&self) -> Instant {
        self.deadline()
    }

    #[inline]
    fn now(&self) -> Instant {
        clock::instant_of(self.now())
    }

    // Ticks are subtracted sooner than instants.
    #[inline]
    fn late(&self) -> Duration {
        clock::duration_of(self.now() - self.tick())
    }

    #[inline]
    fn reset_at(&mut self, deadline: Instant) {
        self.reset_at(deadline);
    }

    #[inline]
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.poll_elapsed(cx, is_spent)
    }

    #[inline]
    fn outcome<T>(&self, result: Result<T, Error>) -> T {
        result.unwrap_or_else(|error| self.panic_with(error))
    }
}

/// The future of [`Timer::try_sleep`](crate::Timer::try_sleep). Resolves to `Ok` at the deadline, never before, or to
/// the [`Error`] of a timer that is full or was shut down.
///
/// If the timer is full, the first poll returns the error. Another poll tries again; there is no queue for room. If the
/// timer is shut down while this waits, it resolves to the error at once.
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees everything it holds at once.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let waits = tokio::spawn(timer.try_sleep(Duration::from_secs(3600)));
/// tokio::task::yield_now().await;
/// assert_eq!(timer.shutdown(), 1);
/// assert!(waits.await.unwrap().unwrap_err().is_shutdown());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TrySleep {
    sleep: Sleep,
}

impl TrySleep {
    pub(crate) fn new(sleep: Sleep) -> Self {
        TrySleep { sleep }
    }

    /// Returns the instant at which this completes, as [`Sleep::deadline`] does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_secs(1);
    /// assert_eq!(timer.try_sleep_until(deadline).deadline(), deadline);
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Returns whether this has fired, as [`Sleep::is_elapsed`] does, whether or not it was polled since. Returns
    /// `false` if the timer has refused it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = hairspring::Timer::current().try_sleep(hairspring::Duration::ZERO);
    /// (&mut sleep).await.unwrap();
    /// assert!(sleep.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    /// Sets a new deadline, as [`Sleep::reset_at`] does. A waiting sleep keeps its place in a full timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(3600));
    /// sleep.reset_at(timer.now() + Duration::from_millis(1));
    /// assert_eq!(sleep.await, Ok(()));
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset_at(deadline);
    }
}

impl Delay for TrySleep {
    type Time = Instant;
    type Outcome<T> = Result<T, Error>;

    fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    fn now(&self) -> Instant {
        Delay::now(&self.sleep)
    }

    fn reset_at(&mut self, deadline: Instant) {
        self.sleep.reset_at(deadline);
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.sleep.poll_elapsed(cx, is_spent)
    }

    fn outcome<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result
    }
}

impl Future for TrySleep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.sleep.poll_elapsed(cx, false)
    }
}
