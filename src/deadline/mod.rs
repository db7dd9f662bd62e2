//! [`Deadline`]: a budget of time as a value, which calls hand on to the calls that they make.
//!
//! ```
//! use hairspring::{Deadline, DeadlineExceeded, Duration};
//!
//! async fn look_up(deadline: Deadline) -> Result<u8, DeadlineExceeded> {
//!     deadline.min(Deadline::after(Duration::from_secs(1)).named("cache")).limit(async { 7 }).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let request = Deadline::after(Duration::from_secs(5)).named("request");
//! assert_eq!(look_up(request).await, Ok(7));
//! # }
//! ```

mod grpc;

use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{error, fmt, io};

use pin_project::pin_project;

use crate::clock::{self, Instant};
use crate::future::{Sleep, Timeout};
use crate::util::error::Elapsed;
use crate::wheel::Tick;
pub use grpc::GrpcTimeoutError;

/// The instant by which something has to be done, or never. A value to be passed on explicitly: to each call that
/// shares the budget, and to each task that is spawned for it.
///
/// A deadline knows its [name](Deadline::named) and the line that set it. So the error of [`limit`](Deadline::limit)
/// says which deadline has passed, however many there are. Two deadlines are equal if they have the same instant,
/// name and line.
///
/// ```
/// use hairspring::{Deadline, Duration};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let request = Deadline::after(Duration::from_millis(5)).named("request");
/// let error = request.limit(std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(error.name(), Some("request"));
/// assert!(request.has_passed());
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Deadline {
    /// `None` for never.
    at: Option<Instant>,
    name: Option<&'static str>,
    set_at: &'static Location<'static>,
}

impl Deadline {
    /// The deadline that never passes.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert!(!Deadline::NEVER.has_passed());
    /// assert_eq!(Deadline::NEVER.remaining(), Duration::MAX);
    /// ```
    pub const NEVER: Deadline = Deadline { at: None, name: None, set_at: Location::caller() };

    /// Returns the deadline `duration` from now. A duration of more than 500 years is treated as 500 years. With a zero
    /// duration, the deadline has already passed.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::after(Duration::from_secs(5));
    /// assert!(!deadline.has_passed());
    /// assert!(Deadline::after(Duration::ZERO).has_passed());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn after(duration: Duration) -> Deadline {
        Deadline::at(Instant::now().deadline_after(duration))
    }

    /// Returns the deadline at `instant`, which may have passed.
    ///
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// let now = Instant::now();
    /// assert_eq!(Deadline::at(now).instant(), Some(now));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn at(instant: Instant) -> Deadline {
        Deadline { at: Some(instant), name: None, set_at: Location::caller() }
    }

    /// Gives the deadline a name, which errors show.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let deadline = Deadline::after(Duration::from_secs(5)).named("request");
    /// assert_eq!(deadline.name(), Some("request"));
    /// ```
    #[must_use]
    pub const fn named(self, name: &'static str) -> Deadline {
        Deadline { name: Some(name), ..self }
    }

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.name(), None);
    /// ```
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        self.name
    }

    /// Returns the line that called [`after`](Deadline::after), [`at`](Deadline::at) or
    /// [`from_grpc_timeout`](Deadline::from_grpc_timeout). For [`NEVER`](Deadline::NEVER), it is a line of this crate.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// assert_eq!(Deadline::after(Duration::ZERO).set_at().file(), file!());
    /// ```
    #[must_use]
    pub const fn set_at(self) -> &'static Location<'static> {
        self.set_at
    }

    /// Returns the earlier of the two, with its name. Returns this one if they are at the same instant.
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let request = Deadline::after(Duration::from_secs(5)).named("request");
    /// let query = Deadline::after(Duration::from_secs(60)).named("query");
    /// assert_eq!(query.min(request).name(), Some("request"));
    /// assert_eq!(Deadline::NEVER.min(query), query);
    /// ```
    #[must_use]
    pub fn min(self, other: Deadline) -> Deadline {
        match (self.at, other.at) {
            (None, Some(_)) => other,
            (Some(mine), Some(others)) if others < mine => other,
            _ => self,
        }
    }

    /// Returns how long it is until the deadline: zero if it has passed, [`Duration::MAX`] for
    /// [`NEVER`](Deadline::NEVER).
    ///
    /// ```
    /// use hairspring::{Deadline, Duration};
    /// let remaining = Deadline::after(Duration::from_secs(5)).remaining();
    /// assert!(remaining <= Duration::from_secs(5));
    /// assert_eq!(Deadline::after(Duration::ZERO).remaining(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn remaining(self) -> Duration {
        self.at.map_or(Duration::MAX, |at| at - Instant::now())
    }

    /// Returns whether the deadline has passed.
    ///
    /// ```
    /// use hairspring::{Deadline, Instant};
    /// assert!(Deadline::at(Instant::now()).has_passed());
    /// ```
    #[must_use]
    pub fn has_passed(self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// Returns the instant, or `None` for [`NEVER`](Deadline::NEVER).
    ///
    /// ```
    /// assert_eq!(hairspring::Deadline::NEVER.instant(), None);
    /// ```
    #[must_use]
    pub const fn instant(self) -> Option<Instant> {
        self.at
    }

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

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Deadline");
        match self.at {
            Some(_) => shown.field("remaining", &self.remaining()),
            None => shown.field("remaining", &"never"),
        };
        shown.field("name", &self.name).field("set_at", &format_args!("{}", self.set_at)).finish()
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
