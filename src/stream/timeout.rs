//! [`Timeout`] yields one error for each silence, and [`TimeoutRepeating`] one for each tick of an interval.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;
use tokio::task::coop;

use super::fuse::Fuse;
use crate::clock;
use crate::future::{Interval, LazySleep, Sleep, has_spent_the_budget};
use crate::timer::Timer;
use crate::util::error::Elapsed;

/// The stream that [`StreamExt::timeout`](crate::StreamExt::timeout) returns.
///
/// # Examples
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Timeout;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Timeout<_> = futures::stream::iter([1]).timeout(Duration::from_secs(1));
/// assert_eq!((items.next().await, items.next().await), (Some(Ok(1)), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[pin_project]
pub struct Timeout<S> {
    #[pin]
    stream: Fuse<S>,
    /// Ends when the stream has been silent for `duration`.
    limit: LazySleep,
    duration: Duration,
    /// Whether the error for this silence is yet to be yielded.
    is_limited: bool,
}

impl<S> Timeout<S> {
    pub(super) fn new(stream: S, limit: Sleep, duration: Duration) -> Self {
        Timeout { stream: Fuse::new(stream), limit: LazySleep::new(limit), duration, is_limited: true }
    }

    /// Waits on `timer`, which the stream then keeps alive. The time for the next item counts from this call.
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt, Timer};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let mut silent = futures::stream::pending::<()>().timeout(Duration::from_secs(30)).with_timer(&timer);
    /// assert!(silent.next().await.unwrap().is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). Polling panics if it has to wait and the
    /// timer was shut down.
    #[track_caller]
    pub fn with_timer(self, timer: &Timer) -> Self {
        Timeout { limit: LazySleep::new(timer.unlimited("Timeout").limit(self.duration)), ..self }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            *this.is_limited = item.is_some();
            if *this.is_limited {
                this.limit.end_at(clock::later(this.limit.now(), *this.duration));
            } else {
                this.limit.stop();
            }
            return Poll::Ready(item.map(Ok));
        }
        if !*this.is_limited {
            return Poll::Pending;
        }
        ready!(this.limit.poll_or_panic(cx));
        if !has_spent_the_budget(had_budget) {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        *this.is_limited = false;
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // One error before each item, and one before the end.
        (lower, upper.and_then(|upper| upper.checked_mul(2)?.checked_add(1)))
    }
}

impl<S: fmt::Debug> fmt::Debug for Timeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timeout")
            .field("stream", &self.stream)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}

/// The stream that [`StreamExt::timeout_repeating`](crate::StreamExt::timeout_repeating) returns. To choose the timer,
/// pass an interval of [`Timer::interval`](crate::Timer::interval) or
/// [`Timer::interval_at`](crate::Timer::interval_at).
///
/// # Examples
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::TimeoutRepeating;
/// use hairspring::{Duration, StreamExt, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks = interval(Duration::from_secs(1));
/// let mut items: TimeoutRepeating<_> = futures::stream::iter([1]).timeout_repeating(ticks);
/// assert_eq!((items.next().await, items.next().await), (Some(Ok(1)), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct TimeoutRepeating<S> {
    #[pin]
    stream: Fuse<S>,
    /// Until the stream ends.
    interval: Option<Interval>,
}

impl<S> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        TimeoutRepeating { stream: Fuse::new(stream), interval: Some(interval) }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        let had_budget = coop::has_budget_remaining();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            match (&item, this.interval.as_mut()) {
                (Some(_), Some(interval)) => interval.reset(),
                _ => *this.interval = None,
            }
            return Poll::Ready(item.map(Ok));
        }
        if let Some(interval) = this.interval {
            ready!(interval.poll_limit(cx, has_spent_the_budget(had_budget)));
        }
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Errors never end.
        (self.stream.size_hint().0, None)
    }
}
