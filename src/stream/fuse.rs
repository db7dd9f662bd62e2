//! [`Fuse`]: a stream that is not polled after its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project::pin_project;

#[pin_project]
pub(super) struct Fuse<S> {
    #[pin]
    inner: S,
    has_ended: bool,
}

impl<S> Fuse<S> {
    pub(super) fn new(inner: S) -> Self {
        Fuse { inner, has_ended: false }
    }
}

impl<S: fmt::Debug> fmt::Debug for Fuse<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<S: Stream> Stream for Fuse<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.has_ended {
            return Poll::Ready(None);
        }
        let item = ready!(this.inner.poll_next(cx));
        *this.has_ended = item.is_none();
        Poll::Ready(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.has_ended { (0, Some(0)) } else { self.inner.size_hint() }
    }
}
