//! [`StreamExt`]: time limits for streams, with the names and meaning of tokio-stream's adapters.
//!
//! # Examples
//!
//! ```
//! use futures::StreamExt as _;
//! use hairspring::{Duration, StreamExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let lines = futures::stream::iter(["one", "two"]).chain(futures::stream::pending());
//! let mut lines = std::pin::pin!(lines.timeout(Duration::from_secs(30)));
//! assert_eq!(lines.next().await, Some(Ok("one")));
//! assert_eq!(lines.next().await, Some(Ok("two")));
//! assert!(lines.next().await.unwrap().is_err(), "silence");
//! # }
//! ```

mod pace;

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;
use tokio::task::coop;

use crate::future::{Interval, LazySleep, Sleep, sleep};
use crate::timer::Timer;
pub use crate::util::error::Elapsed;
pub use pace::{ChunksTimeout, Debounce, IntervalStream, Throttle};

/// Adds time limits to every stream.
///
/// | method | result |
/// |---|---|
/// | [`timeout`](StreamExt::timeout) | an error, once, if no item arrives for a while |
/// | [`timeout_repeating`](StreamExt::timeout_repeating) | an error at each tick of an interval until an item arrives |
/// | [`throttle`](StreamExt::throttle) | all items, at least some time apart |
/// | [`chunks_timeout`](StreamExt::chunks_timeout) | batches, limited in size and age |
/// | [`debounce`](StreamExt::debounce) | the last item before each silence |
/// | [`throttle_latest`](StreamExt::throttle_latest) | the first item, then the latest of each period |
///
/// The first four have the names, signatures and meaning of `tokio_stream::StreamExt`. With both traits imported, calls
/// are ambiguous: for `next`, `map` and the like, import `futures::StreamExt` instead.
///
/// To choose the timer, create the stream with `with_timer` of its type, such as [`Timeout::with_timer`].
/// `throttle_latest` has none. The timer must have no [capacity](crate::timer::Builder::capacity), because these streams
/// cannot return its errors.
///
/// The streams are `Unpin` if the inner stream is. Like [`sleep`](crate::sleep()), they can be created and polled
/// anywhere, and panic in the same cases.
///
/// # Cancel safety
///
/// Dropping a future that waits for the next item loses nothing: collected items stay in the stream.
///
/// # Examples
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let items = futures::stream::iter(1..=5).chunks_timeout(2, Duration::from_secs(1));
/// assert_eq!(items.collect::<Vec<_>>().await, [vec![1, 2], vec![3, 4], vec![5]]);
/// # }
/// ```
pub trait StreamExt: Stream {
    /// Yields an [`Elapsed`] error, once, if no item arrives for `duration`, and continues to wait for the item.
    ///
    /// The time counts from this call, and then from each item. The stream is polled before the timer, so a ready item
    /// wins, however late. An item only moves the deadline, without touching the timer. With a zero duration, the
    /// stream yields an error whenever no item is ready.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt, sleep};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let slow = futures::stream::once(async {
    ///     sleep(Duration::from_secs(5)).await;
    ///     "late"
    /// });
    /// let mut slow = std::pin::pin!(slow.timeout(Duration::from_secs(2)));
    /// assert!(slow.next().await.unwrap().is_err(), "after two seconds");
    /// assert_eq!(slow.next().await, Some(Ok("late")));
    /// assert_eq!(slow.next().await, None);
    /// # }
    /// ```
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, sleep(duration), duration)
    }

    /// Yields an [`Elapsed`] error at each tick of `interval` until an item arrives, where
    /// [`timeout`](StreamExt::timeout) yields one. An item resets the interval.
    ///
    /// The first tick of an [`interval`](crate::interval()) is immediate, so the first poll without an item yields an
    /// error. To wait for a period first, use [`interval_at`](crate::interval_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Instant, StreamExt, interval_at};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let second = Duration::from_secs(1);
    /// let ticks = interval_at(Instant::now() + second, second);
    /// let mut silent = futures::stream::pending::<()>().timeout_repeating(ticks);
    /// let start = Instant::now();
    /// assert!(silent.next().await.unwrap().is_err());
    /// assert!(silent.next().await.unwrap().is_err());
    /// assert_eq!(start.elapsed(), 2 * second);
    /// # }
    /// ```
    fn timeout_repeating(self, interval: Interval) -> TimeoutRepeating<Self>
    where
        Self: Sized,
    {
        TimeoutRepeating::new(self, interval)
    }

    /// Keeps items at least `duration` apart, counted from when each is yielded. The first is not delayed. A zero
    /// duration changes nothing.
    ///
    /// The stream is not polled until the time has passed, so no item is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Instant, StreamExt};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut items = futures::stream::repeat('x').throttle(Duration::from_secs(2));
    /// items.next().await; // immediately
    /// items.next().await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(2));
    /// # }
    /// ```
    #[track_caller]
    #[doc(alias = "rate limit")]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, sleep(duration), duration)
    }

    /// Collects items into batches: yields a `Vec` when it has `max_size` items, when `duration` has passed since its
    /// first item, or when the stream ends. A `Vec` is never empty.
    ///
    /// The time is checked when no item is ready, and after every 128 ready items, when other tasks get to run. With a
    /// zero duration, the stream yields the ready items, at most 128 at a time.
    ///
    /// # Panics
    ///
    /// Panics if `max_size` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let rows = futures::stream::iter(1..=3).chain(futures::stream::pending());
    /// let mut batches = rows.chunks_timeout(2, Duration::from_secs(1));
    /// assert_eq!(batches.next().await, Some(vec![1, 2]));
    /// assert_eq!(batches.next().await, Some(vec![3]), "a second later");
    /// # }
    /// ```
    #[track_caller]
    #[doc(alias = "batch")]
    #[doc(alias = "buffer_timeout")]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max_size, sleep(duration), duration)
    }

    /// Yields the last item before each silence of `duration`, and drops the others. When the stream ends, the last
    /// item is yielded immediately.
    ///
    /// The stream is polled before the timer, so a ready item wins, however late. An item only moves the deadline,
    /// without touching the timer. A stream that is never silent for `duration` yields nothing until it ends, unless
    /// you set a [longest wait](Debounce::max_wait). With a zero duration, the stream yields an item as soon as no
    /// other is ready.
    ///
    /// Errors are items like any other: the next item replaces them.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let typed = futures::stream::iter(["h", "he", "hel"]).chain(futures::stream::pending());
    /// let mut searches = typed.debounce(Duration::from_millis(300));
    /// assert_eq!(searches.next().await, Some("hel"));
    /// # }
    /// ```
    #[track_caller]
    fn debounce(self, duration: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, sleep(duration), duration)
    }

    /// Yields the first item immediately, and then at most one item per `period`: the latest. Items in between are
    /// dropped, but never the last: if the stream ends, that item is yielded at the end of its period.
    ///
    /// A period counts from when an item is yielded. Unlike [`throttle`](StreamExt::throttle), which yields every item,
    /// this polls the stream all the time. The time is checked when no item is ready, and after every 128 ready items.
    /// With a zero period, the stream yields the latest item at each of these checks.
    ///
    /// Errors are items like any other: the next item replaces them.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Instant, StreamExt};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let percent = futures::stream::iter(0..=100).throttle_latest(Duration::from_secs(1));
    /// assert_eq!(percent.collect::<Vec<_>>().await, [0, 100]);
    /// assert_eq!(start.elapsed(), Duration::from_secs(1));
    /// # }
    /// ```
    #[track_caller]
    #[doc(alias = "sample")]
    fn throttle_latest(self, period: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, sleep(period), period).into_throttle()
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

