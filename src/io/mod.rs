//! [`TimeoutStream`], a connection with time limits. Its errors contain a
//! [`LimitExceeded`](crate::error::LimitExceeded), which names the [`Limit`].
//!
//! This module needs no feature of this crate. `AsyncReadExt` and `AsyncWriteExt` need tokio's feature `io-util`.
//!
//! # Examples
//!
//! ```
//! use hairspring::{Duration, io::TimeoutStream};
//! use tokio::io::AsyncReadExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (connection, _silent_peer) = tokio::io::duplex(64);
//! let mut connection = TimeoutStream::new(connection).with_idle_timeout(Duration::from_millis(5));
//! let error = connection.read_u8().await.unwrap_err();
//! assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
//! assert_eq!(error.to_string(), "the idle timeout of 5ms has passed");
//! # }
//! ```

pub(crate) mod limits;

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::Instant;
use crate::timer::Timer;
use limits::{Limits, Side};

pub use limits::Limit;

/// A connection, or any other byte stream, with time limits. It starts without any.
///
/// ```
/// use hairspring::{Duration, Instant, io::TimeoutStream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let (connection, mut peer) = tokio::io::duplex(64);
/// let mut connection = TimeoutStream::new(connection)
///     .with_idle_timeout(Duration::from_secs(60))
///     .with_write_timeout(Duration::from_secs(10))
///     .with_deadline(Instant::now() + Duration::from_secs(3_600));
/// peer.write_all(b"ping").await?;
/// let mut request = [0; 4];
/// connection.read_exact(&mut request).await?;
/// assert_eq!(&request, b"ping");
///
/// connection.set_read_timeout(Some(Duration::from_millis(5)));
/// let error = connection.read_u8().await.unwrap_err(); // the peer says nothing
/// assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
/// # Ok(())
/// # }
/// ```
///
/// | limit | counts | for a peer that |
/// |---|---|---|
/// | [read timeout](Self::set_read_timeout) | while a read waits | owes an answer |
/// | [write timeout](Self::set_write_timeout) | while a write, flush or shutdown waits | does not read |
/// | [idle timeout](Self::set_idle_timeout) | while no byte moves in either direction | has gone |
/// | [deadline](Self::set_deadline) | always | sends a byte now and then |
///
/// Most servers need the last three. An HTTP server always has a read waiting, so a read timeout would cut off each
/// client that waits for a slow answer. Combine an idle timeout with a write timeout, because an idle timeout ends only
/// reads.
///
/// No limit ends early. Moving bytes does not touch the timer, and reads the clock only under an idle timeout or a
/// deadline.
///
/// # Errors
///
/// When a limit passes, an operation fails with [`ErrorKind::TimedOut`](io::ErrorKind::TimedOut) and a
/// [`LimitExceeded`](crate::error::LimitExceeded) as the inner error. The stream stays usable, and no byte is lost:
/// - After a read or write timeout, the next operation has the full time again.
/// - After an idle timeout, a read that has to wait fails immediately, until bytes move.
/// - After the deadline, each operation fails. A shutdown is still attempted, and fails only if it has to wait.
///
/// If the timer is at [`max_pending`](crate::timer::Builder::max_pending), where an operation that has completed may
/// still count, one that has to wait under a limit fails with
/// [`ErrorKind::QuotaExceeded`](io::ErrorKind::QuotaExceeded) and the timer's [`Error`](crate::error::Error) as the
/// inner error. On a thread that blocks in a runtime that was shut down, it fails with
/// [`ErrorKind::Other`](io::ErrorKind::Other). If a timer is [shut down](crate::Timer::shutdown), the limits continue
/// on the runtime's next timer, unless you chose the timer with [`with_timer`](Self::with_timer). Nothing panics,
/// unless this starts the process's first timer and the system refuses a thread or, on WebAssembly, outside a runtime.
///
/// # Cancel safety
///
/// Operations are as cancel safe as those of the inner stream. The limits cannot notice that a waiting operation was
/// dropped: its read or write timeout continues with the next operation in the same direction. To restart a timeout,
/// set it again. The idle timeout counts from the last byte, whatever was dropped.
#[pin_project]
#[doc(alias = "TimeoutReader")]
#[doc(alias = "TimeoutWriter")]
pub struct TimeoutStream<S> {
    #[pin]
    stream: S,
    limits: Limits,
}

