//! [`Limited`]: a future under a [`Deadline`], and its error.

use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{error, fmt, io};

use pin_project::pin_project;

use crate::clock;
use crate::deadline::value::Deadline;
use crate::future::{Sleep, Timeout};
use crate::util::error::Elapsed;
use crate::wheel::Tick;

impl Deadline {
    /// Awaits `future`, but at most until this deadline. The same as [`timeout_at`](crate::timeout_at), with an error
    /// that names the deadline. [`NEVER`](Deadline::NEVER) registers no timer.
    ///
    /// If the future is ready, it wins, even after the deadline. So if one `limit` is inside another and both deadlines
    /// have passed, the inner error is returned.
    ///
    /// # Errors
    /// Resolves to [`DeadlineExceeded`] if the deadline passes first.
    ///
    /// # Cancel safety
    /// Dropping it drops the future and cancels the timer. It is as cancel safe as the future.
    ///
    /// # Panics
    /// Polling panics in the same cases as [`sleep`](crate::sleep()).
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let deadline = Deadline::after(Duration::from_millis(5));
    /// assert_eq!(deadline.limit(async { "done" }).await, Ok("done"));
    /// assert!(deadline.limit(std::future::pending::<()>()).await.is_err());
    /// # }
    /// ```
    #[track_caller]
    pub fn limit<F: IntoFuture>(self, future: F) -> Limited<F::IntoFuture> {
        let sleep = Sleep::new(self.instant().map_or(Tick::MAX, clock::tick_of));
        Limited { timeout: Timeout::new(future.into_future(), sleep), deadline: self }
    }
}

/// The future that [`Deadline::limit`] returns.
///
/// ```
/// use hairspring::{Deadline, DeadlineExceeded, deadline::Limited};
/// use std::future::{Ready, ready};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), DeadlineExceeded> {
/// let limited: Limited<Ready<u8>> = Deadline::NEVER.limit(ready(7));
/// assert_eq!(limited.await?, 7);
/// # Ok(())
/// # }
/// ```
#[must_use = "futures do nothing unless you `.await` or poll them"]
#[derive(Debug)]
#[pin_project]
pub struct Limited<F> {
    #[pin]
    timeout: Timeout<F>,
    deadline: Deadline,
}

impl<F: Future> Future for Limited<F> {
    type Output = Result<F::Output, DeadlineExceeded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let deadline = *this.deadline;
        if deadline.instant().is_none() {
            return this.timeout.poll_without_limit(cx).map(Ok);
        }
        Poll::Ready(ready!(this.timeout.poll(cx)).map_err(|Elapsed { .. }| DeadlineExceeded::new(deadline)))
    }
}

/// The error of [`Deadline::limit`]: this deadline has passed, and no other.
///
/// It converts into [`Elapsed`], and into an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut) that keeps it
/// as the inner error.
///
/// Its text names the deadline and may be sent to a client. The line that set the deadline is for your log only: it is
/// in `Debug` and in [`set_at`](DeadlineExceeded::set_at).
///
/// ```
/// use hairspring::{Deadline, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_millis(5)).named("request");
/// let error = request.limit(std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(error.deadline(), request);
/// assert_eq!(error.to_string(), "the deadline `request` has passed");
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadlineExceeded {
    deadline: Deadline,
}

impl DeadlineExceeded {
    /// Creates the error, for code that finds by itself that a deadline has passed, and for tests.
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    ///
    /// fn check(deadline: Deadline) -> Result<(), DeadlineExceeded> {
    ///     if deadline.has_passed() { Err(DeadlineExceeded::new(deadline)) } else { Ok(()) }
    /// }
    ///
    /// assert!(check(Deadline::after(Duration::ZERO)).is_err());
    /// ```
    #[must_use]
    pub fn new(deadline: Deadline) -> DeadlineExceeded {
        DeadlineExceeded { deadline }
    }

    /// Returns the deadline that has passed. Compare it with yours, to tell it from deadlines that other code has set.
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    /// let request = Deadline::after(Duration::ZERO).named("request");
    /// let query = Deadline::after(Duration::ZERO).named("query");
    /// assert_ne!(DeadlineExceeded::new(query).deadline(), request);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the name of the deadline, if it was given one.
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    /// let error = DeadlineExceeded::new(Deadline::after(Duration::ZERO).named("query"));
    /// assert_eq!(error.name(), Some("query"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.deadline.name()
    }

    /// Returns the line that set the deadline, as [`Deadline::set_at`] does.
    ///
    /// ```
    /// use hairspring::{Deadline, DeadlineExceeded, Duration};
    /// let error = DeadlineExceeded::new(Deadline::after(Duration::ZERO));
    /// assert_eq!(error.set_at().file(), file!());
    /// ```
    #[must_use]
    pub fn set_at(&self) -> &'static Location<'static> {
        self.deadline.set_at()
    }
}

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "the deadline `{name}` has passed"),
            None => f.write_str("a deadline has passed"),
        }
    }
}

impl error::Error for DeadlineExceeded {}

impl From<DeadlineExceeded> for Elapsed {
    fn from(_: DeadlineExceeded) -> Elapsed {
        Elapsed::new()
    }
}

impl From<DeadlineExceeded> for io::Error {
    fn from(exceeded: DeadlineExceeded) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, exceeded)
    }
}
