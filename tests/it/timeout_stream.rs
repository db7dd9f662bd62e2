//! `io::TimeoutStream`: which limit passes, when, and what postpones it.

use std::io::{self, ErrorKind, IoSlice};
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, connection, ms, on_wake, poll, poll_read, poll_with, polled, settle};
use hairspring::io::{Limit, LimitExceeded, TimeoutStream};
use hairspring::{Duration, Instant, Timer, sleep};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex,
};

/// The limit and its length, as the error names them.
#[track_caller]
fn exceeded<T: std::fmt::Debug>(result: io::Result<T>) -> (Limit, Duration) {
    let error = result.expect_err("a limit should have passed");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let inner: &LimitExceeded = error.get_ref().unwrap().downcast_ref().unwrap();
    (inner.limit(), inner.length())
}

/// The limit and its length, as the error names them, and the time since `start`.
#[track_caller]
fn exceeded_at<T: std::fmt::Debug>(start: Instant, result: io::Result<T>) -> (Limit, Duration, Duration) {
    let (limit, length) = exceeded(result);
    (limit, length, start.elapsed())
}

/// The timer's error inside an I/O error.
fn timer_error(error: &io::Error) -> hairspring::error::Error {
    let inner: hairspring::error::Error = *error.get_ref().unwrap().downcast_ref().unwrap();
    assert_eq!(error.kind(), if inner.is_at_capacity() { ErrorKind::QuotaExceeded } else { ErrorKind::Other });
    inner
}

/// A stream whose operations give the answers that the test sets.
#[derive(Debug, Default)]
struct Fake {
    read: Answer,
    write: Answer,
    flush: Answer,
    shutdown: Answer,
    vectored: usize,
}

#[derive(Debug, Default, Clone, Copy)]
enum Answer {
    /// The operation is pending, and no waker is kept.
    #[default]
    Waits,
    /// The operation succeeds, and a read or write moves this many bytes.
    Done(usize),
    Fails(ErrorKind),
    Panics,
}

impl Answer {
    fn poll(self) -> Poll<io::Result<usize>> {
        match self {
            Answer::Waits => Poll::Pending,
            Answer::Done(count) => Poll::Ready(Ok(count)),
            Answer::Fails(kind) => Poll::Ready(Err(kind.into())),
            Answer::Panics => panic!("the inner stream panics"),
        }
    }
}

impl AsyncRead for Fake {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.read.poll().map_ok(|count| buf.put_slice(&vec![7; count]))
    }
}