impl<S> TimeoutStream<S> {
    /// Wraps a stream, without limits. This can be called anywhere; operations find the runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, io::TimeoutStream};
    /// let (connection, _peer) = tokio::io::duplex(64);
    /// let _connection = TimeoutStream::new(connection).with_read_timeout(Duration::from_secs(10));
    /// ```
    #[track_caller]
    pub fn new(stream: S) -> TimeoutStream<S> {
        TimeoutStream { stream, limits: Limits::new() }
    }

    /// Waits on `timer`, which the stream then keeps alive. Limits that are set stay: the deadline is the same instant,
    /// and the other limits count again, from this call. If an operation is waiting, its task is woken. The timer
    /// should be one of the runtime that polls the stream: see [`build`](crate::timer::Builder::build).
    ///
    /// After the timer's [`shutdown`](Timer::shutdown), an operation that has to wait under a limit fails with
    /// [`ErrorKind::Other`](io::ErrorKind::Other) and the timer's [`Error`](crate::error::Error) as the inner error.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, io::TimeoutStream};
    /// use tokio::io::AsyncReadExt;
    ///
    /// let timer = Timer::builder().name("connections").build().unwrap();
    /// let (connection, _silent_peer) = tokio::io::duplex(64);
    /// let connection = TimeoutStream::new(connection).with_read_timeout(Duration::from_secs(10));
    /// assert!(connection.with_timer(&timer).read_u8().await.is_err());
    /// assert_eq!(timer.metrics().fired(), 1);
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_timer(mut self, timer: &Timer) -> Self {
        self.limits.wait_on(timer);
        self
    }

    /// Limits how long each read may wait, from the first poll that has to wait. `None` means no limit; zero fails each
    /// read that has to wait.
    ///
    /// If a read is waiting, its task is woken and its time restarts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let mut connection = TimeoutStream::new(connection);
    /// connection.set_read_timeout(Some(Duration::from_secs(10)));
    /// connection.set_read_timeout(None); // no limit
    /// ```
    pub fn set_read_timeout(&mut self, timeout: Option<Duration>) {
        self.limits.set_timeout(Side::Read, timeout);
    }

    /// Sets the [read timeout](Self::set_read_timeout), for chaining.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let connection = TimeoutStream::new(connection).with_read_timeout(Duration::from_secs(10));
    /// assert_eq!(connection.read_timeout(), Some(Duration::from_secs(10)));
    /// ```
    #[must_use]
    pub fn with_read_timeout(mut self, timeout: Duration) -> Self {
        self.set_read_timeout(Some(timeout));
        self
    }

    /// Returns the read timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(TimeoutStream::new(()).read_timeout(), None);
    /// ```
    #[must_use]
    pub fn read_timeout(&self) -> Option<Duration> {
        self.limits.timeout(Side::Read)
    }

    /// Limits how long a write, a flush or a shutdown may wait, from the first poll that has to wait until any of these
    /// completes. `None` means no limit; zero fails each that has to wait.
    ///
    /// If one is waiting, its task is woken and its time restarts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let mut connection = TimeoutStream::new(connection);
    /// connection.set_write_timeout(Some(Duration::from_secs(10)));
    /// ```
    pub fn set_write_timeout(&mut self, timeout: Option<Duration>) {
        self.limits.set_timeout(Side::Write, timeout);
    }

    /// Sets the [write timeout](Self::set_write_timeout), for chaining.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let connection = TimeoutStream::new(connection).with_write_timeout(Duration::from_secs(10));
    /// assert_eq!(connection.write_timeout(), Some(Duration::from_secs(10)));
    /// ```
    #[must_use]
    pub fn with_write_timeout(mut self, timeout: Duration) -> Self {
        self.set_write_timeout(Some(timeout));
        self
    }

    /// Returns the write timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(TimeoutStream::new(()).write_timeout(), None);
    /// ```
    #[must_use]
    pub fn write_timeout(&self) -> Option<Duration> {
        self.limits.timeout(Side::Write)
    }

