//! [`TryTimeout`]: a timeout that resolves to an error in cases in which others panic.

use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project::pin_project;

use crate::clock::Instant;
use crate::future::Timeout;
use crate::util::error::{Elapsed, Error};

/// The future of [`Timer::try_timeout`](crate::Timer::try_timeout). Resolves to `Ok` with what a
/// [`Timeout`](crate::Timeout) would resolve to, or to the [`Error`] of a timer that is full or was shut down.
///
/// The inner future is polled first, so one that is ready at once is not affected by a full timer. After an error it is
/// still there: poll again to try again, or take it out with [`into_inner`](TryTimeout::into_inner).
///
/// # Cancel safety
/// Dropping this drops the future and cancels the timer. It is as cancel safe as the future.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// timer.shutdown();
/// let mut limited = timer.try_timeout(Duration::from_secs(60), hairspring::sleep(Duration::from_millis(1)));
/// assert!((&mut limited).await.is_err_and(|error| error.is_shutdown()));
/// limited.into_inner().await; // without a limit, then
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
#[pin_project]
pub struct TryTimeout<T> {
    #[pin]
    limited: Timeout<T>,
}

impl<T> TryTimeout<T> {
    pub(crate) fn new(limited: Timeout<T>) -> Self {
        TryTimeout { limited }
    }

    /// Returns a reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, Timer};
    /// let limited = Timer::current().try_timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &std::future::Pending<u8> = limited.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &T {
        self.limited.get_ref()
    }

    /// Returns a mutable reference to the inner future.
    ///
    /// ```
    /// # use hairspring::{Duration, Timer};
    /// let mut limited = Timer::current().try_timeout(Duration::from_secs(1), std::future::pending::<u8>());
    /// let _inner: &mut std::future::Pending<u8> = limited.get_mut();
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        self.limited.get_mut()
    }

    /// Returns the inner future, without the deadline.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// assert_eq!(Timer::current().try_timeout(Duration::ZERO, std::future::ready(3)).into_inner().await, 3);
    /// # }
    /// ```
    pub fn into_inner(self) -> T {
        self.limited.into_inner()
    }

    /// Returns the instant at which this times out.
    ///
    /// ```
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let limited = timer.try_timeout(Duration::from_secs(1), async {});
    /// assert!(limited.deadline() <= timer.now() + Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.limited.deadline()
    }

    /// Sets a new deadline, as [`Timeout::reset_to`] does. One that waits keeps its place in a full timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let mut limited = timer.try_timeout(Duration::from_secs(3600), std::future::pending::<()>());
    /// limited.reset_to(timer.now());
    /// assert!(limited.await.unwrap().is_err());
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.limited.reset_to(deadline);
    }
}

impl<T: Future> Future for TryTimeout<T> {
    type Output = Result<Result<T::Output, Elapsed>, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().limited.try_poll(cx)
    }
}
