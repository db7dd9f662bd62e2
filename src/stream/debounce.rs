//! [`Debounce`]: the last item before each silence.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use super::AT_ONCE;
use super::fuse::Fuse;
use super::silence::Silence;

/// The stream that [`StreamExt::debounce`](super::StreamExt::debounce) returns.
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Debounce;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Debounce<_> = futures::stream::iter([1, 2]).debounce(Duration::from_secs(3600));
/// assert_eq!((items.next().await, items.next().await), (Some(2), None), "the stream has ended");
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct Debounce<S: Stream> {
    #[pin]
    stream: Fuse<S>,
    silence: Silence,
    /// The item that came last, if it was not yielded yet.
    last: Option<S::Item>,
}

impl<S: Stream> Debounce<S> {
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Debounce { stream: Fuse::new(stream), silence: Silence::new(duration), last: None }
    }
}

impl<S: Stream> Stream for Debounce<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        for _ in 0..AT_ONCE {
            match this.stream.as_mut().poll_next(cx) {
                Poll::Ready(Some(item)) => {
                    *this.last = Some(item);
                    this.silence.end();
                }
                Poll::Ready(None) => return Poll::Ready(this.last.take()),
                Poll::Pending if this.last.is_none() => return Poll::Pending,
                Poll::Pending => {
                    ready!(this.silence.poll(cx));
                    return Poll::Ready(this.last.take());
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(self.last.is_some());
        let (lower, upper) = self.stream.size_hint();
        (lower.saturating_add(begun).min(1), upper.and_then(|upper| upper.checked_add(begun)))
    }
}
