//! [`Sleep`]: a future that completes at a time on the clock that goes on while the machine sleeps.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock::boot::Instant;
use crate::clock::jumping::Jumping;
use crate::future::until::Until;

/// Waits until `duration` has passed since this call, suspension included.
///
/// Completes at or after that time, never a nanosecond before. A zero `duration` is ready at the first poll; any
/// duration is accepted. You can make and poll it anywhere, as [`hairspring::sleep`](crate::sleep()).
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees everything it holds at once.
///
/// # Panics
/// In the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let start = boot::Instant::now();
/// boot::sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # }
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now() + duration)
}

/// Waits until `deadline`. If it has passed, the first poll is ready. Otherwise the same as [`sleep`].
///
/// # Panics
/// In the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = boot::Instant::now() + Duration::from_millis(5);
/// boot::sleep_until(deadline).await;
/// assert!(boot::Instant::now() >= deadline);
/// # }
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep(Until::new(Jumping::Boot, deadline.0))
}

/// The future that [`sleep`] and [`sleep_until`] return.
///
/// It is `Unpin`. Once it has completed, every poll is ready until you reset it.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut limit = boot::sleep(Duration::from_millis(1));
/// tokio::select! {
///     () = &mut limit => {}
///     () = std::future::pending() => unreachable!(),
/// }
/// assert!(limit.is_elapsed());
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep(Until);

impl Sleep {
    /// Returns the time at which this completes.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let deadline = boot::Instant::now() + Duration::from_secs(1);
    /// assert_eq!(boot::sleep_until(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant(self.0.deadline())
    }

    /// Returns whether the deadline has passed, whether or not this was polled.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// assert!(boot::sleep(Duration::ZERO).is_elapsed());
    /// assert!(!boot::sleep(Duration::from_secs(60)).is_elapsed());
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.0.is_elapsed()
    }

    /// Sets a new deadline, whether the sleep is waiting, was never polled, or has completed.
    ///
    /// The task of a waiting sleep is woken at the new deadline without another poll, or at once if that has passed.
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = boot::sleep(Duration::from_secs(3600));
    /// sleep.reset_to(boot::Instant::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: Instant) {
        self.0.reset(deadline.0);
    }

    /// The time on the clock of the timer that this waits on.
    pub(super) fn now(&self) -> Instant {
        Instant(self.0.now())
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().0.poll(cx)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sleep = f.debug_struct("boot::Sleep");
        sleep.field("deadline", &self.deadline()).field("is_elapsed", &self.is_elapsed()).finish_non_exhaustive()
    }
}
