//! [`Interval`]: periodic ticks, on any clock.
//
// Invariants
// 1. A tick returns the instant for which it was scheduled.
// 2. No task is woken for a tick that it has not polled for, unless the interval was reset since its last tick: tokio's
//    wakes it then, before 1.53.

use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::stream::{FusedStream, Stream};

use crate::clock::jumping::duration_of_nanos;
use crate::clock::{self, Instant};
use crate::future::delay::{Delay, Time};
use crate::future::spans::Spans;
use crate::future::{ItemKind, sleep_until};
use crate::timer::Timer;
use crate::util::error::Error;
use crate::wheel::Tick;

/// Creates an interval that ticks immediately and then every `period`. Equivalent to [`interval_at`]`(Instant::now(),
/// period)`.
///
/// ```
/// use hairspring::{Duration, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut interval = interval(Duration::from_millis(2));
/// let first = interval.tick().await; // immediately
/// let second = interval.tick().await; // 2 ms later
/// assert_eq!(second - first, Duration::from_millis(2));
/// # }
/// ```
///
/// No tick is early, and ticks do not drift, however late the task is. This can be called anywhere;
/// the first tick finds the runtime. To rest between pieces of work, [`sleep`](crate::sleep()) in a loop is simpler.
///
/// # Panics
///
/// Panics if `period` is zero.
#[track_caller]
#[must_use]
#[doc(alias = "setInterval")]
#[doc(alias = "ticker")]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Creates an interval that ticks at `start` and then every `period`. See [`interval()`].
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Instant, interval_at};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = Instant::now() + Duration::from_millis(2);
/// let mut interval = interval_at(start, Duration::from_millis(1));
/// assert_eq!(interval.tick().await, start);
/// # }
/// ```
#[track_caller]
#[must_use]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(sleep_until(start), period, None)
}

/// How an [`Interval`] handles missed ticks. A tick is missed if it is polled late, because the task was busy or the
/// machine was suspended. Late means more than 5 ms, or more than the timer itself may delay a tick if that is longer:
/// its [resolution](crate::timer::Builder::resolution) plus its [`coalesce`](crate::timer::Builder::coalesce).
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use hairspring::MissedTickBehavior::{Burst, Delay, Skip};
/// use hairspring::{Duration, interval, sleep};
///
/// for (behavior, times) in [(Burst, [35, 35, 40]), (Delay, [35, 45, 55]), (Skip, [35, 40, 50])] {
///     let mut interval = interval(Duration::from_secs(10)).with_missed_tick_behavior(behavior);
///     let start = interval.tick().await; // immediately
///     interval.tick().await;
///     sleep(Duration::from_secs(25)).await;
///     for time in times {
///         interval.tick().await;
///         assert_eq!(start.elapsed().as_secs(), time);
///     }
/// }
/// # }
/// ```
///
/// If the period is 10 and ticks are due at 10, 20, ..., a task that is busy from 10 to 35 gets its ticks at:
///
/// | behaviour | 20 | 30 | 40 | 50 | result |
/// |---|---|---|---|---|---|
/// | [`Burst`](Self::Burst) | 35 | 35 | 40 | 50 | no tick is skipped |
/// | [`Delay`](Self::Delay) | 35 | 45 | 55 | 65 | ticks are at least a period apart, give or take the 5 ms of tolerated lateness |
/// | [`Skip`](Self::Skip) | 35 | | 40 | 50 | ticks stay on multiples of the period |
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MissedTickBehavior {
    /// Delivers all missed ticks immediately, one per poll. Good for counting: there are as many ticks as periods.
    #[default]
    Burst,
    /// Schedules the next tick a full period after the late one. Good for work that needs breaks.
    Delay,
    /// Skips the missed ticks. The next tick is at a multiple of the period after the start. Good for clocks, and for
    /// reports on the full minute.
    Skip,
}

impl MissedTickBehavior {
    /// The time from a tick to the next, if the tick was polled this late.
    fn pause(self, late: Duration, period: Duration) -> Duration {
        match self {
            Self::Burst => period,
            Self::Delay => late.saturating_add(period),
            Self::Skip => {
                let beyond = duration_of_nanos(late.as_nanos() % period.as_nanos());
                late.saturating_add(period.saturating_sub(beyond))
            }
        }
    }
}

/// An interval that returns an [`Error`] if a tick has to wait and its timer is [full](Error::is_at_capacity) or
/// was [shut down](Error::is_shutdown). [`Interval::fallible`] returns it.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// # use hairspring::{Duration, interval};
/// let mut interval = interval(Duration::from_millis(1)).fallible();
/// assert!(interval.tick().await.is_ok());
/// # }
/// ```
#[derive(Debug)]
pub struct TryInterval<T: Time = Instant>(Interval<T>);