/// A stream that is dropped when it ends.
#[derive(Debug)]
#[pin_project]
struct Fuse<S> {
    /// `None` once it has ended.
    #[pin]
    stream: Option<S>,
}

impl<S> Fuse<S> {
    fn new(stream: S) -> Self {
        Fuse { stream: Some(stream) }
    }
}

impl<S: Stream> Stream for Fuse<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut stream = self.project().stream;
        let Some(open) = stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let item = ready!(open.poll_next(cx));
        if item.is_none() {
            stream.set(None);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.as_ref().map_or((0, Some(0)), Stream::size_hint)
    }
}

/// The stream that [`StreamExt::timeout`](StreamExt::timeout) returns.
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
#[derive(Debug)]
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
    fn new(stream: S, limit: Sleep, duration: Duration) -> Self {
        Timeout { stream: Fuse::new(stream), limit: LazySleep::new(limit), duration, is_limited: true }
    }

    /// Wraps `stream` as [`StreamExt::timeout`] does, on `timer`, which the stream keeps alive.
    ///
    /// # Panics
    ///
    /// Panics if the timer has a [capacity](crate::timer::Builder::capacity). Polling panics if it has to wait and the
    /// timer was shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Timer, stream::Timeout};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let mut silent = Timeout::with_timer(futures::stream::pending::<()>(), Duration::from_secs(30), &timer);
    /// assert!(silent.next().await.unwrap().is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(stream: S, duration: Duration, timer: &Timer) -> Self {
        Timeout::new(stream, timer.unlimited("Timeout").sleep(duration), duration)
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

/// The stream that [`StreamExt::timeout_repeating`](StreamExt::timeout_repeating) returns. To choose the timer, pass an
/// interval of [`Timer::interval`](crate::Timer::interval) or [`Timer::interval_at`](crate::Timer::interval_at).
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
    interval: Interval,
}

impl<S> TimeoutRepeating<S> {
    fn new(stream: S, interval: Interval) -> Self {
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
        // Errors never end.
        (self.stream.size_hint().0, None)
    }
}
