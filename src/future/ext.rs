//! [`FutureExt`]: timeouts at the end of a call chain.
//!
//! Must not know: anything but [`timeout`](crate::timeout()) and its like.

use std::time::Duration;

use crate::clock::Instant;
use crate::future::timeout::{Timeout, timeout, timeout_at};

/// [`timeout`](crate::timeout()) and [`timeout_at`](crate::timeout_at) as methods of every future.
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
    /// Awaits this future, for `duration` from now at most. As [`hairspring::timeout`](crate::timeout()), to the letter.
    ///
    /// # Errors
    /// The future that it returns gives [`Elapsed`](crate::error::Elapsed) where the deadline passes first.
    ///
    /// # Panics
    /// When the returned future is polled, as [`sleep`](crate::sleep()).
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

    /// Awaits this future, until `deadline` at most. As [`hairspring::timeout_at`](crate::timeout_at), to the letter.
    ///
    /// # Errors
    /// The future that it returns gives [`Elapsed`](crate::error::Elapsed) where the deadline passes first.
    ///
    /// # Panics
    /// When the returned future is polled, as [`sleep`](crate::sleep()).
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