impl AsyncWrite for Fake {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.write.poll()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.vectored += bufs.len();
        self.write.poll()
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush.poll().map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shutdown.poll().map_ok(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_times_out_loses_nothing() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_write_timeout(ms(30)).with_idle_timeout(ms(10));
    connection.write_all(b"1234").await.unwrap();
    let start = Instant::now();
    assert_eq!(exceeded_at(start, connection.write(b"5").await), (Limit::Write, ms(30), ms(30)));
    let mut bytes = [0; 5];
    peer.read_exact(&mut bytes[..4]).await.unwrap();
    connection.write_all(b"5").await.unwrap();
    peer.read_exact(&mut bytes[4..]).await.unwrap();
    assert_eq!(&bytes, b"12345");
}

#[tokio::test(start_paused = true)]
async fn flush_shutdown_and_vectored_writes_have_the_write_limit() {
    let mut stream = TimeoutStream::new(Fake::default())
        .with_write_timeout(ms(30))
        .with_read_timeout(ms(1))
        .with_idle_timeout(ms(1));
    let start = Instant::now();
    assert_eq!(exceeded_at(start, stream.flush().await), (Limit::Write, ms(30), ms(30)));
    assert_eq!(exceeded_at(start, stream.shutdown().await), (Limit::Write, ms(30), ms(60)));
    let bytes = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
    assert_eq!(exceeded_at(start, stream.write_vectored(&bytes).await), (Limit::Write, ms(30), ms(90)));
    let before = stream.get_ref().vectored;
    stream.get_mut().write = Answer::Done(3);
    assert_eq!(stream.write_vectored(&bytes).await.unwrap(), 3);
    assert_eq!(stream.get_ref().vectored, before + 2);
    assert!(stream.is_write_vectored());
    assert!(!TimeoutStream::new(tokio_test::io::Builder::new().build()).is_write_vectored());
}

/// If a peer reads slowly, the connection is not idle, however long the write takes.
#[tokio::test(start_paused = true)]
async fn a_write_in_progress_is_not_idle() {
    let mut stream = TimeoutStream::new(Fake::default()).with_idle_timeout(ms(30));
    let start = Instant::now();
    assert!(poll(&mut pin!(stream.flush())).is_pending());
    sleep(ms(290)).await;
    assert!(poll_read(&mut stream, Waker::noop()).is_pending());
    let registered = || Timer::current().metrics().registered();
    let before = registered();
    assert!((0..100).all(|_| poll_read(&mut stream, Waker::noop()).is_pending()));
    assert_eq!(registered(), before, "polls do not touch the timer");
    sleep(ms(15)).await;
    stream.get_mut().flush = Answer::Done(0);
    stream.flush().await.unwrap();
    assert_eq!(exceeded_at(start, stream.read_u8().await), (Limit::Idle, ms(30), ms(335)));
}

#[tokio::test(start_paused = true)]
async fn no_traffic_postpones_the_deadline() {
    let (connection, mut peer) = connection();
    let start = Instant::now();
    let mut connection = connection.with_read_timeout(ms(30)).with_idle_timeout(ms(30)).with_deadline(start + ms(205));
    let drip = tokio::spawn(async move {
        loop {
            sleep(ms(20)).await;
            if peer.write_all(b"x").await.is_err() {
                return;
            }
        }
    });
    for _ in 0..10 {
        connection.read_u8().await.unwrap();
    }
    assert_eq!(exceeded_at(start, connection.read_u8().await), (Limit::Deadline, ms(205), ms(205)));
    drop(connection);
    drip.await.unwrap();

    let full = Fake { read: Answer::Done(1), write: Answer::Done(1), flush: Answer::Done(0), ..Fake::default() };
    let mut flood = TimeoutStream::new(full).with_deadline(Instant::now() + ms(5));
    assert_eq!(flood.read_u8().await.unwrap(), 7);
    sleep(ms(5)).await;
    let results = [
        flood.read_u8().await.map(drop),
        flood.write_u8(1).await,
        flood.write_vectored(&[]).await.map(drop),
        flood.flush().await,
        flood.shutdown().await,
    ];
    assert_eq!(results.map(exceeded), [(Limit::Deadline, ms(5)); 5]);
    flood.get_mut().shutdown = Answer::Done(0);
    flood.shutdown().await.expect("this shutdown does not wait");
}

#[tokio::test(start_paused = true)]
async fn both_tasks_of_a_split_connection_are_woken() {
    let (connection, _peer) = connection();
    let start = Instant::now();
    let mut connection = connection.with_read_timeout(ms(30)).with_write_timeout(ms(50));
    connection.write_all(b"1234").await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(connection);
    let reading = tokio::spawn(async move { exceeded_at(start, reader.read_u8().await) });
    let writing = tokio::spawn(async move { exceeded_at(start, writer.write_u8(5).await) });
    assert_eq!(reading.await.unwrap(), (Limit::Read, ms(30), ms(30)));
    assert_eq!(writing.await.unwrap(), (Limit::Write, ms(50), ms(50)));
}

#[tokio::test(start_paused = true)]
async fn a_changed_limit_counts_from_the_change() {
    type Change = fn(&mut TimeoutStream<DuplexStream>);
    let changes: [Change; 3] = [
        |connection| connection.set_read_timeout(Some(ms(30))),
        |connection| connection.set_idle_timeout(Some(ms(30))),
        |connection| connection.set_deadline(Some(Instant::now() + ms(30))),
    ];
    for change in changes {
        for limit in [None, Some(ms(20)), Some(HOUR)] {
            let (mut connection, _peer) = connection();
            connection.set_read_timeout(limit);
            let (woken, waker) = Wakes::new();
            assert!(poll_read(&mut connection, &waker).is_pending());
            sleep(ms(10)).await;
            connection.set_read_timeout(None);
            assert_eq!(woken.count(), 1, "woken, to poll under the new limit");
            change(&mut connection);
            assert!(poll_read(&mut connection, &waker).is_pending());
            for (pause, wakes) in [(29, 1), (1, 2)] {
                sleep(ms(pause)).await;
                settle().await;
                assert_eq!(woken.count(), wakes);
            }
            assert_eq!(exceeded(connection.read_u8().await).1, ms(30));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn zero_and_past_limits_fail_operations_that_wait() {
    let (mut connection, mut peer) = connection();
    let (zero, start) = (Duration::ZERO, Instant::now());
    connection.set_deadline(Some(start - HOUR));
    assert_eq!(exceeded_at(start, connection.read_u8().await), (Limit::Deadline, zero, zero));
    connection.set_deadline(None);
    let mut connection = connection.with_read_timeout(zero).with_write_timeout(zero);
    assert_eq!(exceeded_at(start, connection.read_u8().await), (Limit::Read, zero, zero));
    connection.write_all(b"1234").await.unwrap();
    assert_eq!(exceeded_at(start, connection.write_u8(5).await), (Limit::Write, zero, zero));
    peer.write_u8(9).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 9);
    connection.set_read_timeout(None);
    connection.set_idle_timeout(Some(zero));
    assert_eq!(connection.idle_timeout(), Some(ms(1)));
    assert_eq!(exceeded_at(start, connection.read_u8().await), (Limit::Idle, ms(1), ms(1)));
}

/// With the shortest idle limit, a write in progress is checked once per millisecond.
#[tokio::test(start_paused = true)]
async fn the_shortest_idle_limit_does_not_spin() {
    let (connection, _peer) = connection();
    let (mut reader, mut writer) = tokio::io::split(connection.with_idle_timeout(Duration::ZERO));
    let writing = tokio::spawn(async move { writer.write_all(b"12345").await });
    let reading = tokio::spawn(async move { reader.read_u8().await });
    sleep(ms(50)).await;
    assert!(!reading.is_finished() && !writing.is_finished());
    let registered = Timer::current().metrics().registered();
    assert!(registered < 200, "{registered}");
}

#[tokio::test(start_paused = true)]
async fn the_streams_end_and_errors_are_passed_on() {
    let (connection, peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30)).with_idle_timeout(ms(30));
    drop(peer);
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 0);

    let fails = Answer::Fails(ErrorKind::TimedOut); // as a system reports it
    let fake = Fake { read: fails, write: fails, ..Fake::default() };
    let mut stream =
        TimeoutStream::new(fake).with_read_timeout(ms(30)).with_idle_timeout(ms(30)).with_write_timeout(ms(30));
    for error in [stream.read_u8().await.unwrap_err(), stream.write_u8(1).await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.get_ref().is_none(), "not one of our limits");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_hold_after_the_inner_stream_panicked() {
    let mut stream = TimeoutStream::new(Fake::default()).with_read_timeout(ms(30));
    let start = Instant::now();
    assert!(poll_read(&mut stream, Waker::noop()).is_pending());
    stream.get_mut().read = Answer::Panics;
    assert!(catch_unwind(AssertUnwindSafe(|| poll_read(&mut stream, Waker::noop()))).is_err());
    stream.get_mut().read = Answer::Waits;
    assert_eq!(exceeded_at(start, stream.read_u8().await), (Limit::Read, ms(30), ms(30)));
    assert_eq!(Timer::current().metrics().pending(), 0);
}

#[tokio::test]
async fn a_full_timer_is_an_error_not_a_panic() {
    let timer = Timer::builder().capacity(1).install().unwrap();
    let other = polled(timer.try_sleep(HOUR));
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(HOUR);
    assert!(timer_error(&connection.read_u8().await.unwrap_err()).is_at_capacity());
    peer.write_u8(1).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 1, "a read that does not wait needs no timer");
    drop(other);
    assert!(poll(&mut pin!(connection.read_u8())).is_pending(), "pending, now that there is room");
}

#[cfg(feature = "test-util")]
#[tokio::test(start_paused = true)]
async fn limits_that_are_set_hold_on_a_timer_chosen_later() {
    type Set = fn(&mut TimeoutStream<DuplexStream>);
    let limits: [(Limit, Set); 3] = [
        (Limit::Read, |connection| connection.set_read_timeout(Some(ms(100)))),
        (Limit::Idle, |connection| connection.set_idle_timeout(Some(ms(100)))),
        (Limit::Deadline, |connection| connection.set_deadline(Some(Instant::now() + ms(160)))),
    ];
    for (limit, set) in limits {
        let (mut connection, _peer) = connection();
        set(&mut connection);
        let (woken, waker) = Wakes::new();
        assert!(poll_read(&mut connection, &waker).is_pending());
        sleep(ms(60)).await;
        let clock = hairspring::test_util::ManualClock::new();
        let mut connection = connection.with_timer(&Timer::builder().clock(&clock).build().unwrap());
        assert_eq!(woken.count(), 1, "woken, to poll on the new timer");
        sleep(HOUR).await;
        for (after, wakes) in [(0, 1), (99, 1), (1, 2)] {
            clock.advance(ms(after));
            assert_eq!(woken.count(), wakes, "{limit:?}");
            match poll_read(&mut connection, &waker) {
                Poll::Pending => assert_eq!(wakes, 1, "{limit:?} is late"),
                Poll::Ready(read) => assert_eq!((exceeded(read).0, wakes), (limit, 2)),
            }
        }
    }
    let timer = Timer::builder().build().unwrap();
    let (mut connection, _peer) = connection();
    connection = connection.with_timer(&timer).with_write_timeout(ms(30));
    assert_eq!(exceeded(connection.write_all(b"12345").await), (Limit::Write, ms(30)));
    assert_eq!(timer.metrics().fired(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_waker_is_woken() {
    let (connection, _peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30));
    let [(before, old), (after, new)] = [Wakes::new(), Wakes::new()];
    assert!(poll_with(&mut pin!(connection.read_u8()), &old).is_pending());
    let mut read = pin!(connection.read_u8());
    assert!(poll_with(&mut read, &new).is_pending());
    sleep(ms(30)).await;
    settle().await;
    assert_eq!((before.count(), after.count()), (0, 1));
    drop(old);
    assert_eq!(Arc::strong_count(&before), 1, "the old waker was dropped");
}

/// A bug that this crate had: if the reader's waker panicked, the writer was not woken.
#[tokio::test(start_paused = true)]
async fn a_panicking_waker_does_not_keep_the_other_task_waiting() {
    let mut stream = TimeoutStream::new(Fake::default()).with_deadline(Instant::now() + HOUR);
    assert!(poll_read(&mut stream, &on_wake(|| panic!("on purpose"))).is_pending());
    let (woken, waker) = Wakes::new();
    assert!(poll_with(&mut pin!(stream.write_u8(1)), &waker).is_pending());
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
    struct Pinned(Fake, PhantomPinned);

    impl AsyncRead for Pinned {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.as_ref().get_ref().0.read.poll().map_ok(drop)
        }
    }

    let mut stream = pin!(TimeoutStream::new(Pinned(Fake::default(), PhantomPinned)).with_read_timeout(ms(30)));
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Read, ms(30)));
    let _inner: Pin<&mut Pinned> = stream.as_mut().get_pin_mut();
}
