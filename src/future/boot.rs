//! Timers that include the time that the machine is suspended.
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
//! The other timers of this crate, like tokio's, use the monotonic clock. On Linux and macOS it stops while the machine
//! is suspended, so a sleep of an hour takes an hour of uptime. That suits most programs: after a night of suspension,
//! no request has timed out and no interval has to catch up.
//!
//! Use the timers of this module for what the rest of the world counts as well: a token that expires, a lease that
//! another machine holds, a job to run when the lid is opened. All timers that fell due during a suspension fire
//! together when the machine wakes, so spread out work that uses the network.
//!
//! # Precision
//!
//! | system | clock | after a suspension |
//! |---|---|---|
//! | Linux | `CLOCK_BOOTTIME` | timers fire immediately: the kernel wakes a thread of this crate, which wakes the tasks |
//! | Android | `CLOCK_BOOTTIME` | timers fire within a second of uptime |
//! | macOS, iOS | `CLOCK_MONOTONIC`, which includes suspensions there | timers fire within a second of uptime |
//! | others | that of [`std::time::Instant`], which on Windows includes suspensions | timers fire within a second of uptime, if the clock includes suspensions |
//!
//! If the system does not report a suspension, a thread checks the clocks once a second while a timer waits on them,
//! and wakes tasks only if a clock has jumped. If a host pauses a virtual machine without telling it, none of its
//! clocks notices.
//!
//! Without a suspension these timers are as precise as ordinary ones. They cost more, because each is also kept in a
//! list of the process, behind a lock.
//!
//! # In tests
//!
//! On a paused clock and on a `ManualClock`, these timers follow that clock. `test_util::suspend` simulates a
//! suspension.
//
// A sleep here waits on an ordinary sleep for as long as its clock needs without a jump, and checks again after a jump.
// The wall clock's sleep is the same type.
//
// That sleep's tick counts from an `Anchor`, so it is in the past if the deadline is: what a turn has reached is ready
// at once, as with an ordinary sleep. It is never before the anchor, as no turn before a jump fires what fell due by
// it.
//
// Invariants
// 1. Never early: ready only if the clock was read at or after the deadline.
// 2. It starts to wait for jumps before it last reads the clock, so it misses none.
// 3. When it completes or is dropped, it leaves nothing behind.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime};

use tokio::task::coop;

use crate::clock;
use crate::clock::instant::FAR_FUTURE;
pub use crate::clock::jumping::Instant;
use crate::clock::jumping::{ClockTime, Reading};
use crate::core::jumps::{CHECK_INTERVAL, JumpListener};
use crate::future::delay::{Delay, Time, TrySleep};
use crate::future::{self, Interval, ItemKind, Timeout};
use crate::timer::Timer;
use crate::util::error::Error;
use crate::wheel::{Tick, Ticks};

/// Two computations of the end differ by the time between two readings. Up to this difference, the ordinary sleep is
/// kept.
const SLACK: Ticks = Ticks(1_000);

/// Waits until `duration` has passed since this call, including suspensions.
///
/// The sleep never completes early, nor before the runtime has polled for I/O. Cancel safety and panics are
/// those of [`hairspring::sleep`](crate::sleep()).
///
/// # Examples
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
#[doc(alias = "CLOCK_BOOTTIME")]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration.min(FAR_FUTURE))
}

/// Waits until `deadline`. See [`sleep`].
///
/// # Examples
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

/// Awaits `future` for at most `duration` from now, including suspensions.
///
/// The future is polled before the clock, so one that became ready during a suspension wins. Errors, cancel safety and
/// panics are those of [`hairspring::timeout`](crate::timeout()).
///
/// # Examples
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
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture, Instant> {
    Timeout::new(future.into_future(), sleep_until(Instant::now() + clock::or_for_ever(duration)))
}

/// Awaits `future` until `deadline` at the latest. See [`timeout`].
///
/// # Examples
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
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture, Instant> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// Creates an interval that ticks immediately and then every `period`, including suspensions.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut interval = boot::interval(Duration::from_millis(2));
/// let first = interval.tick().await; // immediately
/// let second = interval.tick().await; // 2 ms later
/// assert_eq!(second - first, Duration::from_millis(2));
/// # }
/// ```
///
/// After a suspension, the first tick that fell due is returned immediately, and [`missed`](Interval::missed) counts
/// the others. With `Skip` or `Delay` as its [`MissedTickBehavior`](crate::MissedTickBehavior), a program does not do a
/// night's work in one go.
///
/// # Panics
///
/// Panics if `period` is zero.
#[track_caller]
#[must_use]
pub fn interval(period: Duration) -> Interval<Instant> {
    interval_at(Instant::now(), period)
}

