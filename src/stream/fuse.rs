//! [`Fuse`]: a stream that is not polled after its end. [`inner_stream`]: the methods that give access to the inner
//! stream of an adapter.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project::pin_project;

#[derive(Debug)]
#[pin_project]
pub(super) struct Fuse<S> {
    #[pin]
    pub(super) inner: S,
    has_ended: bool,
}

impl<S> Fuse<S> {
    pub(super) fn new(inner: S) -> Self {
        Fuse { inner, has_ended: false }
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

/// Implements `get_ref`, `get_mut` and `into_inner` for an adapter: its inner stream is in a field, the method `$made`
/// of `StreamExt` creates it, and `$lost` says what is lost with it.
macro_rules! inner_stream {
    ($adapter:ident<S$(: $bound:ident)?>, $($field:ident).+, $made:literal, $lost:literal) => {
        impl<S$(: $bound)?> $adapter<S> {
            /// Returns a reference to the inner stream.
            ///
            /// # Examples
            ///
            /// ```
            /// # use hairspring::{Duration, StreamExt, interval};
            #[doc = concat!("let items = futures::stream::pending::<u8>().", $made, ";")]
            /// let _inner: &futures::stream::Pending<u8> = items.get_ref();
            /// ```
            #[must_use]
            pub fn get_ref(&self) -> &S {
                &self.$($field).+
            }

            /// Returns a mutable reference to the inner stream. Items that you take from it are not limited.
            ///
            /// # Examples
            ///
            /// ```
            /// # use hairspring::{Duration, StreamExt, interval};
            #[doc = concat!("let mut items = futures::stream::pending::<u8>().", $made, ";")]
            /// let _inner: &mut futures::stream::Pending<u8> = items.get_mut();
            /// ```
            #[must_use]
            pub fn get_mut(&mut self) -> &mut S {
                &mut self.$($field).+
            }

            #[doc = concat!("Returns the inner stream. ", $lost)]
            ///
            /// # Examples
            ///
            /// ```
            /// # use hairspring::{Duration, StreamExt, interval};
            #[doc = concat!("let items = futures::stream::pending::<u8>().", $made, ";")]
            /// let _inner: futures::stream::Pending<u8> = items.into_inner();
            /// ```
            #[must_use]
            pub fn into_inner(self) -> S {
                self.$($field).+
            }
        }
    };
}

pub(super) use inner_stream;
