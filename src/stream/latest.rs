//! [`Debounce`] yields the last item before each silence.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;
use tokio::task::coop;

use super::AT_ONCE;
use super::fuse::Fuse;
use crate::clock;
use crate::future::{LazySleep, Sleep, has_spent_the_budget};
use crate::timer::Timer;
use crate::wheel::Tick;

/// Holds the latest item of a stream back, or a batch of them.
#[pin_project]
pub(super) struct Latest<S, T> {
    #[pin]
    pub(super) stream: Fuse<S>,
    pub(super) limit: LazySleep,
    /// How long the stream has to be silent before the item is yielded, or `Duration::MAX`.
    quiet: Duration,
    /// When the stream has been silent for long enough.
    quiet_at: Tick,
    /// The tick until which the item in `last` may be held back.
    until: Tick,
    /// What was not yet yielded.
    pub(super) last: Option<T>,
    /// Whether items were taken since the limit was set. It stays if the stream then panics.
    has_taken: bool,
}

impl<S: Stream, T> Latest<S, T> {
    pub(super) fn new(stream: S, limit: Sleep, quiet: Duration) -> Self {
        let (stream, limit) = (Fuse::new(stream), LazySleep::new(limit));
        Latest { stream, limit, quiet, quiet_at: Tick::MAX, until: Tick::MAX, last: None, has_taken: false }
    }

    /// Takes the ready items, and returns what is held back if that may wait no longer. `add` adds an item to what is
    /// held back, and returns whether that is full. The first may be held back for `longest`.
    pub(super) fn poll_latest(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        longest: Duration,
        mut add: impl FnMut(&mut Option<T>, S::Item) -> bool,
    ) -> Poll<Option<T>> {
        let mut this = self.project();
        let had_budget = coop::has_budget_remaining();
        let mut taken = 0;
        while taken < AT_ONCE {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    if this.last.is_none() {
                        *this.until = clock::later(this.limit.now(), longest);
                    }
                    *this.has_taken = true;
                    if add(this.last, item) {
                        this.limit.end_at(Tick::MAX);
                        return Poll::Ready(this.last.take());
                    }
                    taken += 1;
                }
                Poll::Ready(None) => {
                    this.limit.stop();
                    return Poll::Ready(this.last.take());
                }
                Poll::Pending if this.last.is_none() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if mem::take(this.has_taken) {
            *this.quiet_at = clock::later(this.limit.now(), *this.quiet);
        }
        // While items are ready it is not quiet.
        this.limit.end_at(if taken == AT_ONCE { *this.until } else { (*this.quiet_at).min(*this.until) });
        if this.limit.poll_or_panic(cx).is_pending() {
            if taken == AT_ONCE {
                cx.waker().wake_by_ref();
            }
            return Poll::Pending;
        }
        if !has_spent_the_budget(had_budget) {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(this.last.take())
    }

    /// Waits on `timer` from now on. An item that is held may be held back for `longest` more.
    #[track_caller]
    pub(super) fn wait_on(&mut self, timer: &Timer, longest: Duration) {
        let now = timer.now_tick();
        self.until = clock::later(now, longest);
        self.quiet_at = clock::later(now, self.quiet);
        self.limit = LazySleep::new(timer.sleep_until(clock::instant_of(self.quiet_at.min(self.until))));
    }

    pub(super) fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(self.last.is_some());
        let (lower, upper) = self.stream.size_hint();
        (lower.saturating_add(begun).min(1), upper.and_then(|upper| upper.checked_add(begun)))
    }
}

/// The stream that [`StreamExt::debounce`](crate::StreamExt::debounce) returns.
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
#[pin_project]
pub struct Debounce<S: Stream> {
    #[pin]
    latest: Latest<S, S::Item>,
    /// How long items may be held back, or `Duration::MAX`.
    longest: Duration,
}

impl<S: Stream> Debounce<S> {
    pub(super) fn new(stream: S, limit: Sleep, quiet: Duration) -> Self {
        Debounce { latest: Latest::new(stream, limit, quiet), longest: Duration::MAX }
    }

    /// Waits on `timer`, which the stream then keeps alive. If an item is held back, the silence and the
    /// [longest wait](Debounce::max_wait) count again, from this call.
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt, Timer};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let typed = futures::stream::iter(["h", "he"]).chain(futures::stream::pending());
    /// let mut searches = typed.debounce(Duration::from_millis(300)).with_timer(&timer);
    /// assert_eq!(searches.next().await, Some("he"));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). Polling panics if it has to wait and the
    /// timer was shut down.
    #[track_caller]
    pub fn with_timer(mut self, timer: &Timer) -> Self {
        self.latest.wait_on(timer.unlimited("Debounce"), self.longest);
        self
    }

    /// Limits how long items are held back: when `longest` has passed since the first of them, the last is yielded,
    /// even if the stream is never silent. For an item that is held back now, the time counts from this call. lodash
    /// calls this `maxWait`.
    ///
    /// The time is checked when no item is ready, and after every 128 ready items. With zero, the stream yields the
    /// last item at each of these checks.
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
    pub fn max_wait(mut self, longest: Duration) -> Self {
        self.longest = longest;
        let Latest { quiet_at, until, limit, .. } = &mut self.latest;
        *until = clock::later(limit.now(), longest);
        limit.end_at((*quiet_at).min(*until));
        self
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        this.latest.poll_latest(cx, *this.longest, |last, item| {
            *last = Some(item);
            false
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.latest.size_hint()
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for Debounce<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debounce")
            .field("stream", &self.latest.stream)
            .field("duration", &self.latest.quiet)
            .field("max_wait", &self.longest)
            .finish_non_exhaustive()
    }
}
