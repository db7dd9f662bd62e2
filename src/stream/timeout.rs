//! [`Timeout`]: a stream that says when it has been silent for too long.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use super::fuse::Fuse;
use super::silence::Silence;
use crate::util::error::Elapsed;

/// The stream that [`StreamExt::timeout`](super::StreamExt::timeout) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Timeout;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Timeout<_> = futures::stream::iter([1]).timeout(Duration::from_secs(1));
/// assert_eq!((items.next().await, items.next().await), (Some(Ok(1)), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct Timeout<S> {
    #[pin]
    stream: Fuse<S>,
    silence: Silence,
    /// Whether the error for this silence is still to come.
    is_limited: bool,
}

impl<S> Timeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Timeout { stream: Fuse::new(stream), silence: Silence::new(duration), is_limited: true }
    }
}

impl<S: Stream> Stream for Timeout<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.silence.end();
                *this.is_limited = true;
            }
            return Poll::Ready(item.map(Ok));
        }
        if !*this.is_limited {
            return Poll::Pending;
        }
        ready!(this.silence.poll(cx));
        *this.is_limited = false;
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let (lower, upper) = self.stream.size_hint();
        // One error before each item, and one before the end.
        (lower, upper.and_then(|upper| upper.checked_mul(2)?.checked_add(1)))
    }
}
