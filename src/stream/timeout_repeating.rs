//! [`TimeoutRepeating`]: a stream that says again and again that it is silent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project::pin_project;

use super::fuse::Fuse;
use crate::future::Interval;
use crate::util::error::Elapsed;

/// The stream that [`StreamExt::timeout_repeating`](super::StreamExt::timeout_repeating) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::TimeoutRepeating;
/// use hairspring::{Duration, StreamExt, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let ticks = interval(Duration::from_secs(1));
/// let mut items: TimeoutRepeating<_> = futures::stream::iter([1]).timeout_repeating(ticks);
/// assert_eq!((items.next().await, items.next().await), (Some(Ok(1)), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct TimeoutRepeating<S> {
    #[pin]
    stream: Fuse<S>,
    interval: Interval,
}

impl<S> TimeoutRepeating<S> {
    pub(super) fn new(stream: S, interval: Interval) -> Self {
        TimeoutRepeating { stream: Fuse::new(stream), interval }
    }
}

impl<S: Stream> Stream for TimeoutRepeating<S> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            if item.is_some() {
                this.interval.reset();
            }
            return Poll::Ready(item.map(Ok));
        }
        ready!(this.interval.poll_tick(cx));
        Poll::Ready(Some(Err(Elapsed::new())))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // There is no end of errors.
        (self.stream.size_hint().0, None)
    }
}