/// Creates an interval that ticks at `start` and then every `period`. See [`interval()`].
///
/// # Examples
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
pub fn interval_at(start: Instant, period: Duration) -> Interval<Instant> {
    Interval::new(sleep_until(start), period, None)
}

/// The future that [`sleep`] and [`sleep_until`] return.
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
///
/// It is `Unpin`. Once it has completed, every poll is ready until you reset it, even if the clock is set back. It
/// panics if it has to wait and its timer is full or was shut down; after [`fallible`](Sleep::fallible), it
/// returns an error instead.
///
/// `T` is a time on its clock: this one, or the wall clock for [`wall::Sleep`](crate::wall::Sleep).
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep<T = Instant> {
    deadline: T,
    /// The ordinary sleep that this waits on.
    delay: future::Sleep,
    anchor: Anchor,
    listener: JumpListener,
    has_completed: bool,
}

/// What the clock showed at a tick: when the sleep was created, or when the clock was last seen to have jumped.
#[derive(Clone, Copy)]
struct Anchor {
    tick: Tick,
    reading: Reading,
}

impl Anchor {
    fn new((tick, reading): (Tick, Reading)) -> Anchor {
        Anchor { tick, reading }
    }

    /// Takes a later look at the clock into account. What is less than a jump only corrects the reading.
    fn look(&mut self, (tick, reading): (Tick, Reading)) {
        let reading_then = Reading(reading.0 - (i128::from(tick.0) - i128::from(self.tick.0)));
        let has_jumped = tick < self.tick || self.reading.differs_from(reading_then);
        *self = if has_jumped { Anchor { tick, reading } } else { Anchor { reading: reading_then, ..*self } };
    }

    /// When the clock reaches `deadline` if it does not jump, or the anchor's tick if it had already.
    fn due(self, deadline: Reading) -> Tick {
        self.tick + clock::ticks_in(deadline.since(self.reading))
    }
}

impl<T: ClockTime> Sleep<T> {
    #[track_caller]
    pub(super) fn new(deadline: T) -> Sleep<T> {
        let anchor = Anchor::new(T::CLOCK.read(clock::now));
        let delay = future::Sleep::new(anchor.due(deadline.reading()));
        Sleep { deadline, delay, anchor, listener: JumpListener::default(), has_completed: false }
    }

    /// Waits on `timer` instead, whatever runtime polls this, and keeps it alive. The deadline stays, as it was counted
    /// on the runtime's clock, and the next poll waits on `timer`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer, boot};
    /// let timer = Timer::builder().build().unwrap();
    /// boot::sleep(Duration::from_millis(1)).with_timer(&timer).await;
    /// assert!(timer.metrics().fired() > 0);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Polling panics if the sleep has to wait and the timer is at [`max_pending`](crate::timer::Builder::max_pending)
    /// or was shut down. [`fallible`](Sleep::fallible) returns an error instead.
    pub fn with_timer(self, timer: &Timer) -> Self {
        let anchor = Anchor::new(T::CLOCK.read(|| timer.now_tick()));
        Sleep { delay: self.delay.moved_to(timer, anchor.due(self.deadline.reading())), anchor, ..self }
    }

    /// Returns the time at which this completes.
    ///
    /// # Examples
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

