//! [`Throttle`]: keeps items apart.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use crate::clock;
use crate::future::Sleep;
use crate::timer::Timer;

/// The stream that [`StreamExt::throttle`](crate::StreamExt::throttle) returns.
///
/// # Examples
///
/// ```
/// use futures::StreamExt as _;
/// use hairspring::stream::Throttle;
/// use hairspring::{Duration, StreamExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut items: Throttle<_> = futures::stream::iter([1, 2]).throttle(Duration::from_secs(3600));
/// assert_eq!(items.next().await, Some(1));
/// assert_eq!(items.into_inner().next().await, Some(2));
/// # }
/// ```
#[must_use = "streams do nothing unless polled"]
#[pin_project]
pub struct Throttle<S> {
    #[pin]
    stream: S,
    delay: Sleep,
    duration: Duration,
    /// Whether the next item has to wait for the delay.
    waits: bool,
}

impl<S> Throttle<S> {
    pub(super) fn new(stream: S, delay: Sleep, duration: Duration) -> Self {
        Throttle { stream, delay, duration, waits: false }
    }

    /// Waits on `timer`, which the stream then keeps alive. If the next item has to wait, its whole time counts again,
    /// from this call.
    ///
    /// ```
    /// # use futures::StreamExt as _;
    /// # use hairspring::{Duration, StreamExt, Timer};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// let items = futures::stream::iter([1, 2]).throttle(Duration::from_secs(1)).with_timer(&timer);
    /// assert_eq!(items.take(2).collect::<Vec<_>>().await, [1, 2]);
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). Polling panics if it has to wait and the
    /// timer was shut down.
    #[track_caller]
    pub fn with_timer(self, timer: &Timer) -> Self {
        Throttle { delay: timer.unlimited("Throttle").limit(self.duration), ..self }
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let items = futures::stream::pending::<u8>().throttle(Duration::from_secs(1));
    /// let _inner: &futures::stream::Pending<u8> = items.get_ref();
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream. Items that you take from it are not limited.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let mut items = futures::stream::pending::<u8>().throttle(Duration::from_secs(1));
    /// let _inner: &mut futures::stream::Pending<u8> = items.get_mut();
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the inner stream. No item is lost: this holds none.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let items = futures::stream::pending::<u8>().throttle(Duration::from_secs(1));
    /// let _inner: futures::stream::Pending<u8> = items.into_inner();
    /// ```
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: Stream> Stream for Throttle<S> {
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.waits {
            // Not as a future: that would keep the task's waker until the reset.
            if let Err(error) = ready!(this.delay.poll_elapsed(cx, false)) {
                this.delay.panic_with(error)
            }
            *this.waits = false;
        }
        let item = ready!(this.stream.poll_next(cx));
        if item.is_some() && !this.duration.is_zero() {
            this.delay.reset_idle(clock::later(this.delay.now(), *this.duration));
            *this.waits = true;
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.size_hint()
    }
}

impl<S: fmt::Debug> fmt::Debug for Throttle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("stream", &self.stream)
            .field("duration", &self.duration)
            .finish_non_exhaustive()
    }
}
