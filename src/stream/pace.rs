//! [`Throttle`] keeps items apart, [`ChunksTimeout`] batches them, [`Debounce`] yields the latest after a silence or a
//! period, and [`IntervalStream`] wraps an interval.

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
use crate::future::{Interval, LazySleep, Sleep};
use crate::timer::Timer;
use crate::wheel::Tick;

/// How many items one poll takes before other tasks run.
const AT_ONCE: usize = 128;

/// The maximum number of items to reserve room for.
const MAX_PREALLOCATED: usize = 1024;

/// The stream that [`StreamExt::throttle`](super::StreamExt::throttle) returns.
///
/// # Examples
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
    pub(super) fn new(stream: S, delay: Sleep, duration: Duration) -> Self {
        Throttle { stream, delay, duration, waits: false }
    }

    /// Wraps `stream` as [`StreamExt::throttle`](super::StreamExt::throttle) does, on `timer`, which the stream keeps
    /// alive.
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
    /// # use hairspring::{Duration, Timer, stream::Throttle};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let items = Throttle::with_timer(futures::stream::iter([1, 2]), Duration::from_secs(1), &timer);
    /// assert_eq!(items.take(2).collect::<Vec<_>>().await, [1, 2]);
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(stream: S, duration: Duration, timer: &Timer) -> Self {
        Throttle::new(stream, timer.unlimited("Throttle").sleep(duration), duration)
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
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

    /// Returns a mutable reference to the inner stream. Items taken from it are not throttled.
    ///
    /// # Examples
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

    /// Returns the inner stream. No item is lost: this holds none.
    ///
    /// # Examples
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
/// # Examples
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
    /// Ends when the batch is to be yielded, once it has an item.
    delay: Sleep,
    duration: Duration,
    items: Vec<S::Item>,
    max_size: usize,
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, delay: Sleep, duration: Duration) -> Self {
        assert!(max_size > 0, "`max_size` must be non-zero.");
        ChunksTimeout { stream: Fuse::new(stream), delay, duration, items: Vec::new(), max_size }
    }

    /// Wraps `stream` as [`StreamExt::chunks_timeout`](super::StreamExt::chunks_timeout) does, on `timer`, which the
    /// stream keeps alive.
    ///
    /// # Panics
    ///
    /// Panics if `max_size` is zero, or if the timer has a [capacity](crate::timer::Builder::capacity). Polling panics
    /// if it has to wait and the timer was shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Timer, stream::ChunksTimeout};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let rows = futures::stream::iter(1..=3).chain(futures::stream::pending());
    /// let mut batches = ChunksTimeout::with_timer(rows, 10, Duration::from_secs(1), &timer);
    /// assert_eq!(batches.next().await, Some(vec![1, 2, 3]));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(stream: S, max_size: usize, duration: Duration, timer: &Timer) -> Self {
        ChunksTimeout::new(stream, max_size, timer.unlimited("ChunksTimeout").sleep(duration), duration)
    }

    /// Takes the items that were collected and not yet yielded.
    ///
    /// # Examples
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
                this.items.reserve_exact(MAX_PREALLOCATED.min(*this.max_size));
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

/// The stream that [`StreamExt::debounce`](super::StreamExt::debounce) and
/// [`StreamExt::throttle_latest`](super::StreamExt::throttle_latest) return.
///
/// # Examples
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
    limit: LazySleep,
    /// How long the stream has to be silent, or the period of a throttle.
    quiet: Duration,
    longest: Option<Duration>,
    /// The tick until which the item in `last` may be held back.
    until: Tick,
    /// Of a throttle: when the next item may be yielded, or tick 0 before the first.
    not_before: Option<Tick>,
    /// The latest item that was not yet yielded.
    last: Option<S::Item>,
}

impl<S: Stream> Debounce<S> {
    pub(super) fn new(stream: S, limit: Sleep, quiet: Duration) -> Self {
        Debounce {
            stream: Fuse::new(stream),
            limit: LazySleep::new(limit),
            quiet,
            longest: None,
            until: Tick::MAX,
            not_before: None,
            last: None,
        }
    }

