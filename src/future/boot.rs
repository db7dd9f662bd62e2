//! Timers on the clock that goes on while the machine sleeps.
//!
//! The rest of this crate, like `tokio::time`, is on the monotonic clock, which stands still while a laptop or a
//! virtual machine is suspended on Linux and macOS: a timeout of an hour then takes an hour of uptime. A timer of this
//! module counts the suspension. What fell due in it fires as soon as the machine wakes.
//!
//! ```
//! use hairspring::{Duration, boot};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let start = boot::Instant::now();
//! boot::sleep(Duration::from_millis(5)).await;
//! assert!(start.elapsed() >= Duration::from_millis(5));
//! # }
//! ```
//!
//! # What is exact
//!
//! | system | clock | after a suspension |
//! |---|---|---|
//! | Linux | `CLOCK_BOOTTIME` | fires at once: the kernel wakes a thread of this crate, which wakes the tasks |
//! | Android | `CLOCK_BOOTTIME` | fires within a second of the machine's uptime |
//! | macOS, iOS | the one that goes on, `CLOCK_MONOTONIC` there | the same |
//! | others | that of [`std::time::Instant`] | whatever that does: on Windows it goes on as well |
//!
//! If the system does not report a suspension, one thread looks at the clocks once a second while something waits on
//! them, and no task is woken unless a clock has jumped. If the host of a virtual machine stops it without telling it,
//! none of its clocks goes on.
//!
//! A [`Timeout`] and an [`Interval`] of this module have all methods of the ordinary ones: they are the same types,
//! over another sleep. A timer here costs more than an ordinary one: it also keeps a place in one list of the process,
//! behind a lock. It needs nothing from the runtime. Without a suspension it is as precise as an ordinary timer.
//!
//! # In tests
//! On a paused clock, and on a `ManualClock`, these timers follow that clock. `test_util::suspend`
//! simulates a suspension.
//
// A sleep here waits on an ordinary one, for as long as the clock has to go if it does not jump, and looks at the clock
// again if it does. The wall clock's is the same type.
//
// Invariants
// 1. Never early: ready only if the clock was read at or after the deadline.
// 2. It begins to wait for jumps before it last reads the clock, so it misses none.
// 3. When it completes or is dropped, nothing of it stays behind.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use crate::clock;
pub use crate::clock::jumping::Instant;
use crate::clock::jumping::{ClockTime, Reading};
use crate::core::jumps::Waiter;
use crate::future;
use crate::future::delay::Delay;
use crate::util::error::Error;
use crate::wheel::{Tick, Ticks};

/// Two computations of when the deadline comes differ by the time between two readings. Up to this, the sleep stays.
const SLACK: Ticks = Ticks(1_000);

/// Waits until `duration` has passed since this call, suspension included.
///
/// Completes at or after that time, never a nanosecond before. A zero `duration` is ready at the first poll; any
/// duration is accepted. You can make and poll it anywhere, as [`hairspring::sleep`](crate::sleep()).
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees everything it holds at once.
///
/// # Panics
/// In the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = boot::Instant::now();
/// boot::sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # }
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until `deadline`. If it has passed, the first poll is ready. Otherwise the same as [`sleep`].
///
/// # Panics
/// In the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = boot::Instant::now() + Duration::from_millis(5);
/// boot::sleep_until(deadline).await;
/// assert!(boot::Instant::now() >= deadline);
/// # }
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(deadline)
}

/// Awaits `future`, but for at most `duration` from now, suspension included.
///
/// The future is polled before the clock. So a future that became ready while the machine slept wins.
///
/// # Errors
/// Resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first. The future is then dropped with the
/// `Timeout`.
///
/// # Cancel safety
/// Dropping a `Timeout` drops the future and cancels the timer. It is as cancel safe as the future.
///
/// # Panics
/// Polling panics in the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(boot::timeout(Duration::from_secs(1), async { "done" }).await, Ok("done"));
/// assert!(boot::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::over(future.into_future(), sleep(duration))
}

/// Awaits `future`, but at most until `deadline`. Otherwise the same as [`timeout`].
///
/// # Errors
/// Resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
///
/// # Panics
/// Polling panics in the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = boot::Instant::now() + Duration::from_millis(1);
/// assert!(boot::timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::over(future.into_future(), sleep_until(deadline))
}

/// Creates an interval that ticks at once and then every `period`, suspension included. Equivalent to
/// [`interval_at`]`(boot::Instant::now(), period)`.
///
/// After a suspension the tick that fell due first comes at once. [`missed`](Interval::missed) says how many others
/// fell due, and the [`MissedTickBehavior`](crate::MissedTickBehavior) what becomes of them: `Skip` or `Delay`
/// keep a program from doing the work of a night at once.
///
/// # Panics
/// If `period` is zero.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut interval = boot::interval(Duration::from_millis(2));
/// let first = interval.tick().await; // at once
/// let second = interval.tick().await; // 2 ms later
/// assert_eq!(second - first, Duration::from_millis(2));
/// # }
/// ```
#[track_caller]
#[must_use]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Creates an interval that ticks at `start` and then every `period`. Otherwise the same as [`interval`].
///
/// # Panics
/// If `period` is zero.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = boot::Instant::now() + Duration::from_millis(2);
/// let mut interval = boot::interval_at(start, Duration::from_millis(1));
/// assert_eq!(interval.tick().await, start);
/// # }
/// ```
#[track_caller]
#[must_use]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    Interval::new(sleep_until(start), period, None)
}

/// The future that [`timeout`] and [`timeout_at`] return: a [`Timeout`](future::Timeout) on this clock.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// let mut limited = boot::timeout(Duration::from_secs(1), std::future::ready(7));
/// let deadline = boot::Instant::now() + Duration::from_secs(60);
/// limited.reset_at(deadline);
/// assert_eq!(limited.deadline(), deadline);
/// assert_eq!(limited.into_inner().into_inner(), 7);
/// ```
pub type Timeout<T> = future::Timeout<T, Sleep>;

