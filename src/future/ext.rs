//! [`FutureExt`]: timeouts as methods.

use std::time::Duration;

use crate::clock::Instant;
use crate::future::timeout::{Timeout, timeout, timeout_at};

/// Adds [`timeout`](crate::timeout()) and [`timeout_at`](crate::timeout_at) as methods to every future.
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
}

impl<F: Future + ?Sized> FutureExt for F {}
