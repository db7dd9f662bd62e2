//! `io::TimeoutStream`: what its fuzzer leaves out, which tests which limit passes, when, and what postpones it.

use std::io::{self, ErrorKind, IoSlice};
use std::marker::PhantomPinned;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::common::{HOUR, Wakes, connection, ms, on_wake, poll, poll_read, poll_with, polled};
use hairspring::error::LimitExceeded;
use hairspring::io::{Limit, TimeoutStream};
use hairspring::{Duration, Instant, Timer, timeout};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf, duplex};

/// The limit and its length, as the error names them.
#[track_caller]
fn exceeded<T: std::fmt::Debug>(result: io::Result<T>) -> (Limit, Duration) {
    let error = result.expect_err("a limit should have passed");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let inner: &LimitExceeded = error.get_ref().unwrap().downcast_ref().unwrap();
    (inner.limit(), inner.length())
}

/// The timer's error inside an I/O error.
fn timer_error(error: &io::Error) -> hairspring::error::Error {
    let inner: hairspring::error::Error = *error.get_ref().unwrap().downcast_ref().unwrap();
    assert_eq!(error.kind(), if inner.is_at_capacity() { ErrorKind::QuotaExceeded } else { ErrorKind::Other });
    inner
}

#[tokio::test]
async fn a_vectored_write_is_one_of_the_inner_stream() {
    let (mut stream, mut peer) = connection();
    assert_eq!(stream.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b"c")]).await.unwrap(), 3);
    let mut bytes = [0; 3];
    peer.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"abc");
    assert!(stream.is_write_vectored());
    assert!(!TimeoutStream::new(tokio_test::io::Builder::new().build()).is_write_vectored());
}

/// With the shortest idle limit, a write in progress is checked once per millisecond.
#[tokio::test(start_paused = true)]
async fn the_shortest_idle_limit_does_not_spin() {
    let (connection, _peer) = connection();
    let (mut reader, mut writer) = tokio::io::split(connection.with_idle_timeout(Duration::ZERO));
    let writing = tokio::spawn(async move { writer.write_all(b"12345").await });
    let mut reading = pin!(reader.read_u8());
    assert!(timeout(ms(50), &mut reading).await.is_err() && !writing.is_finished(), "a write in progress is not idle");
    let registered = || Timer::current().metrics().registered();
    let before = registered();
    assert!(before < 200, "{before}");
    assert!((0..100).all(|_| poll(&mut reading).is_pending()));
    assert_eq!(registered(), before, "polls do not touch the timer");
}

#[tokio::test]
async fn a_full_timer_is_an_error_not_a_panic() {
    let timer = Timer::builder().max_pending(1).build().unwrap();
    let other = polled(timer.try_sleep(HOUR));
    let (connection, mut peer) = connection();
    let mut connection = connection.with_timer(&timer).with_read_timeout(HOUR);
    assert!(timer_error(&connection.read_u8().await.unwrap_err()).is_at_capacity());
    peer.write_u8(1).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 1, "a read that does not wait needs no timer");
    drop(other);
    assert!(poll(&mut pin!(connection.read_u8())).is_pending(), "pending, now that there is room");
}

/// A bug that this crate had: if the reader's waker panicked, the writer was not woken.
#[tokio::test(start_paused = true)]
async fn a_panicking_waker_does_not_keep_the_other_task_waiting() {
    let (stream, peer) = connection();
    std::mem::forget(peer); // Its drop would call the reader's waker, too.
    let mut stream = stream.with_deadline(Instant::now() + HOUR);
    stream.write_all(b"1234").await.unwrap();
    assert!(poll_read(&mut stream, &on_wake(|| panic!("on purpose"))).is_pending());
    let (woken, waker) = Wakes::new();
    assert!(poll_with(&mut pin!(stream.write_u8(5)), &waker).is_pending());
    stream.set_deadline(Some(Instant::now()));
    assert_eq!(woken.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn buffered_reads_have_limits_too() {
    let (ours, mut peer) = duplex(64);
    let mut lines = TimeoutStream::new(BufReader::new(ours)).with_read_timeout(ms(30)).with_idle_timeout(ms(50));
    peer.write_all(b"one\nt").await.unwrap();
    let mut line = String::new();
    lines.read_line(&mut line).await.unwrap();
    assert_eq!(line, "one\n");
    let start = Instant::now();
    assert_eq!(lines.fill_buf().await.unwrap(), b"t");
    lines.consume(1);
    assert_eq!(exceeded(lines.fill_buf().await), (Limit::Read, ms(30)));
    assert_eq!(exceeded(lines.fill_buf().await), (Limit::Idle, ms(50)));
    assert_eq!(start.elapsed(), ms(50));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_must_not_move_is_pinned() {
    struct Pinned(PhantomPinned);

    impl AsyncRead for Pinned {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    let mut stream = pin!(TimeoutStream::new(Pinned(PhantomPinned)).with_read_timeout(ms(30)));
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Read, ms(30)));
}
