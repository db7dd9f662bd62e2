//! [`FutureExt`]: timeouts, and cancellation by a token, as methods.

use std::time::Duration;

#[cfg(feature = "tokio-util")]
use tokio_util::sync::CancellationToken;

use crate::clock::Instant;
use crate::future::timeout::{Timeout, timeout, timeout_at};

/// Adds [`timeout`](crate::timeout()) and [`timeout_at`](crate::timeout_at) as methods to every future. With the feature
/// `tokio-util` also `with_cancellation_token` and `with_cancellation_token_owned`, as tokio-util's trait has them.
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
    /// # Errors
    /// The returned future resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// # Panics
    /// Polling the returned future panics in the same cases as [`sleep`](crate::sleep()).
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

    /// Limits this future to the time until `deadline`. Equivalent to [`hairspring::timeout_at`](crate::timeout_at).
    ///
    /// # Errors
    /// The returned future resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// # Panics
    /// Polling the returned future panics in the same cases as [`sleep`](crate::sleep()).
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

    /// Runs this future until `token` is cancelled. Equivalent to the method of tokio-util's `FutureExt`.
    ///
    /// The returned future resolves to `None` if the token is cancelled first. A token that is cancelled when this is
    /// called keeps the future from being polled at all; of a cancellation and an output at the same poll, the output
    /// counts.
    ///
    /// # Cancel safety
    /// Dropping the returned future drops this one. It is as cancel safe as this one.
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
    #[cfg(feature = "tokio-util")]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    fn with_cancellation_token(self, token: &CancellationToken) -> impl Future<Output = Option<Self::Output>>
    where
        Self: Sized,
    {
        tokio_util::future::FutureExt::with_cancellation_token(self, token)
    }

    /// Runs this future until `token` is cancelled, and owns the token. Otherwise the same as
    /// [`with_cancellation_token`](FutureExt::with_cancellation_token).
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
