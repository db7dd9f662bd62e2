//! [`Delay`]: the sleep inside a [`Timeout`] or an [`Interval`], on any clock, with errors or with panics. [`Try`]: a
//! sleep that returns errors.
//!
//! [`Timeout`]: crate::future::Timeout
//! [`Interval`]: crate::future::Interval
//
// Invariants
// 1. A poll is ready only at or after the deadline, or with an error.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::future::Sleep;
use crate::util::error::Error;

/// A [`Sleep`], a `boot::Sleep`, or a [`Try`] of one of these. Sealed: users cannot name it.
pub trait Delay: Unpin {
    /// A time on its clock.
    type Time: Copy;

    /// The output of a future over this sleep for a `T`: a `T` if errors panic, otherwise a result.
    type Outcome<T>;

    fn deadline(&self) -> Self::Time;

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    fn now(&self) -> Self::Time;

    /// How long ago the deadline was, or zero if the sleep counts as on time.
    fn late(&self) -> Duration;

    fn reset_at(&mut self, deadline: Self::Time);

    /// Polls. A ready poll spends the task's budget, unless `is_spent`.
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>>;

    fn outcome<T>(&self, result: Result<T, Error>) -> Self::Outcome<T>;
}

impl Delay for Sleep {
    type Time = Instant;
    type Outcome<T> = T;

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

    #[inline]
    fn reset_at(&mut self, deadline: Instant) {
        self.reset_at(deadline);
    }

    #[inline]
    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.poll_elapsed(cx, is_spent)
    }

    #[inline]
    fn outcome<T>(&self, result: Result<T, Error>) -> T {
        result.unwrap_or_else(|error| self.panic_with(error))
    }
}

/// A sleep that returns an [`Error`] if its timer is full or was shut down, where other futures panic.
///
/// It resolves to `Ok` at the deadline, never before. If the timer is full, the first poll returns the error, and
/// another poll retries; there is no queue for free places. A reset keeps the place of a waiting sleep. If the timer is
/// shut down while the sleep waits, it resolves to the error immediately.
///
/// [`Timer::try_sleep`](crate::Timer::try_sleep) returns a `Try`, and [`Try::from`] wraps any sleep, including those of
/// [`boot`](crate::boot) or [`wall`](crate::wall). A `Try` dereferences to the sleep inside, for `deadline`,
/// `is_elapsed` and `reset_at`. To await a `Try` by reference, write `&mut sleep`, not `&mut *sleep`, which is the
/// sleep inside and panics. A [`Timeout`](crate::Timeout) or an [`Interval`](crate::Interval) over a `Try` also returns
/// these errors.
///
/// # Cancel safety
///
/// Dropping the future cancels the timer and frees everything it holds immediately.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Timer, Try, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().capacity(1).install().unwrap();
/// let mut waits = timer.try_sleep(Duration::from_secs(3600));
/// assert!(futures::poll!(&mut waits).is_pending());
/// let refused = Try::from(boot::sleep(Duration::from_secs(60))).await;
/// assert!(refused.is_err_and(|error| error.is_at_capacity()));
/// waits.reset_at(timer.now() + Duration::from_millis(1));
/// assert_eq!(waits.await, Ok(()));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Try<S = Sleep> {
    sleep: S,
}

/// The future of [`Timer::try_sleep`](crate::Timer::try_sleep): a [`Try`] over a [`Sleep`].
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Timer, TrySleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let sleep: TrySleep = timer.try_sleep(Duration::from_secs(3600));
/// let waits = tokio::spawn(sleep);
/// tokio::task::yield_now().await;
/// assert_eq!(timer.shutdown(), 1);
/// assert!(waits.await.unwrap().unwrap_err().is_shutdown());
/// # }
/// ```
pub type TrySleep = Try<Sleep>;

impl<S: Delay> From<S> for Try<S> {
    fn from(sleep: S) -> Self {
        Try { sleep }
    }
}

impl<S> Deref for Try<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.sleep
    }
}

impl<S> DerefMut for Try<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.sleep
    }
}

impl<S: Delay> Delay for Try<S> {
    type Time = S::Time;
    type Outcome<T> = Result<T, Error>;

    fn deadline(&self) -> S::Time {
        self.sleep.deadline()
    }

    fn now(&self) -> S::Time {
        self.sleep.now()
    }

    fn late(&self) -> Duration {
        self.sleep.late()
    }

    fn reset_at(&mut self, deadline: S::Time) {
        self.sleep.reset_at(deadline);
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.sleep.poll_delay(cx, is_spent)
    }

    fn outcome<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result
    }
}

impl<S: Delay> Future for Try<S> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.sleep.poll_delay(cx, false)
    }
}
