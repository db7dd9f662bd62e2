//! Streams with deadlines: [`StreamExt`], with the names and the meaning of tokio-stream's adapters, and the streams
//! that its methods return.
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

/// Adds time limits to every stream, as tokio-stream does, on the timers of this crate.
///
/// The methods have the names, the signatures and the meaning of those of `tokio_stream::StreamExt`, and there are also
/// [`debounce`](StreamExt::debounce) and [`throttle_latest`](StreamExt::throttle_latest). To choose the timer, make the
/// stream with the function `with_timer` of its type, such as [`Timeout::with_timer`]; a `throttle_latest` has none.
///
/// Import `futures::StreamExt` for `next`, `map` and the like: a program that imports both tokio-stream's trait and this
/// one has to say which `timeout` it means.
///
/// The streams are `Unpin` if the inner stream is. They can be made and polled anywhere, like
/// [`sleep`](crate::sleep()). Polling panics in the same cases as a sleep does.
///
/// # Cancel safety
/// Dropping a future that waits for the next item loses nothing: items that were gathered stay in the stream.
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
    /// Limits how long each item may take. If none has come for `duration`, the stream yields an [`Elapsed`] error,
    /// once, and goes on waiting for the item.
    ///
    /// The time counts from this call, and then from each item. The stream is polled before the timer, so an item that
    /// is there counts, however late the task is. An item moves the deadline without a call to the timer. A duration of
    /// more than 500 years is treated as 500 years; a zero duration gives an error whenever no item is ready.
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

    /// Yields an [`Elapsed`] error at each tick of `interval` as long as no item comes, where
    /// [`timeout`](StreamExt::timeout) yields one error. An item resets the interval.
    ///
    /// An [`interval`](crate::interval()) ticks at once, so the first poll that finds no item yields an error. Use
    /// [`interval_at`](crate::interval_at) to wait for a period first.
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

    /// Keeps items at least `duration` apart, counted from when each is yielded. The first comes at once. A zero
    /// duration changes nothing; more than 500 years are treated as 500 years.
    ///
    /// The stream is not polled until the time has passed, so its items wait where they are.
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Instant, StreamExt};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let mut items = futures::stream::repeat('x').throttle(Duration::from_secs(2));
    /// items.next().await; // at once
    /// items.next().await;
    /// assert_eq!(start.elapsed(), Duration::from_secs(2));
    /// # }
    /// ```
    #[track_caller]
    fn throttle(self, duration: Duration) -> Throttle<Self>
    where
        Self: Sized,
    {
        Throttle::new(self, sleep(duration), duration)
    }

    /// Gathers items: yields a `Vec` of them as soon as there are `max_size`, when `duration` has passed since the
    /// first of them, or when the stream ends. A `Vec` is never empty.
    ///
    /// The time is checked when no item is ready, and after each 128 items that were, when other tasks run, too. With a
    /// zero duration it yields what is ready, at most 128 items at a time.
    ///
    /// # Panics
    /// If `max_size` is zero.
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
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max_size, sleep(duration), duration)
    }

    /// Waits until the stream has been silent for `duration`, and yields the last item that came before. The items
    /// before that one are dropped. When the stream ends, the last item comes at once.
    ///
    /// The stream is polled before the timer, so an item that is there counts, however late the task is. An item moves
    /// the deadline without a call to the timer. A stream that is never silent for so long yields nothing until it
    /// ends, unless you set a [longest wait](Debounce::max_wait). With a zero duration it yields as soon as no item is
    /// ready. More than 500 years are treated as 500 years.
    ///
    /// An item that is an error is an item like others: the next one takes its place.
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

    /// Yields the first item at once, and then at most one item per `period`: the latest. Items that are not the latest
    /// are dropped. The last one is never lost: when the stream ends, it still comes, once its period is over.
    ///
    /// A period counts from when an item is yielded. The stream is polled all the time, unlike that of
    /// [`throttle`](StreamExt::throttle), which yields every item and lets those wait that are too early. If the task
    /// is late, it gets the latest of the items that are there, not the one that has waited longest. The time is checked
    /// when no item is ready, and after each 128 items that were. With a zero period, the stream yields the latest item
    /// at each of these checks. More than 500 years are treated as 500 years.
    ///
    /// An item that is an error is an item like others: the next one takes its place.
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
    fn throttle_latest(self, period: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, sleep(period), period).into_throttle()
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}

/// A stream that is dropped when it ends, and not polled again.
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
    fn new(stream: S, limit: Sleep, duration: Duration) -> Self {
        Timeout { stream: Fuse::new(stream), limit: LazySleep::new(limit), duration, is_limited: true }
    }

    /// Limits how long each item may take, as [`StreamExt::timeout`] does, on the given timer. The stream keeps that
    /// timer from ending for want of a handle.
    ///
    /// # Panics
    /// Polling panics in the same cases as [`Timer::sleep`].
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
        Timeout::new(stream, timer.sleep(duration), duration)
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

/// The stream that [`StreamExt::timeout_repeating`](StreamExt::timeout_repeating) returns. For a timer of your choice,
/// give it an interval of that timer: [`Timer::interval`](crate::Timer::interval) and
/// [`interval_at`](crate::Timer::interval_at).
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
        // There is no end of errors.
        (self.stream.size_hint().0, None)
    }
}
