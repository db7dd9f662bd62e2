//! [`TimeoutStream`]: a connection with limits. Its errors say which [`Limit`] has passed, in a [`LimitExceeded`].
//!
//! ```
//! use hairspring::{Duration, io::TimeoutStream};
//! use tokio::io::AsyncReadExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (connection, _silent_peer) = tokio::io::duplex(64);
//! let mut connection = TimeoutStream::new(connection).idle_timeout(Duration::from_millis(5));
//! let error = connection.read_u8().await.unwrap_err();
//! assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
//! assert_eq!(error.to_string(), "the idle timeout of 5ms has passed");
//! # }
//! ```

mod limits;
mod stream;

use std::io;
use std::time::Duration;
use std::{error, fmt};

pub use stream::TimeoutStream;

/// A limit of a [`TimeoutStream`](crate::io::TimeoutStream).
///
/// ```
/// use hairspring::io::Limit;
/// assert_ne!(Limit::Read, Limit::Idle);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// How long a read may wait: see [`set_read_timeout`](crate::io::TimeoutStream::set_read_timeout).
    Read,
    /// How long a write, a flush or a shutdown may wait: see
    /// [`set_write_timeout`](crate::io::TimeoutStream::set_write_timeout).
    Write,
    /// How long nothing may move in either direction: see
    /// [`set_idle_timeout`](crate::io::TimeoutStream::set_idle_timeout).
    Idle,
    /// The last instant of the connection: see [`set_deadline`](crate::io::TimeoutStream::set_deadline).
    Deadline,
}

/// The error inside an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut): a limit of a
/// [`TimeoutStream`](crate::io::TimeoutStream) has passed. A system's own `TimedOut` does not contain it.
///
/// ```
/// use hairspring::{Duration, io::{Limit, LimitExceeded, TimeoutStream}};
/// use tokio::io::AsyncReadExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (connection, _silent_peer) = tokio::io::duplex(64);
/// let mut connection = TimeoutStream::new(connection).read_timeout(Duration::from_millis(5));
/// let error = connection.read_u8().await.unwrap_err();
/// let exceeded: &LimitExceeded = error.get_ref().unwrap().downcast_ref().unwrap();
/// assert_eq!(exceeded.limit(), Limit::Read);
/// assert_eq!(exceeded.length(), Duration::from_millis(5));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitExceeded {
    limit: Limit,
    length: Duration,
}

impl LimitExceeded {
    /// Creates the error, for tests of code that handles it.
    ///
    /// ```
    /// use hairspring::{Duration, io::{Limit, LimitExceeded}};
    /// let error: std::io::Error = LimitExceeded::new(Limit::Write, Duration::from_secs(30)).into();
    /// assert_eq!(error.to_string(), "the write timeout of 30s has passed");
    /// ```
    #[must_use]
    pub fn new(limit: Limit, length: Duration) -> LimitExceeded {
        LimitExceeded { limit, length }
    }

    /// Returns which limit has passed. If several have, it is the deadline, or else the first.
    ///
    /// ```
    /// # use hairspring::{Duration, io::{Limit, LimitExceeded}};
    /// assert_eq!(LimitExceeded::new(Limit::Idle, Duration::from_secs(60)).limit(), Limit::Idle);
    /// ```
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns how long the limit was. For [`Limit::Deadline`], this is the time from the call that set the deadline.
    ///
    /// ```
    /// # use hairspring::{Duration, io::{Limit, LimitExceeded}};
    /// assert_eq!(LimitExceeded::new(Limit::Idle, Duration::from_secs(60)).length(), Duration::from_secs(60));
    /// ```
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.length;
        match self.limit {
            Limit::Read => write!(f, "the read timeout of {length:?} has passed"),
            Limit::Write => write!(f, "the write timeout of {length:?} has passed"),
            Limit::Idle => write!(f, "the idle timeout of {length:?} has passed"),
            Limit::Deadline => write!(f, "the connection's deadline has passed, {length:?} after it was set"),
        }
    }
}

impl error::Error for LimitExceeded {}

impl From<LimitExceeded> for io::Error {
    fn from(exceeded: LimitExceeded) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, exceeded)
    }
}