/// The ticks of [`interval`] and [`interval_at`]: an [`Interval`](future::Interval) on this clock.
///
/// ```
/// use futures::StreamExt;
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks: Vec<_> = boot::interval(Duration::from_millis(1)).take(3).collect().await;
/// assert_eq!(ticks[2] - ticks[0], Duration::from_millis(2));
/// # }
/// ```
pub type Interval = future::Interval<Sleep>;

/// The future that [`sleep`] and [`sleep_until`] return.
///
/// It is `Unpin`. Once it has completed, every poll is ready until you reset it, even if the clock is set back. It
/// panics if it has to wait on a timer that is full or has ended; [`Try::from`](crate::Try) makes that an error.
///
/// `T` says which clock it is on: this one, or the wall clock for [`wall::Sleep`](crate::wall::Sleep).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut limit = boot::sleep(Duration::from_millis(1));
/// tokio::select! {
///     () = &mut limit => {}
///     () = std::future::pending() => unreachable!(),
/// }
/// assert!(limit.is_elapsed());
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
pub struct Sleep<T = Instant> {
    deadline: T,
    /// The ordinary sleep that this waits on.
    delay: future::Sleep,
    waiter: Waiter,
    has_completed: bool,
}

impl<T: ClockTime> Sleep<T> {
    #[track_caller]
    pub(super) fn new(deadline: T) -> Sleep<T> {
        let end = due(T::CLOCK.read(clock::now), deadline);
        Sleep { deadline, delay: future::Sleep::new(end), waiter: Waiter::default(), has_completed: false }
    }

    /// Returns the time at which this completes.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let deadline = boot::Instant::now() + Duration::from_secs(1);
    /// assert_eq!(boot::sleep_until(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> T {
        self.deadline
    }

    /// Returns whether this has fired, as [`hairspring::Sleep::is_elapsed`](future::Sleep::is_elapsed) does: while it
    /// waits, whether its clock has come to the deadline, polled since or not. A reset makes it `false`.
    ///
    /// It does not wait before its first poll, nor after a reset to a deadline that has passed. Then this returns
    /// `true` only after a poll that is ready.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, boot, sleep};
    /// let mut limit = boot::sleep(Duration::from_secs(1));
    /// assert!(futures::poll!(&mut limit).is_pending());
    /// assert!(!limit.is_elapsed());
    /// sleep(Duration::from_secs(2)).await;
    /// assert!(limit.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.has_completed || self.delay.is_registered() && self.has_come()
    }

    fn has_come(&self) -> bool {
        self.reading() >= self.deadline.reading()
    }

    /// Sets a new deadline, whether the sleep is waiting, was never polled, or has completed.
    ///
    /// The task of a waiting sleep is woken at the new deadline without another poll, or at once if that has passed, as
    /// with [`hairspring::Sleep::reset_at`](future::Sleep::reset_at).
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = boot::sleep(Duration::from_secs(3600));
    /// sleep.reset_at(boot::Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: T) {
        self.deadline = deadline;
        self.has_completed = false;
        let read = self.read();
        // One that has passed takes the ordinary sleep out of its timer, which wakes the task.
        let end = if read.1 >= deadline.reading() { Tick::ZERO } else { due(read, deadline) };
        self.delay.reset_at_tick(end);
    }

    fn read(&self) -> (Tick, Reading) {
        T::CLOCK.read(|| self.delay.now())
    }

    /// The reading, by the clock of the timer that this waits on.
    pub(super) fn reading(&self) -> Reading {
        self.read().1
    }

    fn poll_clock(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        let slept = if self.has_completed || self.has_come() {
            Ok(())
        } else {
            self.waiter.wait(cx.waker());
            ready!(self.poll_sleep(cx))
        };
        self.waiter.leave();
        // As a sleep, this has fired although the budget may be spent, unless this is its first poll.
        self.has_completed |= self.delay.is_registered();
        self.delay.reset_idle(self.delay.tick());
        // As in a sleep, only a poll that is ready takes of the task's budget, with an error, too.
        if !is_spent {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        self.has_completed = slept.is_ok();
        Poll::Ready(slept)
    }

    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            let read = self.read();
            if read.1 >= self.deadline.reading() {
                return Poll::Ready(Ok(()));
            }
            let (end, before) = (due(read, self.deadline), self.delay.tick());
            // It also has to be set anew if it has ended too early, as after a clock was set back.
            if end.0.abs_diff(before.0) > SLACK.0 || before <= read.0 {
                self.delay.reset_at_tick(end);
            }
            ready!(self.delay.poll_elapsed(cx, true))?;
        }
    }
}

/// When the clock comes to `deadline` if it does not jump.
fn due<T: ClockTime>((tick, reading): (Tick, Reading), deadline: T) -> Tick {
    clock::later(tick, deadline.reading().since(reading))
}

impl<T: ClockTime> Delay for Sleep<T> {
    type Time = T;
    type Outcome<O> = O;

    fn deadline(&self) -> T {
        self.deadline
    }

    fn now(&self) -> T {
        T::of(self.reading())
    }

    fn late(&self) -> Duration {
        self.reading().since(self.deadline.reading())
    }

    fn reset_at(&mut self, deadline: T) {
        self.reset_at(deadline);
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.poll_clock(cx, is_spent)
    }

    fn outcome<O>(&self, result: Result<O, Error>) -> O {
        self.delay.outcome(result)
    }
}

impl<T: ClockTime> Future for Sleep<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_clock(cx, false).map(|elapsed| self.delay.outcome(elapsed))
    }
}
