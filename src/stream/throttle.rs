//! [`Throttle`]: a stream whose items are some time apart.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use pin_project::pin_project;

use crate::clock;
use crate::future::{Sleep, sleep};

/// The stream that [`StreamExt::throttle`](super::StreamExt::throttle) returns.
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
#[derive(Debug)]
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
    #[track_caller]
    pub(super) fn new(stream: S, duration: Duration) -> Self {
        Throttle { stream, delay: sleep(duration), duration, waits: false }
    }

    /// Returns a reference to the inner stream.
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

    /// Returns a mutable reference to the inner stream. Items that are taken there are not throttled.
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

    /// Returns the inner stream. Nothing is lost: a throttled stream holds no items.
    ///
    /// ```
    /// # use hairspring::{Duration, StreamExt};
    /// let _inner = futures::stream::pending::<u8>().throttle(Duration::from_secs(1)).into_inner();
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
            ready!(Pin::new(&mut *this.delay).poll(cx));
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
