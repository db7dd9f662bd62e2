//! Streams that go by the clock: [`Throttle`], whose items are some time apart, and [`IntervalStream`], an interval for
//! programs that wrap theirs.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project::pin_project;

use crate::clock::{self, Instant};
use crate::future::{Interval, Sleep, sleep};

/// The stream that [`StreamExt::throttle`](super::StreamExt::throttle) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Throttle;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Throttle<_> = futures::stream::iter([1, 2]).throttle(Duration::from_secs(3600));
/// assert_eq!(items.next().await, Some(1));
/// assert_eq!(items.into_inner().next().await, Some(2));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct Throttle<S> {
    #[pin]
    stream: S,
    delay: Sleep,
    duration: Duration,
    /// Whether the next item has to wait for the delay.
    waits: bool,
}

impl<S> Throttle<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Throttle { stream, delay: sleep(duration), duration, waits: false }
    }

    /// Returns a reference to the inner stream.
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let items = futures::stream::pending::<u8>().throttle(Duration::from_secs(1));
    /// let _inner: &futures::stream::Pending<u8> = items.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream. Items that are taken there are not throttled.
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let mut items = futures::stream::pending::<u8>().throttle(Duration::from_secs(1));
    /// let _inner: &mut futures::stream::Pending<u8> = items.get_mut();
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the inner stream. Nothing is lost: a throttled stream holds no items.
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let _inner = futures::stream::pending::<u8>().throttle(Duration::from_secs(1)).into_inner();
    /// ```
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.waits {
            ready!(Pin::new(&mut *this.delay).poll(cx));
            *this.waits = false;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() && !this.duration.is_zero() {
            this.delay.reset_idle(clock::later(this.delay.now(), *this.duration));
            *this.waits = true;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

/// A stream of the ticks of an [`Interval`], like `tokio_stream::wrappers::IntervalStream`. An [`Interval`] of this
/// crate is a stream itself; this type is for programs that already use tokio-stream's.
///
/// ```
/// use futures::StreamExt;
/// use hairspring::stream::IntervalStream;
/// use hairspring::{Duration, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let period = Duration::from_millis(1);
/// let mut ticks = IntervalStream::new(interval(period));
/// let first = ticks.next().await.unwrap();
/// assert_eq!(ticks.next().await, Some(first + period));
/// assert_eq!(ticks.into_inner().period(), period);
/// # }
/// ```
#[derive(Debug)]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// Wraps an interval.
    ///
    /// ```
    /// # use hairspring::{Duration, interval, stream::IntervalStream};
    /// let _ticks = IntervalStream::new(interval(Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub fn new(interval: Interval) -> Self {
        IntervalStream { interval }
    }

    /// Returns the interval.
    ///
    /// ```
    /// # use hairspring::{Duration, interval, stream::IntervalStream};
    /// let ticks = IntervalStream::new(interval(Duration::from_secs(1)));
    /// assert_eq!(ticks.into_inner().period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        false
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