    pub(super) fn into_throttle(self) -> Self {
        Debounce { not_before: Some(Tick::ZERO), ..self }
    }

    /// Wraps `stream` as [`StreamExt::debounce`](super::StreamExt::debounce) does, on `timer`, which the stream keeps
    /// alive.
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
    /// # use hairspring::{Duration, Timer, stream::Debounce};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let typed = futures::stream::iter(["h", "he"]).chain(futures::stream::pending());
    /// assert_eq!(Debounce::with_timer(typed, Duration::from_millis(300), &timer).next().await, Some("he"));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(stream: S, duration: Duration, timer: &Timer) -> Self {
        Debounce::new(stream, timer.unlimited("Debounce").sleep(duration), duration)
    }

    /// Limits how long items are held back: when `longest` has passed since the first of them, the last is yielded,
    /// even if the stream is never silent. lodash calls this `maxWait`.
    ///
    /// The time is checked when no item is ready, and after every 128 ready items. With zero, the stream yields the
    /// last item at each of these checks. It changes nothing for a stream of
    /// [`throttle_latest`](super::StreamExt::throttle_latest), whose period is the longest wait.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, Instant, StreamExt, interval};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let start = Instant::now();
    /// let changes = interval(Duration::from_millis(100)).enumerate().map(|(number, _)| number);
    /// let mut saves = changes.debounce(Duration::from_millis(300)).max_wait(Duration::from_secs(2));
    /// assert_eq!(saves.next().await, Some(20));
    /// assert_eq!(start.elapsed(), Duration::from_secs(2));
    /// # }
    /// ```
    #[doc(alias = "maxWait")]
    pub fn max_wait(self, longest: Duration) -> Self {
        Debounce { longest: Some(longest), ..self }
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        let mut taken = 0;
        while taken < AT_ONCE {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.last.is_none() {
                        *this.until = match (this.not_before.as_mut(), *this.longest) {
                            (Some(first @ &mut Tick::ZERO), _) if !this.quiet.is_zero() => {
                                *first = clock::later(this.limit.now(), *this.quiet);
                                return Poll::Ready(Some(item));
                            }
                            (Some(not_before), _) => this.limit.now().max(*not_before),
                            (None, Some(longest)) => clock::later(this.limit.now(), longest),
                            (None, None) => Tick::MAX,
                        };
                    }
                    *this.last = Some(item);
                    taken += 1;
                }
                // At the end of the stream, only a throttle's last item waits.
                Poll::Ready(None) if this.not_before.is_some() && this.last.is_some() => break,
                Poll::Ready(None) => return Poll::Ready(this.last.take()),
                Poll::Pending if this.last.is_none() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if taken > 0 {
            // A throttle's period never ends before `until`.
            this.limit.end_at(clock::later(this.limit.now(), *this.quiet).min(*this.until));
        }
        // While items are ready, the sleep is not registered. With a resolution, its timer may end it later than this.
        let may_be_due = taken < AT_ONCE || this.limit.has_come(*this.until);
        if !may_be_due || this.limit.poll_or_panic(cx).is_pending() {
            if taken == AT_ONCE {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        ready!(coop::poll_proceed(cx)).made_progress();
        if let Some(not_before) = this.not_before {
            *not_before = clock::later(this.limit.now(), *this.quiet);
        }
        Poll::Ready(this.last.take())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(self.last.is_some());
        let (lower, upper) = self.stream.size_hint();
        (lower.saturating_add(begun).min(1), upper.and_then(|upper| upper.checked_add(begun)))
    }
}

/// A stream of the ticks of an [`Interval`], like `tokio_stream::wrappers::IntervalStream`. An [`Interval`] of this
/// crate is a stream itself; this type lets programs that wrap tokio's interval compile unchanged.
///
/// # Examples
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
    /// # Examples
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
    /// # Examples
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