impl<T: Time> TryInterval<T> {
    /// Waits for the next tick as [`Interval::tick`] does. An error skips no tick: the next call retries the same one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, interval_at, Instant};
    /// let start = Instant::now();
    /// assert_eq!(interval_at(start, Duration::from_secs(1)).fallible().tick().await, Ok(start));
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the tick has to wait and the timer refuses it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready loses no tick.
    pub async fn tick(&mut self) -> Result<T, Error> {
        self.0.try_tick().await
    }

    /// Returns the interval, whose ticks panic again.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, interval};
    /// let second = Duration::from_secs(1);
    /// assert_eq!(interval(second).fallible().into_inner().period(), second);
    /// ```
    #[must_use]
    pub fn into_inner(self) -> Interval<T> {
        self.0
    }
}

/// A regular schedule, read with [`tick`](Interval::tick) or as a [`Stream`] that never ends.
///
/// `T` is the time in which it ticks: an [`Instant`](crate::Instant), or a [`boot::Instant`](crate::boot::Instant) for
/// [`boot::interval`](crate::boot::interval()).
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use hairspring::{Duration, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks: Vec<_> = interval(Duration::from_millis(1)).take(3).collect().await;
/// assert_eq!(ticks[2] - ticks[0], Duration::from_millis(2));
/// # }
/// ```
#[doc(alias = "Ticker")]
pub struct Interval<T: Time = Instant> {
    delay: T::Sleep,
    /// The task that got the last tick and has not polled for the next.
    ticked: Option<Waker>,
    period: Duration,
    missed: u64,
    missed_tick_behavior: MissedTickBehavior,
    spans: Spans,
}

impl<T: Time> Interval<T> {
    #[track_caller]
    pub(crate) fn new(delay: T::Sleep, period: Duration, timer: Option<&Timer>) -> Self {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        let missed_tick_behavior = MissedTickBehavior::default();
        let spans = Spans::new("Interval", Location::caller(), || timer.and_then(|timer| timer.lease.name()));
        let delay = delay.part_of(ItemKind::Interval);
        Interval { delay, ticked: None, period, missed: 0, missed_tick_behavior, spans }
    }

    pub(crate) fn map_delay(self, change: impl FnOnce(T::Sleep) -> T::Sleep) -> Self {
        Interval { delay: change(self.delay), ..self }
    }

    /// Returns the same interval with errors in place of panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().build().unwrap();
    /// let mut interval = timer.interval(Duration::from_secs(60)).fallible();
    /// assert!(interval.tick().await.is_ok(), "the first tick does not wait");
    /// timer.shutdown();
    /// assert!(interval.tick().await.is_err_and(|error| error.is_shutdown()));
    /// # }
    /// ```
    #[must_use]
    pub fn fallible(self) -> TryInterval<T> {
        TryInterval(self)
    }

    /// Waits for the next tick and returns the instant for which it was scheduled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, interval};
    /// let mut interval = interval(Duration::from_millis(1));
    /// let first = interval.tick().await;
    /// assert_eq!(interval.tick().await, first + Duration::from_millis(1));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready loses no tick.
    ///
    /// # Panics
    ///
    /// Panics as [`sleep`](crate::sleep()) does. After [`fallible`](Interval::fallible), it returns an error instead.
    pub async fn tick(&mut self) -> T {
        self.try_tick().await.unwrap_or_else(|error| self.delay.panic_with(error))
    }

    async fn try_tick(&mut self) -> Result<T, Error> {
        // The sleep records when the tick is due.
        let spans = self.spans.operation("Interval::tick", Tick::MAX, clock::now);
        poll_fn(|cx| spans.poll("poll_tick", || self.poll_try_tick(cx, false))).await
    }

    /// Polls for the next tick. Only the task of the last poll is woken.
    ///
    /// # Panics
    ///
    /// Panics as [`sleep`](crate::sleep()) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, interval_at};
    /// let start = Instant::now();
    /// let mut interval = interval_at(start, Duration::from_millis(1));
    /// assert_eq!(std::future::poll_fn(|cx| interval.poll_tick(cx)).await, start);
    /// # }
    /// ```
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<T> {
        self.poll_limit(cx, false)
    }

    /// [`poll_tick`](Interval::poll_tick), but if the task's budget `is_spent`, this needs none.
    pub(crate) fn poll_limit(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<T> {
        self.poll_try_tick(cx, is_spent).map(|tick| tick.unwrap_or_else(|error| self.delay.panic_with(error)))
    }

    fn poll_try_tick(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<T, Error>> {
        let before = self.ticked.take();
        ready!(self.delay.poll_delay(cx, is_spent))?;
        let before = before.filter(|waker| waker.will_wake(cx.waker()));
        self.ticked = before.or_else(|| Some(cx.waker().clone()));
        let (scheduled, late) = (self.delay.deadline(), self.delay.late());
        self.missed = u64::try_from(late.as_nanos() / self.period.as_nanos()).unwrap_or(u64::MAX);
        let pause = self.missed_tick_behavior.pause(late, clock::or_for_ever(self.period));
        self.delay.reset_at(scheduled + pause);
        Poll::Ready(Ok(scheduled))
    }

    /// Returns how many later ticks were already due when the last tick was returned, or zero if that tick was not
    /// late: see [`MissedTickBehavior`]. With `Burst` they are yet to be returned; with `Delay` and `Skip` they are
    /// skipped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, MissedTickBehavior, interval, sleep};
    ///
    /// let mut interval = interval(Duration::from_secs(60));
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

    /// Schedules the next tick one period from now. See [`reset_at`](Interval::reset_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, interval};
    /// let mut interval = interval(Duration::from_millis(2));
    /// interval.tick().await;
    /// let now = Instant::now();
    /// interval.reset();
    /// assert!(interval.tick().await >= now + Duration::from_millis(2));
    /// # }
    /// ```
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Schedules the next tick for now. See [`reset_at`](Interval::reset_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, interval};
    /// let mut interval = interval(Duration::from_secs(3600));
    /// interval.tick().await;
    /// interval.reset_immediately();
    /// interval.tick().await; // does not wait for an hour
    /// # }
    /// ```
    pub fn reset_immediately(&mut self) {
        self.reset_after(Duration::ZERO);
    }

    /// Schedules the next tick `after` from now. See [`reset_at`](Interval::reset_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, interval};
    /// let mut hourly = interval(Duration::from_secs(3600));
    /// let first = hourly.tick().await;
    /// hourly.reset_after(Duration::from_millis(1));
    /// assert!(hourly.tick().await >= first + Duration::from_millis(1));
    /// # }
    /// ```
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(self.delay.now() + clock::or_for_ever(after));
    }

    /// Schedules the next tick at `deadline`, and later ticks every period after that. Ticks missed before the call are
    /// forgotten.
    ///
    /// As with [`Sleep::reset_at`](crate::Sleep::reset_at), the task of the last poll is woken at the new deadline
    /// without another poll, or immediately if that has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, interval};
    /// let mut hourly = interval(Duration::from_secs(3600));
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// hourly.reset_at(deadline);
    /// assert_eq!(hourly.tick().await, deadline);
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: T) {
        self.delay.reset_at(deadline);
        if let Some(waker) = self.ticked.take() {
            self.delay.wait_for(waker);
        }
    }

    /// Returns how this interval treats missed ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, MissedTickBehavior, interval};
    /// assert_eq!(interval(Duration::from_secs(1)).missed_tick_behavior(), MissedTickBehavior::Burst);
    /// ```
    #[must_use]
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.missed_tick_behavior
    }

    /// Sets how this interval treats missed ticks, starting with the next tick.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, MissedTickBehavior, interval};
    /// let mut interval = interval(Duration::from_secs(1));
    /// interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    /// assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Skip);
    /// ```
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.missed_tick_behavior = behavior;
    }

    /// Sets how this interval treats missed ticks, for chaining.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, MissedTickBehavior, interval};
    /// let mut beats = interval(Duration::from_secs(1)).with_missed_tick_behavior(MissedTickBehavior::Delay);
    /// beats.tick().await;
    /// # }
    /// ```
    #[must_use]
    pub fn with_missed_tick_behavior(self, behavior: MissedTickBehavior) -> Interval<T> {
        Interval { missed_tick_behavior: behavior, ..self }
    }

    /// Returns the time between two ticks.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, interval};
    /// assert_eq!(interval(Duration::from_secs(1)).period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn period(&self) -> Duration {
        self.period
    }
}

impl<T: Time> fmt::Debug for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("next", &self.delay.deadline())
            .field("period", &self.period)
            .field("missed", &self.missed)
            .field("missed_tick_behavior", &self.missed_tick_behavior)
            .finish_non_exhaustive()
    }
}

impl<T: Time> Stream for Interval<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl<T: Time> FusedStream for Interval<T> {
    /// Returns `false`: an interval never ends.
    fn is_terminated(&self) -> bool {
        false
    }
}
