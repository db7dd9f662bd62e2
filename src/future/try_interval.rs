//! [`TryInterval`]: an interval that returns errors in cases in which others panic.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::clock::Instant;
use crate::future::Interval;
use crate::util::error::Error;

/// What [`Timer::try_interval`](crate::Timer::try_interval) returns: an [`Interval`] whose ticks are results, as its
/// timer may be full or shut down.
///
/// Each tick that has to wait needs a place in the timer. An error takes no tick: the next call tries again for the
/// same one.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let mut reports = timer.try_interval(Duration::from_secs(60));
/// reports.tick().await.unwrap(); // at once
/// timer.shutdown();
/// assert!(reports.tick().await.is_err_and(|error| error.is_shutdown()));
/// # }
/// ```
#[derive(Debug)]
pub struct TryInterval {
    interval: Interval,
}

impl TryInterval {
    pub(crate) fn new(interval: Interval) -> Self {
        TryInterval { interval }
    }

    /// Waits for the next tick and returns the instant that it was scheduled for.
    ///
    /// # Errors
    /// If the tick has to wait and the timer is [at capacity](Error::is_at_capacity) or was
    /// [shut down](Error::is_shutdown).
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready loses no tick.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut interval = Timer::current().try_interval(Duration::from_millis(1));
    /// let first = interval.tick().await.unwrap();
    /// assert_eq!(interval.tick().await, Ok(first + Duration::from_millis(1)));
    /// # }
    /// ```
    pub async fn tick(&mut self) -> Result<Instant, Error> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. The task of the last poll is woken.
    ///
    /// # Errors
    /// In the same cases as [`tick`](TryInterval::tick).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut interval = Timer::current().try_interval(Duration::from_millis(1));
    /// assert!(std::future::poll_fn(|cx| interval.poll_tick(cx)).await.is_ok());
    /// # }
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<Instant, Error>> {
        self.interval.try_poll_tick(cx)
    }

    /// Returns the interval, for its period and its [`MissedTickBehavior`](crate::MissedTickBehavior).
    ///
    /// ```
    /// # use hairspring::{Duration, Timer};
    /// assert_eq!(Timer::current().try_interval(Duration::from_secs(1)).get_ref().period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &Interval {
        &self.interval
    }

    /// Returns the interval, for its setters and resets.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut hourly = Timer::current().try_interval(Duration::from_secs(3600));
    /// hourly.tick().await.unwrap();
    /// hourly.get_mut().reset_immediately();
    /// hourly.tick().await.unwrap(); // does not wait for an hour
    /// # }
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }

    /// Returns the interval, whose ticks panic in place of the errors.
    ///
    /// ```
    /// # use hairspring::{Duration, Interval, Timer};
    /// let _interval: Interval = Timer::current().try_interval(Duration::from_secs(1)).into_inner();
    /// ```
    #[must_use]
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}
