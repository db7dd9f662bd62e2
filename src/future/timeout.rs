//! [`Timeout`]: a future with a deadline.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::task::coop;

use crate::clock::Instant;
use crate::future::{Sleep, sleep, sleep_until};
use crate::seam::Kind;
use crate::util::error::{Elapsed, Error};

/// Awaits `future`, but for at most `duration` from now.
///
/// The future is polled before the timer. If it is ready at its first poll, `timeout` returns its output whatever the
/// deadline, and registers no timer. A duration of more than 500 years is treated as 500 years.
///
/// # Errors
/// Resolves to [`Elapsed`] if the deadline passes first. The future is then dropped with the `Timeout`.
///
/// # Cancel safety
/// Dropping a `Timeout` drops the future and cancels the timer. It is as cancel safe as the future.
///
/// # Panics
/// Polling panics in the same cases as [`sleep`].
///
/// ```
/// use hairspring::{Duration, timeout};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// assert_eq!(timeout(Duration::from_secs(1), async { "done" }).await, Ok("done"));
/// assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[inline]
#[track_caller]
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep(duration))
}

/// Awaits `future`, but at most until `deadline`. Otherwise the same as [`timeout`].
///
/// # Errors
/// Resolves to [`Elapsed`] if the deadline passes first.
///
/// # Panics
/// Polling panics in the same cases as [`sleep`].
///
/// ```
/// use hairspring::{Duration, Instant, timeout_at};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = Instant::now() + Duration::from_millis(1);
/// assert!(timeout_at(deadline, std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[inline]
#[track_caller]
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout::new(future.into_future(), sleep_until(deadline))
}

/// The future that [`timeout`] and [`timeout_at`] return.
///
/// ```
/// use hairspring::{Duration, Instant, timeout};
///
/// let mut limited = timeout(Duration::from_secs(1), std::future::ready(7));
/// let deadline = Instant::now() + Duration::from_secs(60);
/// limited.reset_to(deadline);
/// assert_eq!(limited.deadline(), deadline);
/// assert_eq!(limited.into_inner().into_inner(), 7);
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
#[pin_project]
pub struct Timeout<T> {
    #[pin]
    value: T,
    delay: Sleep,
}

impl<T> Timeout<T> {
    #[inline]
    pub(crate) fn new(value: T, delay: Sleep) -> Self {
        Timeout { value, delay: delay.of(Kind::Timeout) }
    }

    /// Polls the inner future alone.
    pub(crate) fn poll_without_limit(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T::Output>
    where
        T: Future,
    {
        self.project().value.poll(cx)
    }

    /// Returns a reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, timeout};
    /// let limited = timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &std::future::Pending<u8> = limited.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, timeout};
    /// let mut limited = timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &mut std::future::Pending<u8> = limited.get_mut();
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the inner future, without the deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, timeout};
    /// assert_eq!(timeout(Duration::ZERO, std::future::ready(3)).into_inner().await, 3);
    /// # }
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the instant at which this times out.
    ///
    /// ```
    /// # use hairspring::{Duration, Instant, timeout_at};
    /// let deadline = Instant::now() + Duration::from_secs(1);
    /// assert_eq!(timeout_at(deadline, async {}).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.delay.deadline()
    }

    /// Sets a new deadline. A waiting task is woken at the new deadline, or at once if the deadline has passed, as with
    /// [`Sleep::reset_to`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Instant, timeout};
    /// let mut limited = timeout(Duration::from_secs(3600), std::future::pending::<()>());
    /// limited.reset_to(Instant::now());
    /// assert!(limited.await.is_err());
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.delay.reset_to(deadline);
    }
}

impl<T: Future> Timeout<T> {
    /// Polls, with an error in place of a panic.
    #[inline]
    pub(crate) fn try_poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Result<T::Output, Elapsed>, Error>> {
        let this = self.project();
        poll_both(this.value, cx, |cx, without_budget| poll_delay(this.delay, cx, without_budget)).map(|first| {
            match first {
                Ok(output) => Ok(Ok(output)),
                Err(elapsed) => elapsed.map(|()| Err(Elapsed::new())),
            }
        })
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.as_mut().try_poll(cx).map(|result| result.unwrap_or_else(|error| self.delay.panic_with(error)))
    }
}

/// Polls the future, and then what it must not outlast, without budget if the future has spent it all: otherwise the
/// deadline would never be checked.
#[inline]
pub(super) fn poll_both<F: Future, E>(
    value: Pin<&mut F>,
    cx: &mut Context<'_>,
    poll_delay: impl FnOnce(&mut Context<'_>, bool) -> Poll<E>,
) -> Poll<Result<F::Output, E>> {
    let had_budget = coop::has_budget_remaining();
    if let Poll::Ready(output) = value.poll(cx) {
        return Poll::Ready(Ok(output));
    }
    let spent_by_future = had_budget && !coop::has_budget_remaining();
    poll_delay(cx, spent_by_future).map(Err)
}

/// The part that does not depend on the future's type.
fn poll_delay(delay: &mut Sleep, cx: &mut Context<'_>, without_budget: bool) -> Poll<Result<(), Error>> {
    if without_budget { delay.poll_without_budget(cx) } else { delay.poll_elapsed(cx) }
}
