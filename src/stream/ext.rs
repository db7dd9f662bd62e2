//! [`StreamExt`]: the methods that create the adapters.

use std::time::Duration;

use futures_core::Stream;

use super::{ChunksTimeout, Debounce, Throttle, Timeout, TimeoutRepeating};
use crate::future::{Interval, limit};

/// Adds time limits to every stream.
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
///
/// | method | result |
/// |---|---|
/// | [`timeout`](StreamExt::timeout) | an error, once, if no item arrives for a while |
/// | [`timeout_repeating`](StreamExt::timeout_repeating) | an error at each tick of an interval until an item arrives |
/// | [`throttle`](StreamExt::throttle) | all items, at least some time apart |
/// | [`chunks_timeout`](StreamExt::chunks_timeout) | batches, limited in size and age |
/// | [`debounce`](StreamExt::debounce) | the last item before each silence |
///
/// The first four have the names, signatures and meaning of `tokio_stream::StreamExt`. With both traits imported, calls
/// are ambiguous: for `next`, `map` and the like, import `futures::StreamExt` instead.
///
/// To choose the timer, call `with_timer` on the new stream, as in [`Timeout::with_timer`]. `timeout_repeating` uses
/// the timer of its interval. The timer must have no [`max_pending`](crate::timer::Builder::max_pending), because these streams
/// cannot return its errors.
///
/// The streams are `Unpin` if the inner stream is. They can be created and polled anywhere, and panic as
/// [`sleep`](crate::sleep()) does.
///
/// # Cancel safety
///
/// Dropping a future that waits for the next item loses nothing: collected items stay in the stream.
pub trait StreamExt: Stream {
    /// Yields an [`Elapsed`](crate::Elapsed) error, once, if no item arrives for `duration`, and continues to wait for
    /// the item.
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
    ///
    /// The time counts from this call, and then from each item. The stream is polled before the timer, so a ready item
    /// wins, however late. An item only moves the deadline, without touching the timer. With a zero duration, the
    /// stream yields the error at the first poll of each silence.
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        Timeout::new(self, limit(duration), duration)
    }

    /// Yields an [`Elapsed`](crate::Elapsed) error at each tick of `interval` until an item arrives, where
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
        Throttle::new(self, limit(duration), duration)
    }

    /// Collects items into batches: yields a `Vec` when it has `max_size` items, when `duration` has passed since its
    /// first item, or when the stream ends. A `Vec` is never empty.
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
    ///
    /// The time is checked when no item is ready, and after every 128 ready items, when other tasks get to run. With a
    /// zero duration, the stream yields the ready items, at most 128 at a time.
    ///
    /// # Panics
    ///
    /// Panics if `max_size` is zero.
    #[track_caller]
    #[doc(alias = "batch")]
    #[doc(alias = "buffer_timeout")]
    fn chunks_timeout(self, max_size: usize, duration: Duration) -> ChunksTimeout<Self>
    where
        Self: Sized,
    {
        ChunksTimeout::new(self, max_size, limit(duration), duration)
    }

    /// Yields the last item before each silence of `duration`, and drops the others. When the stream ends, the last
    /// item is yielded immediately.
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
    ///
    /// The stream is polled before the timer, so a ready item wins, however late. An item only moves the deadline,
    /// without touching the timer. A stream that is never silent for `duration` yields nothing until it ends, unless
    /// you set a [longest wait](Debounce::max_wait). With a zero duration, the stream yields an item as soon as no
    /// other is ready.
    ///
    /// Errors are items like any other: the next item replaces them.
    #[track_caller]
    fn debounce(self, duration: Duration) -> Debounce<Self>
    where
        Self: Sized,
    {
        Debounce::new(self, limit(duration), duration)
    }
}

impl<S: Stream + ?Sized> StreamExt for S {}