    /// Limits how long the connection may be idle, with no byte moving in either direction, before a waiting read
    /// fails. The time counts from this call or from the last byte that was read or written, whichever is later. `None`
    /// means no limit; zero fails each read that has to wait.
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let mut connection = TimeoutStream::new(connection);
    /// connection.set_idle_timeout(Some(Duration::from_secs(60)));
    /// ```
    ///
    /// A write that waits is idle, too, but no write fails because of this limit. A flush or a shutdown that had to
    /// wait has moved bytes once it succeeds. To count each byte, put the limits around the socket, below buffers and
    /// TLS.
    ///
    /// If a read is waiting, its task is woken.
    #[doc(alias = "keep_alive_timeout")]
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) {
        self.limits.set_idle(timeout);
    }

    /// Sets the [idle timeout](Self::set_idle_timeout), for chaining.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let connection = TimeoutStream::new(connection).with_idle_timeout(Duration::from_secs(60));
    /// assert_eq!(connection.idle_timeout(), Some(Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn with_idle_timeout(mut self, timeout: Duration) -> Self {
        self.set_idle_timeout(Some(timeout));
        self
    }

    /// Returns the idle timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(TimeoutStream::new(()).idle_timeout(), None);
    /// ```
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.limits.idle
    }

    /// Sets the deadline of the connection; `None` means no limit. After it, all operations except a shutdown fail,
    /// even if there are bytes to move, so a peer that sends a byte now and then cannot keep the connection open.
    ///
    /// If an operation is waiting, its task is woken.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, Instant, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let mut connection = TimeoutStream::new(connection);
    /// connection.set_deadline(Some(Instant::now() + Duration::from_secs(3_600)));
    /// ```
    pub fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.limits.set_deadline(deadline);
    }

    /// Sets the [deadline](Self::set_deadline), for chaining.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, Instant, io::TimeoutStream};
    /// # let (connection, _peer) = tokio::io::duplex(64);
    /// let last = Instant::now() + Duration::from_secs(3_600);
    /// let connection = TimeoutStream::new(connection).with_deadline(last);
    /// assert_eq!(connection.deadline(), Some(last));
    /// ```
    #[must_use]
    pub fn with_deadline(mut self, deadline: Instant) -> Self {
        self.set_deadline(Some(deadline));
        self
    }

    /// Returns the deadline of the connection.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(TimeoutStream::new(()).deadline(), None);
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.limits.deadline
    }

    /// Returns a reference to the inner stream.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(*TimeoutStream::new(7).get_ref(), 7);
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns a mutable reference to the inner stream. Bytes that move through it are not limited and do not count as
    /// activity.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// let mut stream = TimeoutStream::new(7);
    /// *stream.get_mut() += 1;
    /// assert_eq!(stream.into_inner(), 8);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Returns the inner stream, without the limits.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::io::TimeoutStream;
    /// assert_eq!(TimeoutStream::new(7).into_inner(), 7);
    /// ```
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead> AsyncRead for TimeoutStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.limits.check_deadline(Side::Read)?;
        let before = buf.filled().len();
        let polled = this.stream.poll_read(cx, buf);
        this.limits.after_poll(Side::Read, cx, polled, |()| buf.filled().len() > before)
    }
}

impl<S: AsyncBufRead> AsyncBufRead for TimeoutStream<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        this.limits.check_deadline(Side::Read)?;
        let polled = this.stream.poll_fill_buf(cx);
        this.limits.after_poll(Side::Read, cx, polled, |filled| !filled.is_empty())
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.project().stream.consume(amount);
    }
}

impl<S: AsyncWrite> AsyncWrite for TimeoutStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.limits.check_deadline(Side::Write)?;
        let polled = this.stream.poll_write(cx, buf);
        this.limits.after_poll(Side::Write, cx, polled, |&written| written > 0)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.limits.check_deadline(Side::Write)?;
        let polled = this.stream.poll_write_vectored(cx, bufs);
        this.limits.after_poll(Side::Write, cx, polled, |&written| written > 0)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.limits.check_deadline(Side::Write)?;
        let polled = this.stream.poll_flush(cx);
        this.limits.after_flush(cx, polled)
    }

    // Also after the deadline: a connection can always be closed.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.limits.note_budget();
        let polled = this.stream.poll_shutdown(cx);
        this.limits.after_flush(cx, polled)
    }
}

impl<S: fmt::Debug> fmt::Debug for TimeoutStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeoutStream")
            .field("stream", &self.stream)
            .field("read_timeout", &self.read_timeout())
            .field("write_timeout", &self.write_timeout())
            .field("idle_timeout", &self.idle_timeout())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
