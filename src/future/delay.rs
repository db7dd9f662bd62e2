//! [`Time`]: what a [`Timeout`] or an [`Interval`] counts in. [`TrySleep`]: a sleep that returns errors.
//!
//! [`Timeout`]: crate::future::Timeout
//! [`Interval`]: crate::future::Interval
//
// Invariants
// 1. A poll is ready only at or after the deadline, or with an error.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Add;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::future::{ItemKind, Sleep};
use crate::util::error::Error;
use crate::util::panics::catch_panic;

/// A time on one of the clocks: [`Instant`](crate::Instant), [`boot::Instant`](crate::boot::Instant),
/// [`SystemTime`](std::time::SystemTime) for the wall clock, and [`Deadline`](crate::Deadline), which may be never.
///
/// [`Timeout`](crate::Timeout), [`Interval`](crate::Interval) and [`TrySleep`] have a time as a parameter. Use this
/// trait in code that receives one of these on any clock. Other crates cannot implement it.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Interval, Time, boot, interval};
///
/// async fn third_tick<T: Time>(mut interval: Interval<T>) -> T {
///     interval.tick().await;
///     interval.tick().await;
///     interval.tick().await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = hairspring::Instant::now();
/// assert!(third_tick(interval(Duration::from_millis(1))).await >= start + Duration::from_millis(2));
/// let start = boot::Instant::now();
/// assert!(third_tick(boot::interval(Duration::from_millis(1))).await >= start + Duration::from_millis(2));
/// # }
/// ```
pub trait Time: Copy + Ord + Debug + Send + Sync + Add<Duration, Output = Self> + 'static {
    /// The sleep until such a time. Its methods are private.
    type Sleep: Delay<Self>;
}

/// A sleep until a `T`. Sealed: users cannot name it.
#[allow(unreachable_pub)] // Rust 1.85 does not see that `Time` names it.
pub trait Delay<T>: Debug + Send + Sync + Unpin + 'static {
    fn deadline(&self) -> T;

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    fn now(&self) -> T;

    /// How long ago the deadline was, or zero if the sleep counts as on time.
    fn late(&self) -> Duration;

    fn is_elapsed(&self) -> bool;

    fn reset_at(&mut self, deadline: T);

    /// The same sleep, as part of another item.
    #[must_use]
    fn part_of(self, kind: ItemKind) -> Self;

    /// Polls. A ready poll spends the task's budget, unless `is_spent`.
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>>;

    /// Keeps the waker of the poll that has completed this, until the next reset.
    fn keep(&mut self, waker: &Waker);

    /// Waits for a task that does not poll. If it need not wait, or cannot, it wakes the task, whose poll finds out.
    #[cold]
    fn wait_for(&mut self, waker: Waker) {
        if self.poll_delay(&mut Context::from_waker(&waker), true).is_ready() {
            catch_panic(|| waker.wake());
        }
    }

    /// Panics with the error and the line that made the sleep.
    fn panic_with(&self, error: Error) -> !;
}

impl Time for Instant {
    type Sleep = Sleep;
}

impl Delay<Instant> for Sleep {
    fn deadline(&self) -> Instant {
        self.deadline()
    }

    #[inline]
    fn now(&self) -> Instant {
        clock::instant_of(self.now())
    }

    // Subtracting ticks is faster than subtracting instants.
    #[inline]
    fn late(&self) -> Duration {
        self.unless_on_time(clock::duration_of(self.now() - self.tick()))
    }

    fn is_elapsed(&self) -> bool {
        self.is_elapsed()
    }

    #[inline]
    fn reset_at(&mut self, deadline: Instant) {
        self.reset_at(deadline);
    }

    #[inline]
    fn part_of(self, kind: ItemKind) -> Sleep {
        self.part_of(kind)
    }

    #[inline]
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.poll_elapsed(cx, is_spent)
    }

    #[inline]
    fn keep(&mut self, waker: &Waker) {
        self.keep(waker);
    }

    fn panic_with(&self, error: Error) -> ! {
        self.panic_with(error)
    }
}

/// A sleep that returns an [`Error`] if its timer is full or was shut down. Other futures panic then.
///
/// ```
/// use hairspring::{Duration, Timer, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().max_pending(1).build().unwrap();
/// let mut waits = timer.try_sleep(Duration::from_secs(3600));
/// assert!(futures::poll!(&mut waits).is_pending());
/// let refused = boot::sleep(Duration::from_secs(60)).with_timer(&timer).fallible().await;
/// assert!(refused.is_err_and(|error| error.is_at_capacity()));
/// waits.reset_at(timer.now() + Duration::from_millis(1));
/// assert_eq!(waits.await, Ok(()));
/// # }
/// ```
///
/// It resolves to `Ok` at the deadline, never before. If the timer is full, the first poll returns the error,
/// and another poll tries again; sleeps do not queue for room. A reset of a waiting sleep needs no new room. If the
/// timer is shut down while the sleep waits, it resolves to the error immediately; a sleep that was given no timer
/// continues on the runtime's next.
///
/// [`Timer::try_sleep`](crate::Timer::try_sleep) returns a `TrySleep`, and so does `fallible` of any sleep, including
/// those of [`boot`](crate::boot) and [`wall`](crate::wall).
///
/// # Cancel safety
///
/// Dropping the future cancels the sleep and frees everything it holds immediately.
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TrySleep<T: Time = Instant> {
    sleep: T::Sleep,
}

impl<T: Time> TrySleep<T> {
    pub(crate) fn over(sleep: T::Sleep) -> TrySleep<T> {
        TrySleep { sleep }
    }

    /// Returns the time at which this completes.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_secs(1);
    /// assert_eq!(timer.sleep_until(deadline).fallible().deadline(), deadline);
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> T {
        self.sleep.deadline()
    }

    /// Returns whether the deadline has passed, as [`Sleep::is_elapsed`] does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut sleep = Timer::current().try_sleep(Duration::from_secs(1));
    /// assert!(!sleep.is_elapsed());
    /// assert_eq!((&mut sleep).await, Ok(()));
    /// assert!(sleep.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    /// Sets a new deadline, in any state, as [`Sleep::reset_at`] does. After an error it wakes no task until it is
    /// polled again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(3600));
    /// sleep.reset_at(timer.now() + Duration::from_millis(1));
    /// assert_eq!(sleep.await, Ok(()));
    /// # }
    /// ```
    pub fn reset_at(&mut self, deadline: T) {
        self.sleep.reset_at(deadline);
    }
}

impl<T: Time> Future for TrySleep<T> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let slept = ready!(self.sleep.poll_delay(cx, false));
        if slept.is_ok() {
            self.sleep.keep(cx.waker());
        }
        Poll::Ready(slept)
    }
}
