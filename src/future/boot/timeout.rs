//! [`Timeout`]: a future with a deadline on the clock that goes on while the machine sleeps.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::task::coop::unconstrained;

use super::{Instant, Sleep, sleep, sleep_until};
use crate::future::timeout::poll_both;
use crate::util::error::Elapsed;

/// Awaits `future`, but for at most `duration` from now, suspension included.
///
/// The future is polled before the clock. So a future that became ready while the machine slept wins.
///
/// # Errors
/// Resolves to [`Elapsed`] if the deadline passes first. The future is then dropped with the `Timeout`.
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
    Timeout { value: future.into_future(), delay: sleep(duration) }
}

/// Awaits `future`, but at most until `deadline`. Otherwise the same as [`timeout`].
///
/// # Errors
/// Resolves to [`Elapsed`] if the deadline passes first.
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
    Timeout { value: future.into_future(), delay: sleep_until(deadline) }
}

/// The future that [`timeout`] and [`timeout_at`] return.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// let mut limited = boot::timeout(Duration::from_secs(1), std::future::ready(7));
/// let deadline = boot::Instant::now() + Duration::from_secs(60);
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
    /// Returns a reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, boot};
    /// let limited = boot::timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &std::future::Pending<u8> = limited.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, boot};
    /// let mut limited = boot::timeout(Duration::from_secs(1), std::future::pending::<u8>());
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
    /// # use hairspring::{Duration, boot};
    /// assert_eq!(boot::timeout(Duration::ZERO, std::future::ready(3)).into_inner().await, 3);
    /// # }
    /// ```
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the time at which this times out.
    ///
    /// ```
    /// # use hairspring::{Duration, boot};
    /// let deadline = boot::Instant::now() + Duration::from_secs(1);
    /// assert_eq!(boot::timeout_at(deadline, async {}).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.delay.deadline()
    }

    /// Sets a new deadline. A waiting task is woken then, or at once if it has passed, as with [`Sleep::reset_to`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, boot};
    /// let mut limited = boot::timeout(Duration::from_secs(3600), std::future::pending::<()>());
    /// limited.reset_to(boot::Instant::now());
    /// assert!(limited.await.is_err());
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.delay.reset_to(deadline);
    }
}

impl<T: Future> Future for Timeout<T> {
    type Output = Result<T::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let delay = Pin::new(this.delay);
        poll_both(
            this.value,
            cx,
            |cx, without_budget| {
                if without_budget { pin!(unconstrained(delay)).poll(cx) } else { delay.poll(cx) }
            },
        )
        .map_err(|()| Elapsed::new())
    }
}
