//! [`Interval`]: periodic ticks on the clock that goes on while the machine sleeps.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;

use super::{Instant, Sleep, sleep_until};
use crate::future::MissedTickBehavior;
use crate::future::interval::ON_TIME;

/// Creates an interval that ticks at once and then every `period`, suspension included.
///
/// After a suspension the tick that fell due first comes at once. [`missed`](Interval::missed) says how many others
/// fell due, and the [`MissedTickBehavior`] what becomes of them: [`Skip`](MissedTickBehavior::Skip) or
/// [`Delay`](MissedTickBehavior::Delay) keep a program from doing the work of a night at once.
///
/// # Panics
/// If `period` is zero.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut interval = boot::interval(Duration::from_millis(2));
/// let first = interval.tick().await; // at once
/// let second = interval.tick().await; // 2 ms later
/// assert_eq!(second - first, Duration::from_millis(2));
/// # }
/// ```
#[track_caller]
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    Interval {
        delay: sleep_until(Instant::now()),
        period,
        missed: 0,
        missed_tick_behavior: MissedTickBehavior::default(),
    }
}

/// Yields the instants of a regular schedule, through [`tick`](Interval::tick) or as a [`Stream`] that never ends.
///
/// ```
/// use futures::StreamExt;
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks: Vec<_> = boot::interval(Duration::from_millis(1)).take(3).collect().await;
/// assert_eq!(ticks[2] - ticks[0], Duration::from_millis(2));
/// # }
/// ```
#[derive(Debug)]
pub struct Interval {
    delay: Sleep,
    period: Duration,
    missed: u64,
    missed_tick_behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick and returns the instant that it was scheduled for.
    ///
    /// # Cancel safety
    /// Dropping the future before it is ready loses no tick.
    ///
    /// # Panics
    /// Polling panics in the same cases as [`hairspring::sleep`](crate::sleep()).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, boot};
    /// let mut interval = boot::interval(Duration::from_millis(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
    /// # }
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick. The task of the last poll is woken.
    ///
    /// # Panics
    /// In the same cases as [`hairspring::sleep`](crate::sleep()).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, boot};
    /// let mut interval = boot::interval(Duration::from_millis(1));
    /// std::future::poll_fn(|cx| interval.poll_tick(cx)).await;
    /// # }
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.delay).poll(cx));
        let scheduled = self.delay.deadline();
        let late = self.delay.now() - scheduled;
        let missed = if late > ON_TIME { late.as_nanos() / self.period.as_nanos() } else { 0 };
        self.missed = u64::try_from(missed).unwrap_or(u64::MAX);
        let pause = self.missed_tick_behavior.pause(late, self.period);
        self.delay.reset_to(scheduled + pause);
        Poll::Ready(scheduled)
    }

    /// Returns how many later ticks were already due when the last tick was returned. Ticks that are at most 5 ms late
    /// count as on time.
    ///
    /// With `Burst` these are still to come; with `Delay` and `Skip` they are left out.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, MissedTickBehavior, boot, sleep};
    ///
    /// let mut interval = boot::interval(Duration::from_secs(60));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// interval.tick().await;
    /// sleep(Duration::from_secs(200)).await; // too busy for the ticks at 60, 120 and 180
    /// interval.tick().await; // that of 60
    /// assert_eq!(interval.missed(), 2);
    /// # }
    /// ```
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns what this interval does about missed ticks.
    ///
    /// ```
    /// # use hairspring::{Duration, MissedTickBehavior, boot};
    /// assert_eq!(boot::interval(Duration::from_secs(1)).missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets what this interval does about missed ticks, from the next tick on.
    ///
    /// ```
    /// # use hairspring::{Duration, MissedTickBehavior, boot};
    /// let mut interval = boot::interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Schedules the next tick at `deadline`. Ticks missed before that are forgotten; later ticks follow at the period.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, boot};
    /// let mut hourly = boot::interval(Duration::from_secs(3600));
    /// let deadline = boot::Instant::now() + Duration::from_millis(1);
    /// hourly.reset_at(deadline);
    /// assert_eq!(hourly.tick().await, deadline);
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.delay.reset_to(deadline);
    }

    /// Returns the time between two ticks.
    ///
    /// ```
    /// # use hairspring::{Duration, boot};
    /// assert_eq!(boot::interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl Stream for Interval {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
