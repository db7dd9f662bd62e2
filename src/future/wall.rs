//! Timers on the wall clock, for times of day: "at 03:00", "each full minute", "until the shop closes".
//!
//! ```
//! use hairspring::{Duration, wall};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let deadline = wall::now() + Duration::from_millis(5);
//! wall::sleep_until(deadline).await;
//! assert!(wall::now() >= deadline);
//! # }
//! ```
//!
//! The wall clock can be set. To limit how long something takes, use the timers of the crate root or of
//! [`boot`](crate::boot), whose clocks cannot be set. This module therefore has no function that takes a duration to
//! wait.
//!
//! It keeps no record: a time that passed while the program was not running is gone. For schedules that users write,
//! such as `0 3 * * MON-FRI`, and for runs that must survive a restart, use a crate for cron jobs.
//!
//! # When the clock is set
//!
//! After the clock is set, and after a suspension, every waiting timer checks the clock again. It is ready if its
//! deadline has passed, and otherwise continues to wait.
//!
//! | system | how a change is noticed |
//! |---|---|
//! | Linux | immediately: the kernel wakes a thread of this crate (`TFD_TIMER_CANCEL_ON_SET`), which wakes the tasks |
//! | others | within a second of uptime: a thread checks the clocks once a second while a timer waits on them, and wakes tasks only if a clock has jumped |
//!
//! If NTP makes the clock run slightly faster or slower, these timers follow it. On Linux the monotonic clock changes
//! with it, so they stay exact; elsewhere they check again when they are a millisecond off.
//!
//! Times are UTC, as [`SystemTime`](std::time::SystemTime) counts them. The system handles leap seconds.
//!
//! # Time zones
//!
//! A time of day in a time zone is not a fixed period of UTC: with daylight saving, two days a year have 23 or 25
//! hours. Compute each run from the last, with a crate that knows time zones. This job runs at 03:00 in Berlin:
//!
//! ```
//! use hairspring::wall;
//! use jiff::{Error, Timestamp, Zoned, civil::Date, tz::TimeZone};
//! use std::time::SystemTime;
//!
//! /// The next 03:00 after `time`, in its time zone.
//! fn next_night(time: &Zoned) -> Result<Zoned, Error> {
//!     let at_three = |day: Date| day.at(3, 0, 0, 0).to_zoned(time.time_zone().clone());
//!     let today = at_three(time.date())?;
//!     if today > *time { Ok(today) } else { at_three(time.date().tomorrow()?) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Error> {
//! let zone = TimeZone::get("Europe/Berlin")?;
//! let now = || -> Result<Zoned, Error> { Ok(Timestamp::try_from(wall::now())?.to_zoned(zone.clone())) };
//! let mut last = now()?;
//! for _ in 0..3 {
//!     let night = next_night(&last)?;
//!     wall::sleep_until(SystemTime::from(&night)).await;
//!     // ... the job, and then
//!     last = now()?.max(night); // if the clock is set back, no night gets a second run
//! }
//! # Ok(())
//! # }
//! ```
//!
//! If a time of day does not exist when the clocks go forward, such as 02:30 in Berlin, jiff moves it by the length of
//! the gap, to 03:30. If a time occurs twice, jiff uses the first.
//!
//! # In tests
//!
//! On a paused clock and on a `ManualClock`, these timers follow that clock. `test_util::set_wall` sets the wall clock.
//
// Invariants
// 1. No time gets a second tick, unless the clock was set back by a period or more.
// 2. A sleep here is one of `boot`, with that file's invariants.

