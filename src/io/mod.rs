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

mod error;
mod limits;
mod stream;

pub use error::{Limit, LimitExceeded};
pub use stream::TimeoutStream;
