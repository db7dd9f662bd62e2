//! Streams that say when they have been silent for too long: [`Timeout`] once, [`TimeoutRepeating`] again and again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;
use tokio::task::coop;

use super::Fuse;
use crate::future::{Interval, LazySleep, sleep};
use crate::util::error::Elapsed;

/// The stream that [`StreamExt::timeout`](super::StreamExt::timeout) returns.
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
#[derive(Debug)]
#[pin_project]
pub struct Timeout<S> {
    #[pin]
    stream: Fuse<S>,
    /// Ends when the stream has been silent for `duration`.
    limit: LazySleep,
    duration: Duration,
    /// Whether the error for this silence is still to come.
    is_limited: bool,
}

impl<S> Timeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Timeout { stream: Fuse::new(stream), limit: LazySleep::new(sleep(duration)), duration, is_limited: true }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.limit.end_after(*this.duration);
                *this.is_limited = true;
            }
            return Poll::Ready(item.map(Ok));
        }
        if !*this.is_limited {
            return Poll::Pending;
        }
        ready!(this.limit.poll_or_panic(cx));
        ready!(coop::poll_proceed(cx)).made_progress();
        *this.is_limited = false;
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // One error before each item, and one before the end.
        (lower, upper.and_then(|upper| upper.checked_mul(2)?.checked_add(1)))
    }
}

/// The stream that [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating) returns.
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
    interval: Interval,
}

impl<S> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        TimeoutRepeating { stream: Fuse::new(stream), interval }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_tick(cx));
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // There is no end of errors.
        (self.stream.size_hint().0, None)
    }
}
