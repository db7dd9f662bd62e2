//! `io::TimeoutStream`: what its fuzzer leaves out, which tests which limit passes, when, and what postpones it.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::marker::PhantomPinned;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use crate::common::{HOUR, Wakes, connection, ms, on_both_flavours, on_wake, poll, poll_read, poll_with, polled};
use hairspring::error::LimitExceeded;
use hairspring::io::{Limit, TimeoutStream};
use hairspring::{Duration, Instant, Timer, sleep, timeout};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter, ReadBuf, duplex,
};
use tokio::runtime::Builder;

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

const IDLE: Duration = Duration::from_secs(60);

/// Fails a test whose limit never passes, which would wait for ever.
async fn within_an_hour<T>(future: impl Future<Output = T>) -> T {
    timeout(HOUR, future).await.expect("the limit did not pass")
}

/// A bug that this crate had: a write, flush or shutdown that was dropped while it waited kept the idle limit away for
/// ever, and so did one that was tried again and again.
#[tokio::test(start_paused = true)]
async fn the_idle_limit_counts_from_the_last_byte_whatever_was_dropped() {
    for dropped in ["read", "write", "flush", "shutdown"] {
        // More fits into neither the peer's buffer nor ours.
        let (ours, _gone) = duplex(4);
        let mut connection = TimeoutStream::new(BufWriter::with_capacity(8, ours)).with_idle_timeout(IDLE);
        let start = Instant::now();
        connection.write_all(b"12345").await.unwrap();
        for _ in 0..3 {
            let waits = match dropped {
                "read" => timeout(ms(5_000), connection.read_u8()).await.is_err(),
                "write" => timeout(ms(5_000), connection.write_all(b"123456789")).await.is_err(),
                "flush" => timeout(ms(5_000), connection.flush()).await.is_err(),
                _ => timeout(ms(5_000), connection.shutdown()).await.is_err(),
            };
            assert!(waits, "{dropped}");
            sleep(ms(10_000)).await;
        }
        assert_eq!(exceeded(within_an_hour(connection.read_u8()).await), (Limit::Idle, IDLE), "{dropped}");
        assert_eq!(start.elapsed(), IDLE, "{dropped}");
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_a_flush_has_moved_are_no_idle_time() {
    let (ours, mut peer) = duplex(4);
    let mut connection = TimeoutStream::new(BufWriter::with_capacity(8, ours)).with_idle_timeout(IDLE);
    connection.write_all(b"12345").await.unwrap();
    let reads_late = async {
        sleep(IDLE / 2).await;
        peer.read_exact(&mut [0; 5]).await
    };
    let (flushed, read) = futures::join!(connection.flush(), reads_late);
    assert!(flushed.is_ok() && read.is_ok());
    let start = Instant::now();
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, IDLE));
    assert_eq!(start.elapsed(), IDLE);
}

/// A bug that this crate had: while a write waited for a peer that had gone, the reads beside it waited, too.
#[tokio::test(start_paused = true)]
async fn a_write_that_waits_is_idle() {
    let (connection, peer) = connection();
    let (mut reader, mut writer) = tokio::io::split(connection.with_idle_timeout(IDLE));
    let start = Instant::now();
    let mut writing = tokio::spawn(async move { writer.write_all(b"12345").await });
    assert_eq!(exceeded(within_an_hour(reader.read_u8()).await), (Limit::Idle, IDLE));
    assert_eq!(start.elapsed(), IDLE);
    assert!(poll(&mut writing).is_pending(), "a write does not fail because of the idle limit");
    drop(peer);
    assert_eq!(writing.await.unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);

    let [(ours, _gone), (theirs, mut sends)] = [duplex(4), duplex(64)];
    let mut ours = TimeoutStream::new(ours).with_idle_timeout(IDLE);
    sends.write_all(&[0; 64]).await.unwrap();
    let start = Instant::now();
    let copied = within_an_hour(tokio::io::copy_bidirectional(&mut ours, &mut { theirs })).await;
    assert_eq!(exceeded(copied), (Limit::Idle, IDLE));
    assert_eq!(start.elapsed(), IDLE);
}

#[test]
fn a_connection_whose_write_was_dropped_ends_in_real_time() {
    on_both_flavours(|| async {
        let (connection, _gone) = connection();
        let mut connection = connection.with_idle_timeout(ms(20));
        assert!(timeout(ms(5), connection.write_all(b"12345")).await.is_err());
        assert_eq!(exceeded(within_an_hour(connection.read_u8()).await), (Limit::Idle, ms(20)));
    });
}

/// A bug that this crate had: if no operation had to wait, and nothing else used the timer, the deadline never came.
#[test]
fn a_deadline_ends_operations_that_never_have_to_wait() {
    let fails = async |after_a_while: bool| {
        let (mut connection, mut peer) = connection();
        peer.write_u8(7).await.unwrap();
        connection.set_deadline(Some(Instant::now() + if after_a_while { HOUR } else { Duration::ZERO }));
        if after_a_while {
            connection.write_u8(1).await.unwrap();
            tokio::time::advance(2 * HOUR).await;
        }
        assert_eq!(exceeded(connection.read_u8().await).0, Limit::Deadline);
        assert_eq!(exceeded(connection.write_u8(2).await).0, Limit::Deadline);
        connection.shutdown().await.unwrap();
    };
    let paused = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    paused.block_on(fails(true));
    Builder::new_current_thread().build().unwrap().block_on(fails(false));
    futures::executor::block_on(fails(false));
}

#[tokio::test(start_paused = true)]
async fn an_idle_limit_of_zero_fails_each_read_that_has_to_wait() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_idle_timeout(Duration::ZERO);
    peer.write_u8(7).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 7);
    let start = Instant::now();
    for _ in 0..3 {
        assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, Duration::ZERO));
    }
    assert!(start.elapsed() <= ms(1), "{:?}", start.elapsed());
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
