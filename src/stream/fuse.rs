//! [`Fuse`]: a stream that is dropped when it ends, and not polled again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project::pin_project;

#[derive(Debug)]
#[pin_project]
pub(super) struct Fuse<S> {
    /// `None` once it has ended.
    #[pin]
    stream: Option<S>,
}

impl<S> Fuse<S> {
    pub(super) fn new(stream: S) -> Self {
        Fuse { stream: Some(stream) }
    }
}

impl<S: Stream> Stream for Fuse<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut stream = self.project().stream;
        let Some(open) = stream.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let item = ready!(open.poll_next(cx));
        if item.is_none() {
            stream.set(None);
        }
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.stream.as_ref().map_or((0, Some(0)), Stream::size_hint)
    }
}
