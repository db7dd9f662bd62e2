//! [`IntervalStream`]: wraps an interval, as tokio-stream's type of this name does.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;

use crate::clock::Instant;
use crate::future::Interval;

/// A stream of the ticks of an [`Interval`], like `tokio_stream::wrappers::IntervalStream`. An [`Interval`] of this
/// crate is a stream itself; this type lets programs that wrap tokio's interval compile unchanged.
///
/// # Examples
///
/// ```
/// use futures::StreamExt;
/// use hairspring::stream::IntervalStream;
/// use hairspring::{Duration, interval};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let period = Duration::from_millis(1);
/// let mut ticks = IntervalStream::new(interval(period));
/// let first = ticks.next().await.unwrap();
/// assert_eq!(ticks.next().await, Some(first + period));
/// assert_eq!(ticks.into_inner().period(), period);
/// # }
/// ```
#[derive(Debug)]
pub struct IntervalStream {
    interval: Interval,
}

impl IntervalStream {
    /// Wraps an interval.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, interval, stream::IntervalStream};
    /// let _ticks = IntervalStream::new(interval(Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub fn new(interval: Interval) -> Self {
        IntervalStream { interval }
    }

    /// Returns the interval.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, interval, stream::IntervalStream};
    /// let ticks = IntervalStream::new(interval(Duration::from_secs(1)));
    /// assert_eq!(ticks.into_inner().period(), Duration::from_secs(1));
    /// ```
    #[must_use]
    pub fn into_inner(self) -> Interval {
        self.interval
    }
}

impl Stream for IntervalStream {
    type Item = Instant;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().interval.poll_tick(cx).map(Some)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}

impl FusedStream for IntervalStream {
    fn is_terminated(&self) -> bool {
        false
    }
}

impl AsRef<Interval> for IntervalStream {
    fn as_ref(&self) -> &Interval {
        &self.interval
    }
}

impl AsMut<Interval> for IntervalStream {
    fn as_mut(&mut self) -> &mut Interval {
        &mut self.interval
    }
}
