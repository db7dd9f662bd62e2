//! [`Sleep`]: a future that completes at a time of day.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use crate::clock::jumping::Jumping;
use crate::clock::reading::Reading;
use crate::future::until::Until;

/// Waits until the wall clock shows `deadline`.
///
/// Completes only when a poll finds the clock at or after that time. If it has passed, the first poll is ready. Any time
/// is accepted: one before 1970 has passed, and one that the system cannot wait for is never reached.
///
/// You can make and poll it anywhere, as [`hairspring::sleep`](crate::sleep()).
///
/// # Cancel safety
/// Dropping the future cancels the timer and frees everything it holds at once.
///
/// # Panics
/// In the same cases as [`hairspring::sleep`](crate::sleep()).
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = wall::now() + Duration::from_millis(5);
/// wall::sleep_until(deadline).await;
/// assert!(wall::now() >= deadline);
/// # }
/// ```
#[track_caller]
pub fn sleep_until(deadline: SystemTime) -> Sleep {
    Sleep(Until::new(Jumping::Wall, Reading::of(deadline)))
}

/// The future that [`sleep_until`] returns.
///
/// It is `Unpin`. Once it has completed, every poll is ready until you reset it, even if the clock is set back.
///
/// ```
/// use hairspring::{Duration, wall};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut alarm = wall::sleep_until(wall::now() + Duration::from_millis(1));
/// tokio::select! {
///     () = &mut alarm => {}
///     () = std::future::pending() => unreachable!(),
/// }
/// assert!(alarm.is_elapsed());
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
pub struct Sleep(Until);

impl Sleep {
    /// Returns the time at which this completes.
    ///
    /// ```
    /// use hairspring::{Duration, wall};
    /// let deadline = wall::now() + Duration::from_secs(1);
    /// assert_eq!(wall::sleep_until(deadline).deadline(), deadline);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> SystemTime {
        self.0.deadline().time()
    }

    /// Returns whether this has completed, or would at a poll: the clock shows the deadline or a later time.
    ///
    /// ```
    /// use hairspring::{Duration, wall};
    /// assert!(wall::sleep_until(std::time::UNIX_EPOCH).is_elapsed());
    /// assert!(!wall::sleep_until(wall::now() + Duration::from_secs(60)).is_elapsed());
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
    /// use hairspring::{Duration, wall};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = wall::sleep_until(wall::now() + Duration::from_secs(3600));
    /// sleep.reset_to(wall::now() + Duration::from_millis(1));
    /// sleep.await;
    /// # }
    /// ```
    pub fn reset_to(&mut self, deadline: SystemTime) {
        self.0.reset(Reading::of(deadline));
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
        let mut sleep = f.debug_struct("wall::Sleep");
        sleep.field("deadline", &self.deadline()).field("is_elapsed", &self.is_elapsed()).finish_non_exhaustive()
    }
}
