//! [`StreamExt`](crate::StreamExt): time limits for streams, with the names and meaning of tokio-stream's adapters.
//!
//! A reference to a stream is a stream, too: to use the inner one after an adapter, pass `&mut lines` or `by_ref()`.
//!
//! # Examples
//!
//! ```
//! use futures::StreamExt as _;
//! use hairspring::{Duration, StreamExt};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let lines = futures::stream::iter(["one", "two"]).chain(futures::stream::pending());
//! let mut lines = std::pin::pin!(lines.timeout(Duration::from_secs(30)));
//! assert_eq!(lines.next().await, Some(Ok("one")));
//! assert_eq!(lines.next().await, Some(Ok("two")));
//! assert!(lines.next().await.unwrap().is_err(), "silence");
//! # }
//! ```

mod chunks_timeout;
pub(crate) mod ext;
mod fuse;
mod interval_stream;
mod latest;
mod throttle;
mod timeout;

pub use chunks_timeout::ChunksTimeout;
pub use interval_stream::IntervalStream;
pub use latest::Debounce;
pub use throttle::Throttle;
pub use timeout::{Timeout, TimeoutRepeating};

/// How many items one poll takes before other tasks run.
const AT_ONCE: usize = 128;