use std::fmt;
use std::future::{IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use futures_core::stream::{FusedStream, Stream};

use crate::clock::jumping::{ClockTime, Jumping, Reading, nanos_in};
use crate::future::delay::Delay;
use crate::future::{ItemKind, Timeout, boot};
use crate::timer::Timer;

/// Returns the time of day: [`SystemTime::now`], unless a test has changed it.
///
/// ```
/// let before = std::time::SystemTime::now();
/// assert!(hairspring::wall::now() >= before);
/// ```
///
/// If a test has paused the clock of the current runtime, the wall clock starts from the true time and then moves only
/// with that clock. The result does not follow the `ManualClock` of a timer, even if that timer is
/// [installed](crate::timer::Builder::install). `test_util::set_wall` and `suspend` shift it on any runtime.
#[must_use]
#[doc(alias = "CLOCK_REALTIME")]
pub fn now() -> SystemTime {
    SystemTime::of(Jumping::Wall.now())
}

/// Waits until the wall clock shows `deadline`.
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = wall::now() + Duration::from_millis(5);
/// wall::sleep_until(deadline).await;
/// assert!(wall::now() >= deadline);
/// # }
/// ```
///
/// Completes only when a poll finds the clock at or after that time, and the runtime has polled for I/O. Any time
/// is accepted; one that the system cannot wait for is never reached. Cancel safety and panics are those of
/// [`hairspring::sleep`](crate::sleep()).
#[track_caller]
pub fn sleep_until(deadline: SystemTime) -> Sleep {
    Sleep::new(deadline)
}

/// Awaits `future` until the wall clock shows `deadline` at the latest.
///
/// The future is polled before the clock. Errors, cancel safety and panics are those of [`timeout`](crate::timeout()),
/// which takes a duration, as does [`boot::timeout`](crate::boot::timeout()).
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let closes = wall::now() + Duration::from_millis(1);
/// assert_eq!(wall::timeout_at(closes, async { "sold" }).await, Ok("sold"));
/// assert!(wall::timeout_at(closes, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: SystemTime, future: F) -> Timeout<F::IntoFuture, SystemTime> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// The future that [`sleep_until`] returns.
///
/// It is `Unpin`. Once it has completed, every poll is ready until you reset it, even if the clock is set back.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut alarm = wall::sleep_until(wall::now() + Duration::from_millis(1));
/// tokio::select! {
///     () = &mut alarm => {}
///     () = std::future::pending() => unreachable!(),
/// }
/// assert!(alarm.is_elapsed());
/// # }
/// ```
pub type Sleep = boot::Sleep<SystemTime>;

/// Creates an interval that ticks when the wall clock shows a multiple of `period`, counted from 1970 in UTC: at each
/// full minute, hour or day.
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut ticks = wall::interval_aligned(Duration::from_millis(20));
/// let tick = ticks.tick().await;
/// let since = tick.duration_since(std::time::UNIX_EPOCH).unwrap();
/// assert_eq!(since.as_nanos() % 20_000_000, 0);
/// # }
/// ```
///
/// The first tick is at the first such time that has not passed. [`with_phase`](AlignedInterval::with_phase) shifts all
/// ticks. Periods longer than a day work as well, but do not align with weeks or months: 1970 began on a Thursday.
///
/// When the clock is set, or the machine wakes up, the clock may jump:
///
/// - Forward past one or more ticks: one tick is returned immediately, with the time of the first of them. The others
///   are skipped; [`missed`](AlignedInterval::missed) counts them.
/// - Back to less than a period before the last time that got a tick or was missed: no tick is repeated.
/// - Back further: ticks follow the new time, so some times get a second tick.
///
/// # Panics
///
/// Panics if `period` is zero.
#[track_caller]
#[must_use]
#[doc(alias = "cron")]
pub fn interval_aligned(period: Duration) -> AlignedInterval {
    assert!(!period.is_zero(), "`period` must be non-zero.");
    let alignment = Alignment { period, phase: Duration::ZERO, last: None };
    let first = alignment.next(Jumping::Wall.now());
    AlignedInterval { delay: Sleep::new(SystemTime::of(first)).part_of(ItemKind::Interval), alignment, missed: 0 }
}

/// The schedule that [`interval_aligned`] returns, read with [`tick`](AlignedInterval::tick) or as a [`Stream`] that
/// never ends.
///
/// Its ticks are times of day, so unlike an [`Interval`](crate::Interval) it has no `reset`, and it always skips the
/// ticks that it missed.
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks: Vec<_> = wall::interval_aligned(Duration::from_millis(5)).take(2).collect().await;
/// assert!(ticks[0] < ticks[1]);
/// # }
/// ```
pub struct AlignedInterval {
    delay: Sleep,
    alignment: Alignment,
    missed: u64,
}

struct Alignment {
    period: Duration,
    phase: Duration,
    /// The last time that got its tick or was missed.
    last: Option<Reading>,
}

impl Alignment {
    /// The next tick, seen from `now`.
    fn next(&self, now: Reading) -> Reading {
        match self.last {
            Some(last) if last.since(now) < self.period && now.since(last) < self.period => {
                // Rounded up: on Windows `last` was rounded down to 100 ns.
                self.aligned(last.after(self.period))
            }
            _ => self.aligned(now),
        }
    }

    /// The first aligned time at or after `time`.
    fn aligned(&self, time: Reading) -> Reading {
        let (period, phase) = (nanos_in(self.period), nanos_in(self.phase));
        Reading(time.0.saturating_add((phase - time.0 % period).rem_euclid(period)))
    }
}

impl AlignedInterval {
    /// Waits on `timer` instead, whatever runtime polls for the ticks, and keeps it alive. The next tick is the first
    /// aligned time that has not passed on the timer's clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer, wall};
    /// let timer = Timer::builder().build().unwrap();
    /// wall::interval_aligned(Duration::from_millis(5)).with_timer(&timer).tick().await;
    /// assert_eq!(timer.metrics().registered(), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). A tick panics if it has to wait and the
    /// timer was shut down.
    #[must_use]
    pub fn with_timer(self, timer: &Timer) -> AlignedInterval {
        let mut delay = self.delay.with_timer(timer.unlimited("AlignedInterval"));
        delay.reset_at(SystemTime::of(self.alignment.next(delay.reading())));
        AlignedInterval { delay, ..self }
    }

    /// Shifts all ticks by `phase`, for example by three hours for a tick at 03:00 UTC each day. A phase longer than
    /// the period counts modulo the period.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, wall};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut ticks = wall::interval_aligned(Duration::from_millis(20)).with_phase(Duration::from_millis(5));
    /// let since = ticks.tick().await.duration_since(std::time::UNIX_EPOCH).unwrap();
    /// assert_eq!(since.as_nanos() % 20_000_000, 5_000_000);
    /// # }
    /// ```
    #[must_use]
    pub fn with_phase(mut self, phase: Duration) -> AlignedInterval {
        self.alignment.phase = phase;
        self.alignment.last = None;
        self.delay.reset_at(SystemTime::of(self.alignment.aligned(self.delay.reading())));
        self
    }

    /// Waits for the next tick and returns the time for which it was scheduled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, wall};
    /// let tick = wall::interval_aligned(Duration::from_millis(5)).tick().await;
    /// assert!(wall::now() >= tick);
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is ready loses no tick.
    ///
    /// # Panics
    ///
    /// Panics as [`sleep`](crate::sleep()) does.
    pub async fn tick(&mut self) -> SystemTime {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<SystemTime> {
        let next = SystemTime::of(self.alignment.next(self.delay.reading()));
        if next < self.delay.deadline() {
            // The clock was set back.
            self.delay.reset_at(next);
        }
        if let Err(error) = ready!(self.delay.poll_delay(cx, false)) {
            self.delay.panic_with(error);
        }
        let (tick, now) = (self.delay.deadline(), self.delay.reading());
        let period = nanos_in(self.alignment.period);
        let missed = nanos_in(now.since(tick.reading())) / period;
        self.missed = u64::try_from(missed).unwrap_or(u64::MAX);
        self.alignment.last = Some(Reading(tick.reading().0 + missed * period));
        self.delay.reset_at(SystemTime::of(self.alignment.next(now)));
        Poll::Ready(tick)
    }

    /// Returns how many later aligned times had also passed when the last tick was returned. They get no tick.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, sleep, wall};
    ///
    /// let mut minutes = wall::interval_aligned(Duration::from_secs(60));
    /// minutes.tick().await;
    /// sleep(Duration::from_secs(200)).await; // too busy for three ticks
    /// minutes.tick().await; // the first of them
    /// assert_eq!(minutes.missed(), 2);
    /// # }
    /// ```
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

impl fmt::Debug for AlignedInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedInterval")
            .field("next", &self.delay.deadline())
            .field("period", &self.alignment.period)
            .field("phase", &self.alignment.phase)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

impl Stream for AlignedInterval {
    type Item = SystemTime;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SystemTime>> {
        self.get_mut().poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedStream for AlignedInterval {
    /// Returns `false`: the schedule never ends.
    fn is_terminated(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn alignment(period: u64, phase: u64, last: Option<i128>) -> Alignment {
        Alignment {
            period: Duration::from_nanos(period),
            phase: Duration::from_nanos(phase),
            last: match last {
                Some(last) => Some(Reading(last)),
                None => None,
            },
        }
    }

    #[test]
    fn aligned_times_are_multiples_of_the_period_plus_the_phase() {
        for (phase, time, next) in
            [(0, 0, 0), (0, 1, 10), (0, 10, 10), (0, -1, 0), (0, -11, -10), (3, 3, 3), (3, 4, 13), (23, 4, 13)]
        {
            assert_eq!(alignment(10, phase, None).aligned(Reading(time)), Reading(next), "{phase}, {time}");
        }
    }

    #[test]
    fn a_tick_comes_again_only_if_the_clock_was_set_back_by_a_period_or_more() {
        for (now, next) in [(100, 110), (109, 110), (110, 110), (125, 130), (99, 110), (91, 110), (90, 90), (5, 10)] {
            assert_eq!(alignment(10, 0, Some(100)).next(Reading(now)), Reading(next), "{now}");
        }
    }

    /// A bug that this crate had: on Windows, ticks drifted by up to 100 ns each, because a time is rounded down to that.
    #[test]
    fn a_time_that_the_system_rounded_down_is_followed_by_an_aligned_one() {
        assert_eq!(alignment(10, 0, Some(97)).next(Reading(100)), Reading(110));
    }

    #[test]
    fn the_longest_period_and_phase_overflow_nothing() {
        for time in [i128::MIN, 0, i128::MAX] {
            for (period, phase) in [(Duration::MAX, Duration::MAX), (Duration::MAX, Duration::ZERO)] {
                let alignment = Alignment { period, phase, last: Some(Reading(time)) };
                let next = alignment.next(Reading(time));
                assert!(next >= Reading(time), "{next:?}");
            }
        }
    }
}
