//! The errors of this crate: [`Elapsed`] from a timeout, and [`Error`] from a timer.
//!
//! # Examples
//!
//! ```
//! use hairspring::{Duration, Timer, error::Elapsed};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let timer = Timer::builder().build().unwrap();
//! let late = timer.timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
//! assert_eq!(late, Err(Elapsed::new()));
//! timer.shutdown();
//! assert!(timer.try_sleep(Duration::from_secs(60)).await.unwrap_err().is_shutdown());
//! # }
//! ```

use std::fmt;
use std::num::NonZeroU32;

/// The error of [`timeout`](crate::timeout()): the deadline passed before the future completed.
///
/// Converts to an [`io::Error`](std::io::Error) of the kind [`TimedOut`](std::io::ErrorKind::TimedOut).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use hairspring::{Duration, timeout};
///
/// let late = timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
/// assert_eq!(late.to_string(), "deadline has elapsed");
/// assert_eq!(std::io::Error::from(late).kind(), std::io::ErrorKind::TimedOut);
/// # }
/// ```
#[doc(alias = "TimeoutError")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elapsed(());

impl Elapsed {
    /// Creates the error, for tests of code that handles it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::error::Elapsed;
    /// let answer: Result<u8, Elapsed> = Err(Elapsed::new());
    /// assert!(answer.is_err());
    /// ```
    #[allow(clippy::new_without_default)] // An error has no default.
    #[must_use]
    pub fn new() -> Self {
        Elapsed(())
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for std::io::Error {
    fn from(_: Elapsed) -> std::io::Error {
        std::io::ErrorKind::TimedOut.into()
    }
}

/// The error of a timer that was shut down or is at capacity, of [`Timer::try_current`](crate::Timer::try_current)
/// outside a runtime, and of [`Timer::try_timeout`](crate::Timer::try_timeout) if the deadline passes first.
///
/// The methods tell these cases apart. Two errors are equal if their messages are, including the timer's name and the
/// number of pending sleeps.
///
/// # Examples
///
/// ```
/// use hairspring::{Timer, error::Error};
/// let error = Timer::try_current().unwrap_err();
/// assert!(error.is_no_runtime() && !error.is_shutdown());
/// assert_ne!(error, Error::shutdown());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    kind: Kind,
    pending: Option<NonZeroU32>,
    timer: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Shutdown,
    RuntimeEnded,
    AtCapacity,
    Invalid,
    NoRuntime,
    Elapsed,
}

impl Error {
    fn new(kind: Kind) -> Error {
        Error { kind, pending: None, timer: None }
    }

    /// Creates the error of a timer that was shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(hairspring::error::Error::shutdown().is_shutdown());
    /// ```
    #[must_use]
    pub fn shutdown() -> Error {
        Error::new(Kind::Shutdown)
    }

    pub(crate) fn ended(timer: Option<&'static str>) -> Error {
        Error { timer, ..Error::shutdown() }
    }

    pub(crate) fn runtime_ended() -> Error {
        Error::new(Kind::RuntimeEnded)
    }

    /// Returns whether the timer or its runtime was shut down. Retrying cannot succeed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!hairspring::error::Error::at_capacity().is_shutdown());
    /// ```
    #[must_use]
    pub fn is_shutdown(&self) -> bool {
        matches!(self.kind, Kind::Shutdown | Kind::RuntimeEnded)
    }

    /// Creates the error of a timer that is at capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(hairspring::error::Error::at_capacity().is_at_capacity());
    /// ```
    #[must_use]
    pub fn at_capacity() -> Error {
        Error::new(Kind::AtCapacity)
    }

    pub(crate) fn full(timer: Option<&'static str>, pending: usize) -> Error {
        let pending = NonZeroU32::new(u32::try_from(pending).unwrap_or(u32::MAX));
        Error { pending, timer, ..Error::at_capacity() }
    }

    /// Returns whether the timer is at capacity. Retrying later may succeed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!hairspring::error::Error::shutdown().is_at_capacity());
    /// ```
    #[must_use]
    pub fn is_at_capacity(&self) -> bool {
        self.kind == Kind::AtCapacity
    }

    /// Creates the error of a timer that does not accept a deadline.
    ///
    /// It exists because tokio has it: this crate's timers accept every deadline.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(hairspring::error::Error::invalid().is_invalid());
    /// ```
    #[must_use]
    pub fn invalid() -> Error {
        Error::new(Kind::Invalid)
    }

    /// Returns whether the timer rejected the deadline, which this crate's timers never do.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!hairspring::error::Error::shutdown().is_invalid());
    /// ```
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.kind == Kind::Invalid
    }

    pub(crate) fn no_runtime() -> Error {
        Error::new(Kind::NoRuntime)
    }

    /// Returns whether [`Timer::try_current`](crate::Timer::try_current) was called outside a tokio runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::Timer;
    /// assert!(Timer::try_current().is_err_and(|error| error.is_no_runtime()));
    /// ```
    #[must_use]
    pub fn is_no_runtime(&self) -> bool {
        self.kind == Kind::NoRuntime
    }
}

impl Error {
    /// Returns whether a deadline passed, as with [`Elapsed`]: [`Timer::try_timeout`](crate::Timer::try_timeout) then
    /// returns this error.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::error::{Elapsed, Error};
    /// assert!(Error::from(Elapsed::new()).is_elapsed());
    /// ```
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.kind == Kind::Elapsed
    }
}

impl From<Elapsed> for Error {
    fn from(_: Elapsed) -> Error {
        Error::new(Kind::Elapsed)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timer {
            _ if self.kind == Kind::Elapsed => return Elapsed::new().fmt(f),
            _ if self.kind == Kind::NoRuntime => {
                return f.write_str(
                    "no tokio runtime here: outside a runtime, `Timer::current` returns the process's own timer",
                );
            }
            _ if self.kind == Kind::RuntimeEnded => {
                return f.write_str("the current tokio runtime was shut down, and its timers ended with it");
            }
            Some(name) => write!(f, "the timer `{name}` ")?,
            None => f.write_str("the timer ")?,
        }
        match (self.kind, self.pending) {
            (Kind::AtCapacity, Some(pending)) => write!(f, "is at capacity: {pending} pending"),
            (Kind::AtCapacity, None) => f.write_str("is at capacity"),
            (Kind::Invalid, _) => f.write_str("does not accept this deadline"),
            (Kind::Shutdown | Kind::RuntimeEnded | Kind::NoRuntime | Kind::Elapsed, _) => {
                f.write_str("has ended: it was shut down, or its driver was dropped with its runtime")
            }
        }
    }
}

impl std::error::Error for Error {}
