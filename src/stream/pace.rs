//! Streams that go by the clock: [`Throttle`], whose items are some time apart, [`ChunksTimeout`], which yields what came
//! together, [`Debounce`], the last item before each silence, and [`IntervalStream`], an interval for programs that wrap
//! theirs.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project::pin_project;
use tokio::task::coop;

use super::Fuse;
use crate::clock::{self, Instant};
use crate::future::{Interval, LazySleep, Sleep, sleep};

/// How many items one poll takes and keeps before other tasks run.
const AT_ONCE: usize = 128;

/// Room for at most this many items is taken before they come.
const ROOM: usize = 1024;

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

/// The stream that [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::ChunksTimeout;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut chunks: ChunksTimeout<_> = futures::stream::iter([1, 2]).chunks_timeout(10, Duration::from_secs(1));
/// assert_eq!((chunks.next().await, chunks.next().await), (Some(vec![1, 2]), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct ChunksTimeout<S: Stream> {
    #[pin]
    stream: Fuse<S>,
    /// Until when items are gathered, once there are any.
    delay: Sleep,
    duration: Duration,
    items: Vec<S::Item>,
    max_size: usize,
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, duration: Duration) -> Self {
        ChunksTimeout { stream: Fuse::new(stream), delay: sleep(duration), duration, items: Vec::new(), max_size }
    }

    /// Returns the items that were gathered and not yielded yet.
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let items = futures::stream::iter([1, 2]).chain(futures::stream::pending());
    /// let mut chunks = std::pin::pin!(items.chunks_timeout(3, Duration::from_secs(3600)));
    /// assert!(futures::poll!(chunks.next()).is_pending());
    /// assert_eq!(chunks.into_remainder(), [1, 2]);
    /// # }
    /// ```
    #[must_use]
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        mem::take(self.project().items)
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        let mut this = self.project();
        let mut taken = 0;
        while taken < AT_ONCE {
            let Poll::Ready(item) = this.stream.as_mut().poll_next(cx) else { break };
            let Some(item) = item else {
                let rest = mem::take(this.items);
                return Poll::Ready((!rest.is_empty()).then_some(rest));
            };
            if this.items.is_empty() {
                this.delay.reset_idle(clock::later(this.delay.now(), *this.duration));
                this.items.reserve_exact(ROOM.min(*this.max_size));
            }
            this.items.push(item);
            taken += 1;
            if this.items.len() >= *this.max_size {
                return Poll::Ready(Some(mem::take(this.items)));
            }
        }
        if !this.items.is_empty() && Pin::new(this.delay).poll(cx).is_ready() {
            return Poll::Ready(Some(mem::take(this.items)));
        }
        if taken == AT_ONCE {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(!self.items.is_empty());
        let (lower, upper) = self.stream.size_hint();
        ((lower / self.max_size).saturating_add(begun), upper.and_then(|upper| upper.checked_add(begun)))
    }
}

/// The stream that [`StreamExt::debounce`](super::StreamExt::debounce) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Debounce;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Debounce<_> = futures::stream::iter([1, 2]).debounce(Duration::from_secs(3600));
/// assert_eq!((items.next().await, items.next().await), (Some(2), None), "the stream has ended");
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct Debounce<S: Stream> {
    #[pin]
    stream: Fuse<S>,
    /// Ends when the stream has been silent for `duration`.
    limit: LazySleep,
    duration: Duration,
    /// The item that came last, if it was not yielded yet.
    last: Option<S::Item>,
}

impl<S: Stream> Debounce<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Debounce { stream: Fuse::new(stream), limit: LazySleep::new(sleep(duration)), duration, last: None }
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        for _ in 0..AT_ONCE {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    *this.last = Some(item);
                    this.limit.end_after(*this.duration);
                }
                Poll::Ready(None) => return Poll::Ready(this.last.take()),
                Poll::Pending if this.last.is_none() => return Poll::Pending,
                Poll::Pending => {
                    ready!(this.limit.poll_or_panic(cx));
                    ready!(coop::poll_proceed(cx)).made_progress();
                    return Poll::Ready(this.last.take());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(self.last.is_some());
        let (lower, upper) = self.stream.size_hint();
        (lower.saturating_add(begun).min(1), upper.and_then(|upper| upper.checked_add(begun)))
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
