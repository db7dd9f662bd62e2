//! The errors that several folders return: [`Elapsed`] of timeouts, [`Error`] of timers, and [`BuildError`].
//!
//! The public module `error`, in `lib.rs`, also has those of single folders.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::{fmt, io};

/// The error of [`timeout`](crate::timeout()): the deadline passed before the future completed.
///
/// Converts to an [`io::Error`] of the kind [`TimedOut`](io::ErrorKind::TimedOut).
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

/// The error of a timer that was shut down or is full, of [`Timer::try_current`](crate::Timer::try_current)
/// outside a runtime, and of a [fallible timeout](crate::Timeout::fallible) if the deadline passes first.
///
/// ```
/// use hairspring::{Timer, error::Error};
/// let error = Timer::try_current().unwrap_err();
/// assert!(error.is_no_runtime() && !error.is_shutdown());
/// assert_ne!(error, Error::shutdown());
/// assert_eq!(std::io::Error::from(Error::at_capacity()).kind(), std::io::ErrorKind::QuotaExceeded);
/// ```
///
/// The methods tell these cases apart. Two errors are equal if their messages are, including the timer's name and the
/// number of pending sleeps.
///
/// Converts to an [`io::Error`] with this as the inner error. Its kind is
/// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded) if the timer is full,
/// [`TimedOut`](io::ErrorKind::TimedOut) if the deadline passed,
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for an [invalid](Error::is_invalid) deadline, and
/// [`Other`](io::ErrorKind::Other) if the timer was shut down or there is no runtime.
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

    /// Creates the error of a timer that is full.
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

    pub(crate) fn over_capacity(timer: Option<&'static str>, pending: usize) -> Error {
        let pending = NonZeroU32::new(u32::try_from(pending).unwrap_or(u32::MAX));
        Error { pending, timer, ..Error::at_capacity() }
    }

    /// Returns whether the timer is full. Retrying later may succeed.
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

    /// Returns whether a deadline passed, as with [`Elapsed`]: a [fallible timeout](crate::Timeout::fallible) then
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
        match self.kind {
            Kind::Elapsed => return Elapsed::new().fmt(f),
            Kind::NoRuntime => {
                return f.write_str(
                    "no tokio runtime here: outside a runtime, `Timer::current` returns the process's own timer",
                );
            }
            Kind::RuntimeEnded => {
                return f.write_str("the current tokio runtime was shut down, and its timers ended with it");
            }
            Kind::Shutdown | Kind::AtCapacity | Kind::Invalid => {}
        }
        match self.timer {
            Some(name) => write!(f, "the timer `{name}` ")?,
            None => f.write_str("the timer ")?,
        }
        match (self.kind, self.pending) {
            (Kind::AtCapacity, Some(pending)) => write!(f, "is full: {pending} pending"),
            (Kind::AtCapacity, None) => f.write_str("is full"),
            (Kind::Invalid, _) => f.write_str("does not accept this deadline"),
            _ => f.write_str("has ended: it, its runtime or its `ManualClock` was shut down"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.kind {
            Kind::AtCapacity => io::ErrorKind::QuotaExceeded,
            Kind::Invalid => io::ErrorKind::InvalidInput,
            Kind::Elapsed => io::ErrorKind::TimedOut,
            Kind::Shutdown | Kind::RuntimeEnded | Kind::NoRuntime => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

/// The error of [`timer::Builder`](crate::timer::Builder) and [`deadline_map::Builder`](crate::deadline_map::Builder).
///
/// ```
/// use hairspring::Timer;
/// use std::io;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let error = Timer::builder().shards(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "shards is 0: must be from 1 to 1024");
/// assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
/// # }
/// ```
///
/// `Display` names the setting, its value and the values that are allowed, or says what is missing. If the operating
/// system refused something, [`source`](std::error::Error::source) returns its [`io::Error`]. Two errors are equal if
/// their messages are.
///
/// Converts to an [`io::Error`] with this as the inner error. Its kind is
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for a setting out of range,
/// [`Unsupported`](io::ErrorKind::Unsupported) if the system or the runtime lacks what the alarm needs,
/// [`Other`](io::ErrorKind::Other) if there is no tokio runtime, and that of the system's error otherwise.
#[derive(Debug, Clone)]
pub struct BuildError {
    message: String,
    kind: io::ErrorKind,
    source: Option<Arc<io::Error>>,
}

impl BuildError {
    pub(crate) fn check_range<T: PartialOrd + fmt::Debug>(
        setting: &str,
        given: T,
        allowed: RangeInclusive<T>,
    ) -> Result<(), BuildError> {
        if allowed.contains(&given) {
            return Ok(());
        }
        let (least, most) = allowed.into_inner();
        Err(BuildError::out_of_range(setting, given, format_args!("must be from {least:?} to {most:?}")))
    }

    pub(crate) fn out_of_range(setting: &str, given: impl fmt::Debug, allowed: impl fmt::Display) -> BuildError {
        BuildError::new(io::ErrorKind::InvalidInput, format!("{setting} is {given:?}: {allowed}"))
    }

    pub(crate) fn no_runtime() -> BuildError {
        let message = "no tokio runtime to spawn the driver on: call `build` and `install` inside one";
        BuildError::new(io::ErrorKind::Other, message.to_owned())
    }

    pub(crate) fn runtime_ended() -> BuildError {
        BuildError::new(io::ErrorKind::Other, "the current tokio runtime was shut down".to_owned())
    }

    /// The system or the runtime lacks something, in words.
    pub(crate) fn unsupported(message: String) -> BuildError {
        BuildError::new(io::ErrorKind::Unsupported, message)
    }

    pub(crate) fn by_system(message: String, source: io::Error) -> BuildError {
        BuildError { message, kind: source.kind(), source: Some(Arc::new(source)) }
    }

    fn new(kind: io::ErrorKind, message: String) -> BuildError {
        BuildError { message, kind, source: None }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.message)
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        io::Error::new(error.kind, error)
    }
}

impl PartialEq for BuildError {
    fn eq(&self, other: &BuildError) -> bool {
        self.message == other.message
    }
}

impl Eq for BuildError {}

// `io::Error` is neither, because it may contain anything. Here it contains only what the system reports.
impl UnwindSafe for BuildError {}
impl RefUnwindSafe for BuildError {}