    /// Returns whether this has fired, whether or not it was polled since, like
    /// [`hairspring::Sleep::is_elapsed`](future::Sleep::is_elapsed). Once this has completed, it returns `true` until
    /// the next reset, even if the clock is set back.
    ///
    /// # Examples
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
        self.has_completed || self.delay.is_elapsed() && self.reading() >= self.deadline.reading()
    }

    /// Sets a new deadline, in any state: waiting, never polled, or completed. As with
    /// [`hairspring::Sleep::reset_at`](future::Sleep::reset_at), the task of the last poll is woken at the new deadline
    /// without another poll, or immediately if that has passed.
    ///
    /// # Examples
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
        let kept = self.delay.let_go();
        self.anchor.look(self.read());
        self.delay.reset_at_tick(self.anchor.due(deadline.reading()));
        if let Some(waker) = kept {
            self.wait_for(waker);
        }
    }

    fn read(&self) -> (Tick, Reading) {
        T::CLOCK.read(|| self.delay.now())
    }

    /// The reading, by the clock of the timer that this waits on.
    pub(super) fn reading(&self) -> Reading {
        self.read().1
    }

    fn poll_clock(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        let slept = if self.has_completed {
            Ok(())
        } else {
            let hears_of_jumps = self.listener.listen(cx.waker());
            ready!(self.poll_sleep(cx, hears_of_jumps))
        };
        self.listener.leave();
        // As in a sleep, this has fired even if the budget is spent.
        self.has_completed = slept.is_ok();
        self.delay.reset_idle(self.delay.tick());
        // As in a sleep, only a ready poll spends the task's budget, even with an error.
        if !is_spent {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        Poll::Ready(slept)
    }

    /// Ready once the ordinary sleep was fired by a turn, and the clock has reached the deadline.
    fn poll_sleep(&mut self, cx: &mut Context<'_>, hears_of_jumps: bool) -> Poll<Result<(), Error>> {
        loop {
            let (read, before) = (self.read(), self.delay.tick());
            let has_come = read.1 >= self.deadline.reading();
            if read.0 == Tick::MAX && !has_come {
                // tokio moved a paused clock beyond the last tick: only a jump still moves this one.
                return Poll::Pending;
            }
            self.anchor.look(read);
            let mut end = self.anchor.due(self.deadline.reading());
            if !hears_of_jumps {
                end = end.min(clock::later(read.0, CHECK_INTERVAL));
            }
            // After a jump, the next turn ends it. It may also have ended too early, after a clock was set back.
            let is_wrong =
                if has_come { before > read.0 } else { end.0.abs_diff(before.0) > SLACK.0 || before <= read.0 };
            if is_wrong {
                self.delay.reset_at_tick(end);
            }
            ready!(self.delay.poll_elapsed(cx, true))?;
            if has_come {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl Time for Instant {
    type Sleep = Sleep;
}

impl Time for SystemTime {
    type Sleep = Sleep<SystemTime>;
}

impl<T: ClockTime> Delay<T> for Sleep<T> {
    fn deadline(&self) -> T {
        self.deadline
    }

    fn now(&self) -> T {
        T::of(self.reading())
    }

    fn late(&self) -> Duration {
        self.delay.unless_on_time(self.reading().since(self.deadline.reading()))
    }

    fn is_elapsed(&self) -> bool {
        self.is_elapsed()
    }

    fn reset_at(&mut self, deadline: T) {
        self.reset_at(deadline);
    }

    fn part_of(self, kind: ItemKind) -> Self {
        Sleep { delay: self.delay.part_of(kind), ..self }
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.poll_clock(cx, is_spent)
    }

    fn keep(&mut self, waker: &Waker) {
        self.delay.keep(waker);
    }

    fn panic_with(&self, error: Error) -> ! {
        self.delay.panic_with(error)
    }
}

impl<F, T: ClockTime + Time<Sleep = Sleep<T>>, E> Timeout<F, T, E> {
    /// Waits on `timer` instead, as [`Sleep::with_timer`] does. This is for timeouts of [`boot`](self) and
    /// [`wall`](crate::wall); others are made on a timer by [`Timer::timeout`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer, boot};
    /// let timer = Timer::builder().build().unwrap();
    /// let limited = boot::timeout(Duration::from_millis(1), std::future::pending::<()>()).with_timer(&timer);
    /// assert!(limited.await.is_err());
    /// assert!(timer.metrics().fired() > 0);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Polling panics if the timeout has to wait and the timer is at [`max_pending`](crate::timer::Builder::max_pending)
    /// or was shut down. [`fallible`](Timeout::fallible) returns an error instead.
    pub fn with_timer(self, timer: &Timer) -> Self {
        self.map_delay(|delay| delay.with_timer(timer))
    }
}

impl Interval<Instant> {
    /// Waits on `timer` instead, as [`Sleep::with_timer`] does. This is for [`boot::interval`](interval()); others are
    /// made on a timer by [`Timer::interval`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer, boot};
    /// let timer = Timer::builder().build().unwrap();
    /// let mut interval = boot::interval(Duration::from_millis(1)).with_timer(&timer);
    /// interval.tick().await;
    /// interval.tick().await;
    /// assert!(timer.metrics().fired() > 0);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// A tick panics if it has to wait and the timer is at [`max_pending`](crate::timer::Builder::max_pending) or was
    /// shut down. [`fallible`](Interval::fallible) returns an error instead.
    #[must_use]
    pub fn with_timer(self, timer: &Timer) -> Self {
        self.map_delay(|delay| delay.with_timer(timer))
    }
}

impl<T: Time<Sleep = Sleep<T>>> Sleep<T> {
    /// Returns the same sleep with errors in place of panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, boot};
    /// assert_eq!(boot::sleep(Duration::from_millis(1)).fallible().await, Ok(()));
    /// # }
    /// ```
    pub fn fallible(self) -> TrySleep<T> {
        TrySleep::over(self)
    }
}

impl<T: ClockTime> fmt::Debug for Sleep<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .field("is_elapsed", &self.is_elapsed())
            .finish_non_exhaustive()
    }
}

impl<T: ClockTime> Future for Sleep<T> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_clock(cx, false)) {
            Ok(()) => {
                self.keep(cx.waker());
                Poll::Ready(())
            }
            Err(error) => self.delay.panic_with(error),
        }
    }
}
