//! [`FutureExt`]: timeouts, deadlines and cancellation as methods.

use std::future::Future;
use std::time::Duration;

#[cfg(feature = "tokio-util")]
use tokio_util::sync::CancellationToken;

use super::{Deadline, DeadlineExceeded};
use crate::clock::Instant;
use crate::future::{Timeout, timeout, timeout_at};

/// Adds [`timeout`](crate::timeout()), [`timeout_at`](crate::timeout_at) and [`with_deadline`](FutureExt::with_deadline)
/// as methods to every future, and with the feature `tokio-util` also `with_cancellation_token` and
/// `with_cancellation_token_owned`, as tokio-util's trait does.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, FutureExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (_sender, receiver) = tokio::sync::oneshot::channel::<()>();
/// assert!(receiver.timeout(Duration::from_millis(1)).await.is_err());
/// # }
/// ```
pub trait FutureExt: Future {
    /// Limits this future to `duration` from now. Equivalent to [`hairspring::timeout`](crate::timeout()).
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, FutureExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(async { 5 }.timeout(Duration::from_secs(1)).await, Ok(5));
    /// # }
    /// ```
    #[track_caller]
    fn timeout(self, duration: Duration) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout(duration, self)
    }

    /// Limits this future to run until `deadline`. Equivalent to [`hairspring::timeout_at`](crate::timeout_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, FutureExt, Instant};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert!(std::future::pending::<()>().timeout_at(deadline).await.is_err());
    /// # }
    /// ```
    #[track_caller]
    fn timeout_at(self, deadline: Instant) -> Timeout<Self>
    where
        Self: Sized,
    {
        timeout_at(deadline, self)
    }

    /// Limits this future to run until `deadline`, with an error that names it. Equivalent to
    /// [`Deadline::limit`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Deadline, Duration, FutureExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let request = Deadline::after(Duration::from_millis(1)).named("request");
    /// let error = std::future::pending::<()>().with_deadline(request).await.unwrap_err();
    /// assert_eq!(error.name(), Some("request"));
    /// # }
    /// ```
    // Not `deadline`: that would hide the method of `Sleep` and `Timeout`.
    #[track_caller]
    fn with_deadline(self, deadline: Deadline) -> Timeout<Self, Deadline, DeadlineExceeded>
    where
        Self: Sized,
    {
        deadline.limit(self)
    }

    /// Runs this future until `token` is cancelled, as the method of tokio-util's `FutureExt` does.
    ///
    /// ```
    /// use hairspring::{Duration, FutureExt};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let token = CancellationToken::new();
    /// token.cancel();
    /// let work = std::future::pending::<()>().timeout(Duration::from_secs(60));
    /// assert!(work.with_cancellation_token(&token).await.is_none());
    /// # }
    /// ```
    ///
    /// Resolves to `None` if the token is cancelled first. If the token is already cancelled when this method is
    /// called, the future is never polled. If both happen in one poll, the output wins.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops this one.
    #[cfg(feature = "tokio-util")]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    fn with_cancellation_token(self, token: &CancellationToken) -> impl Future<Output = Option<Self::Output>>
    where
        Self: Sized,
    {
        tokio_util::future::FutureExt::with_cancellation_token(self, token)
    }

    /// Runs this future until `token` is cancelled, as [`with_cancellation_token`](FutureExt::with_cancellation_token)
    /// does, and owns the token.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, FutureExt, sleep};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let token = CancellationToken::new();
    /// let task = tokio::spawn(sleep(Duration::from_secs(60)).with_cancellation_token_owned(token.clone()));
    /// token.cancel();
    /// assert_eq!(task.await.unwrap(), None);
    /// # }
    /// ```
    #[cfg(feature = "tokio-util")]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    fn with_cancellation_token_owned(self, token: CancellationToken) -> impl Future<Output = Option<Self::Output>>
    where
        Self: Sized,
    {
        tokio_util::future::FutureExt::with_cancellation_token_owned(self, token)
    }
}

impl<F: Future + ?Sized> FutureExt for F {}
