//! [`StreamExt`](crate::StreamExt): time limits for streams, with the names and meaning of tokio-stream's adapters.
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

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::coop;

mod chunks_timeout;
pub(crate) mod ext;
mod fuse;
mod interval_stream;
mod latest;
mod throttle;
mod timeout;

pub use chunks_timeout::ChunksTimeout;
pub use interval_stream::IntervalStream;
pub use latest::{Debounce, ThrottleLatest};
pub use throttle::Throttle;
pub use timeout::{Timeout, TimeoutRepeating};

/// How many items one poll takes before other tasks run.
const AT_ONCE: usize = 128;

/// Polls what spends the task's budget, after a stream. If the stream has just spent the last of it, this needs none:
/// otherwise a stream that always does so would never meet a limit.
fn poll_after_stream<T>(
    cx: &mut Context<'_>,
    had_budget: bool,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if had_budget && !coop::has_budget_remaining() {
        return pin!(coop::unconstrained(poll_fn(poll))).poll(cx);
    }
    poll(cx)
}
