//! [`TrySleep`]: a sleep that resolves to an error where another would panic.
//!
//! Must not know: how a sleep finds its timer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::clock::Instant;
use crate::future::Sleep;
use crate::util::error::Error;

/// The future of [`Timer::try_sleep`](crate::Timer::try_sleep): `Ok` at the deadline, never before, or the [`Error`] of a
/// timer that is full or was shut down.
///
/// A full timer says so at the first poll. To be polled again after that is to ask again; nobody is queued for room. A
/// shutdown meanwhile resolves it at once.
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees what it held, at once.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let waits = tokio::spawn(timer.try_sleep(Duration::from_secs(3600)));
/// tokio::task::yield_now().await;
/// assert_eq!(timer.shutdown(), 1);
/// assert!(waits.await.unwrap().unwrap_err().is_shutdown());
/// # }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct TrySleep {
    sleep: Sleep,
}

impl TrySleep {
    pub(crate) fn new(sleep: Sleep) -> Self {
        TrySleep { sleep }
    }

    /// The instant at which this completes. As [`Sleep::deadline`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_secs(1);
    /// assert_eq!(timer.try_sleep_until(deadline).deadline(), deadline);
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.sleep.deadline()
    }

    /// Whether this has fired, polled since or not. As [`Sleep::is_elapsed`]; false of one that the timer has refused.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = hairspring::Timer::current().try_sleep(hairspring::Duration::ZERO);
    /// (&mut sleep).await.unwrap();
    /// assert!(sleep.is_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.sleep.is_elapsed()
    }

    /// Gives this another deadline. As [`Sleep::reset_to`]; one that waits keeps its room on a full timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(3600));
    /// sleep.reset_to(timer.now() + Duration::from_millis(1));
    /// assert_eq!(sleep.await, Ok(()));
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.sleep.reset_to(deadline);
    }
}

impl Future for TrySleep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.sleep.poll_elapsed(cx)
    }
}
