//! [`ChunksTimeout`]: batches items.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use super::latest::Latest;
use crate::future::Sleep;
use crate::timer::Timer;
use crate::wheel::Tick;

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
#[pin_project]
pub struct ChunksTimeout<S: Stream> {
    #[pin]
    batch: Latest<S, Vec<S::Item>>,
    duration: Duration,
    max_size: usize,
}

impl<S: Stream> ChunksTimeout<S> {
    #[track_caller]
    pub(super) fn new(stream: S, max_size: usize, delay: Sleep, duration: Duration) -> Self {
        assert!(max_size > 0, "`max_size` must be non-zero.");
        // Only the batch's own time ends the wait.
        ChunksTimeout { batch: Latest::new(stream, delay, Duration::MAX), duration, max_size }
    }

    /// Waits on `timer`, which the stream then keeps alive. If a batch has begun, its whole time counts again, from
    /// this call.
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
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). Polling panics if it has to wait and the
    /// timer was shut down.
    #[track_caller]
    pub fn with_timer(mut self, timer: &Timer) -> Self {
        self.batch.wait_on(timer.unlimited("ChunksTimeout"), self.duration);
        self
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
        let batch = self.project().batch.project();
        batch.limit.end_at(Tick::MAX);
        batch.last.take().unwrap_or_default()
    }
}

impl<S: Stream> Stream for ChunksTimeout<S> {
    type Item = Vec<S::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Vec<S::Item>>> {
        let this = self.project();
        let max_size = *this.max_size;
        let add = |batch: &mut Option<Vec<_>>, item| {
            let items = batch.get_or_insert_with(|| Vec::with_capacity(MAX_PREALLOCATED.min(max_size)));
            items.push(item);
            items.len() >= max_size
        };
        this.batch.poll_latest(cx, *this.duration, add)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let lower = self.batch.stream.size_hint().0 / self.max_size;
        (lower.saturating_add(usize::from(self.batch.last.is_some())), self.batch.size_hint().1)
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for ChunksTimeout<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunksTimeout")
            .field("stream", &self.batch.stream)
            .field("max_size", &self.max_size)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
