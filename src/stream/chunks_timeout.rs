//! [`ChunksTimeout`]: batches items.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use super::AT_ONCE;
use super::fuse::{Fuse, inner_stream};
use crate::clock;
use crate::future::Sleep;
use crate::timer::Timer;

/// The maximum number of items to reserve room for.
const MAX_PREALLOCATED: usize = 1024;

/// The stream that [`StreamExt::chunks_timeout`](crate::StreamExt::chunks_timeout) returns.
///
/// # Examples
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::ChunksTimeout;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut chunks: ChunksTimeout<_> = futures::stream::iter([1, 2]).chunks_timeout(10, Duration::from_secs(1));
/// assert_eq!((chunks.next().await, chunks.next().await), (Some(vec![1, 2]), None));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[derive(Debug)]
#[pin_project]
pub struct ChunksTimeout<S: Stream> {
    #[pin]
    stream: Fuse<S>,
    /// Ends when the batch is to be yielded, once it has an item.
    delay: Sleep,
    duration: Duration,
    items: Vec<S::Item>,
    max_size: usize,
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, delay: Sleep, duration: Duration) -> Self {
        assert!(max_size > 0, "`max_size` must be non-zero.");
        ChunksTimeout { stream: Fuse::new(stream), delay, duration, items: Vec::new(), max_size }
    }

    /// Waits on `timer`, which the stream then keeps alive. If a batch has begun, its whole time counts again, from
    /// this call.
    ///
    /// # Panics
    ///
    /// Panics if the timer has a [capacity](crate::timer::Builder::capacity). Polling panics if it has to wait and the
    /// timer was shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt, Timer};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let rows = futures::stream::iter(1..=3).chain(futures::stream::pending());
    /// let mut batches = rows.chunks_timeout(10, Duration::from_secs(1)).with_timer(&timer);
    /// assert_eq!(batches.next().await, Some(vec![1, 2, 3]));
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(self, timer: &Timer) -> Self {
        ChunksTimeout { delay: timer.unlimited("ChunksTimeout").sleep(self.duration), ..self }
    }

    /// Takes the items that were collected and not yet yielded.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let items = futures::stream::iter([1, 2]).chain(futures::stream::pending());
    /// let mut chunks = std::pin::pin!(items.chunks_timeout(3, Duration::from_secs(3600)));
    /// assert!(futures::poll!(chunks.next()).is_pending());
    /// assert_eq!(chunks.into_remainder(), [1, 2]);
    /// # }
    /// ```
    #[must_use]
    pub fn into_remainder(self: Pin<&mut Self>) -> Vec<S::Item> {
        mem::take(self.project().items)
    }
}

inner_stream!(
    ChunksTimeout<S: Stream>,
    stream.inner,
    "chunks_timeout(10, Duration::from_secs(1))",
    "Drops the items that were collected and not yet yielded. \
     To keep them, call [`into_remainder`](ChunksTimeout::into_remainder) first."
);

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        let mut this = self.project();
        let mut taken = 0;
        while taken < AT_ONCE {
            let Poll::Ready(item) = this.stream.as_mut().poll_next(cx) else { break };
            let Some(item) = item else {
                let rest = mem::take(this.items);
                return Poll::Ready((!rest.is_empty()).then_some(rest));
            };
            if this.items.is_empty() {
                this.delay.reset_idle(clock::later(this.delay.now(), *this.duration));
                this.items.reserve_exact(MAX_PREALLOCATED.min(*this.max_size));
            }
            this.items.push(item);
            taken += 1;
            if this.items.len() >= *this.max_size {
                return Poll::Ready(Some(mem::take(this.items)));
            }
        }
        if !this.items.is_empty() && Pin::new(this.delay).poll(cx).is_ready() {
            return Poll::Ready(Some(mem::take(this.items)));
        }
        if taken == AT_ONCE {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let begun = usize::from(!self.items.is_empty());
        let (lower, upper) = self.stream.size_hint();
        ((lower / self.max_size).saturating_add(begun), upper.and_then(|upper| upper.checked_add(begun)))
    }
}
