//! `io::TimeoutStream`: which limit passes when, and what puts it off.

use std::io::{self, ErrorKind, IoSlice};
use std::marker::PhantomPinned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, both_flavours, longest, ms, must_end, poll, poll_with, settle};
use hairspring::io::{Limit, LimitExceeded, TimeoutStream};
use hairspring::{Duration, Instant, Timer, sleep};
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadBuf, duplex,
};

/// The limit that an error names, with its length.
#[track_caller]
fn exceeded<T: std::fmt::Debug>(result: io::Result<T>) -> (Limit, Duration) {
    let error = result.expect_err("a limit should have passed");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let inner: &LimitExceeded = error.get_ref().unwrap().downcast_ref().unwrap();
    (inner.limit(), inner.length())
}

/// A connection whose buffers hold 4 bytes in each direction, and its peer.
fn connection() -> (TimeoutStream<DuplexStream>, DuplexStream) {
    let (ours, peers) = duplex(4);
    (TimeoutStream::new(ours), peers)
}

/// A stream of which each operation does what the test says.
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
    /// It waits, and nobody is woken.
    #[default]
    Waits,
    /// It is done, with so many bytes if it moves any.
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
async fn a_read_fails_at_its_limit_and_the_next_has_the_whole_time_again() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30));
    for _ in 0..2 {
        let start = Instant::now();
        assert_eq!(exceeded(connection.read_u8().await), (Limit::Read, ms(30)));
        assert_eq!(start.elapsed(), ms(30));
    }
    // What came too late is read all the same.
    peer.write_all(b"late").await.unwrap();
    let mut bytes = [0; 4];
    connection.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"late");
}

#[tokio::test(start_paused = true)]
async fn the_read_limit_counts_only_while_a_read_waits() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30));
    for _ in 0..3 {
        sleep(HOUR).await;
        let mut read = pin!(connection.read_u8());
        assert!(poll(&mut read).is_pending());
        sleep(ms(29)).await;
        peer.write_all(b"x").await.unwrap();
        assert_eq!(read.await.unwrap(), b'x');
    }
    sleep(HOUR).await;
    let start = Instant::now();
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Read, ms(30)));
    assert_eq!(start.elapsed(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_takes_fails_at_its_limit_and_loses_nothing() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_write_timeout(ms(30)).with_idle_timeout(ms(10));
    connection.write_all(b"1234").await.unwrap();
    let start = Instant::now();
    assert_eq!(exceeded(connection.write(b"5").await), (Limit::Write, ms(30)));
    assert_eq!(start.elapsed(), ms(30));
    let mut bytes = [0; 5];
    peer.read_exact(&mut bytes[..4]).await.unwrap();
    connection.write_all(b"5").await.unwrap();
    peer.read_exact(&mut bytes[4..]).await.unwrap();
    assert_eq!(&bytes, b"12345");
}

#[tokio::test(start_paused = true)]
async fn a_flush_and_a_shutdown_are_limited_as_a_write_is() {
    let mut stream = TimeoutStream::new(Fake::default())
        .with_write_timeout(ms(30))
        .with_read_timeout(ms(1))
        .with_idle_timeout(ms(1));
    let start = Instant::now();
    assert_eq!(exceeded(stream.flush().await), (Limit::Write, ms(30)));
    assert_eq!(exceeded(stream.shutdown().await), (Limit::Write, ms(30)));
    assert_eq!(exceeded(stream.write_vectored(&[IoSlice::new(b"x")]).await), (Limit::Write, ms(30)));
    assert_eq!(start.elapsed(), ms(90));
}

#[tokio::test(start_paused = true)]
async fn silence_is_that_of_both_directions_and_counts_from_the_last_byte() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_idle_timeout(ms(30));
    let start = Instant::now();
    for step in 0..10 {
        let mut read = pin!(connection.read_u8());
        assert!(poll(&mut read).is_pending(), "no byte has come, and no limit has passed");
        sleep(ms(20)).await;
        assert!(poll(&mut read).is_pending());
        // A byte each 20 ms, in one direction and then in the other.
        if step % 2 == 0 {
            peer.write_all(b"x").await.unwrap();
            assert_eq!(read.await.unwrap(), b'x');
        } else {
            connection.write_all(b"y").await.unwrap();
            assert_eq!(peer.read_u8().await.unwrap(), b'y');
        }
    }
    assert_eq!(start.elapsed(), ms(200));
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(230));
    // The silence goes on, until a byte ends it.
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(230));
    connection.write_all(b"z").await.unwrap();
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(260));
}

#[tokio::test(start_paused = true)]
async fn flushes_and_empty_reads_are_no_bytes() {
    let fake = Fake { flush: Answer::Done(0), ..Fake::default() };
    let mut stream = TimeoutStream::new(fake).with_idle_timeout(ms(30));
    let start = Instant::now();
    sleep(ms(20)).await;
    stream.flush().await.unwrap();
    assert_eq!(stream.read(&mut []).await.unwrap_or(0), 0);
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(30));
}

/// A peer that reads slowly is not idle, however long one write takes.
#[tokio::test(start_paused = true)]
async fn a_write_in_progress_is_not_idle_and_silence_counts_from_its_end() {
    let (connection, mut peer) = connection();
    let (mut reader, mut writer) = tokio::io::split(connection.with_idle_timeout(ms(30)));
    let start = Instant::now();
    let reading = tokio::spawn(async move { (exceeded(reader.read_u8().await), start.elapsed()) });
    let writing = tokio::spawn(async move { writer.write_all(b"12345").await.map(|()| start.elapsed()) });
    sleep(ms(305)).await;
    assert!(!reading.is_finished());
    peer.read_exact(&mut [0; 5]).await.unwrap();
    assert_eq!(writing.await.unwrap().unwrap(), ms(305));
    assert_eq!(reading.await.unwrap(), ((Limit::Idle, ms(30)), ms(335)));
}

#[tokio::test(start_paused = true)]
async fn a_flush_in_progress_is_not_idle_either() {
    let mut stream = TimeoutStream::new(Fake::default()).with_idle_timeout(ms(30));
    let start = Instant::now();
    assert!(poll(&mut pin!(stream.flush())).is_pending());
    sleep(ms(290)).await;
    assert!(poll_read(&mut stream, Waker::noop()).is_pending());
    // However often a task polls meanwhile, it does not touch the timer.
    let before = Timer::current().metrics().registered();
    assert!((0..100).all(|_| poll_read(&mut stream, Waker::noop()).is_pending()));
    assert_eq!(Timer::current().metrics().registered(), before);
    sleep(ms(15)).await;
    stream.get_mut().flush = Answer::Done(0);
    stream.flush().await.unwrap();
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(335));
}

#[tokio::test(start_paused = true)]
async fn a_write_is_in_progress_until_its_own_limit_even_if_it_was_dropped() {
    let (connection, _peer) = connection();
    let mut connection = connection.with_idle_timeout(ms(30)).with_write_timeout(ms(100));
    connection.write_all(b"1234").await.unwrap();
    let start = Instant::now();
    assert!(poll(&mut pin!(connection.write_u8(5))).is_pending());
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, ms(30)));
    assert_eq!(start.elapsed(), ms(130));
}

#[tokio::test(start_paused = true)]
async fn a_drip_of_bytes_does_not_put_off_the_deadline_and_neither_does_a_flood() {
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
    let mut count = 0;
    let error = loop {
        match connection.read_u8().await {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((count, exceeded::<()>(Err(error))), (10, (Limit::Deadline, ms(205))));
    assert_eq!(start.elapsed(), ms(205));
    drop(connection);
    drip.await.unwrap();

    let full = Fake { read: Answer::Done(1), write: Answer::Done(1), flush: Answer::Done(0), ..Fake::default() };
    let mut flood = TimeoutStream::new(full).with_deadline(Instant::now() + ms(5));
    assert_eq!(flood.read_u8().await.unwrap(), 7);
    sleep(ms(5)).await;
    assert_eq!(exceeded(flood.read_u8().await), (Limit::Deadline, ms(5)));
    assert_eq!(exceeded(flood.write_u8(1).await), (Limit::Deadline, ms(5)));
    assert_eq!(exceeded(flood.write_vectored(&[]).await), (Limit::Deadline, ms(5)));
    assert_eq!(exceeded(flood.flush().await), (Limit::Deadline, ms(5)));
    // It can still be closed, if that need not wait.
    assert_eq!(exceeded(flood.shutdown().await), (Limit::Deadline, ms(5)));
    flood.get_mut().shutdown = Answer::Done(0);
    flood.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_several_limits_the_deadline_is_named_or_else_the_first_however_late_the_task_is() {
    for (last, expected) in [(None, (Limit::Idle, ms(20))), (Some(ms(25)), (Limit::Deadline, ms(25)))] {
        let (connection, _peer) = connection();
        let mut connection = connection.with_read_timeout(ms(30)).with_idle_timeout(ms(20));
        connection.set_deadline(last.map(|last| Instant::now() + last));
        let mut read = pin!(connection.read_u8());
        assert!(poll(&mut read).is_pending());
        tokio::time::advance(HOUR).await;
        assert_eq!(exceeded(read.await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn two_tasks_that_share_a_split_connection_are_both_woken() {
    let (connection, _peer) = connection();
    let start = Instant::now();
    let mut connection = connection.with_read_timeout(ms(30)).with_write_timeout(ms(50));
    connection.write_all(b"1234").await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(connection);
    let reading = tokio::spawn(async move { (exceeded(reader.read_u8().await), start.elapsed()) });
    let writing = tokio::spawn(async move { (exceeded(writer.write_u8(5).await), start.elapsed()) });
    assert_eq!(reading.await.unwrap(), ((Limit::Read, ms(30)), ms(30)));
    assert_eq!(writing.await.unwrap(), ((Limit::Write, ms(50)), ms(50)));
}

fn poll_read<S: AsyncRead + Unpin>(stream: &mut TimeoutStream<S>, waker: &Waker) -> Poll<io::Result<()>> {
    Pin::new(stream).poll_read(&mut Context::from_waker(waker), &mut ReadBuf::new(&mut [0]))
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_changed_while_a_read_waits_counts_from_the_change() {
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
            let (woken, waker) = Wakes::new();
            assert!(poll_read(&mut connection, &waker).is_pending());
            sleep(ms(29)).await;
            assert!(poll_read(&mut connection, &waker).is_pending());
            assert_eq!(woken.count(), 0);
            sleep(ms(1)).await;
            settle().await;
            assert_eq!(woken.count(), 1);
            let Poll::Ready(late) = poll_read(&mut connection, &waker) else { panic!("30 ms have passed") };
            assert_eq!(exceeded(late).1, ms(30));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_was_dropped_while_it_waited_counts_on_until_the_limit_is_set_again() {
    let (connection, _peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30));
    let start = Instant::now();
    assert!(poll(&mut pin!(connection.read_u8())).is_pending());
    sleep(ms(20)).await;
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Read, ms(30)));
    assert_eq!(start.elapsed(), ms(30));

    assert!(poll(&mut pin!(connection.read_u8())).is_pending());
    sleep(ms(20)).await;
    connection.set_read_timeout(Some(ms(30)));
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Read, ms(30)));
    assert_eq!(start.elapsed(), ms(80));
}

#[cfg(feature = "test-util")]
#[test]
fn on_a_clock_that_is_moved_by_hand_silence_ends_to_the_nanosecond() {
    let clock = hairspring::test_util::ManualClock::new();
    crate::common::current_thread().block_on(async {
        Timer::builder().clock(&clock).install().unwrap();
        let (connection, mut peer) = connection();
        let mut connection = connection.with_idle_timeout(ms(100));
        for _ in 0..1_000 {
            let (woken, waker) = Wakes::new();
            assert!(poll_read(&mut connection, &waker).is_pending());
            clock.advance(ms(1));
            peer.write_u8(1).await.unwrap();
            assert!(woken.count() > 0);
            assert!(poll_read(&mut connection, &waker).is_ready());
        }
        let (woken, waker) = Wakes::new();
        assert!(poll_read(&mut connection, &waker).is_pending());
        clock.advance(Duration::from_nanos(99_999_999));
        assert!(poll_read(&mut connection, &waker).is_pending());
        assert_eq!(woken.count(), 0);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(woken.count(), 1);
        let Poll::Ready(late) = poll_read(&mut connection, &waker) else { panic!("it was silent for 100 ms") };
        assert_eq!(exceeded(late), (Limit::Idle, ms(100)));
    });
}

/// A clock that a test has paused jumps to what is set, so nothing may stay set for a read that has ended.
#[tokio::test(start_paused = true)]
async fn what_does_not_wait_moves_no_paused_clock() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30)).with_idle_timeout(ms(50)).with_write_timeout(ms(20));
    let mut read = pin!(connection.read_u8());
    assert!(poll(&mut read).is_pending());
    peer.write_u8(1).await.unwrap();
    assert_eq!(read.await.unwrap(), 1);
    assert_eq!(Timer::current().metrics().pending(), 0);

    // Put off, and removed.
    let (_, waker) = Wakes::new();
    assert!(poll_read(&mut connection, &waker).is_pending());
    sleep(ms(10)).await;
    connection.set_read_timeout(None);
    connection.set_idle_timeout(None);
    assert!(poll_read(&mut connection, &waker).is_pending());
    assert_eq!(Timer::current().metrics().pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn zero_fails_what_has_to_wait_and_nothing_else() {
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(Duration::ZERO).with_write_timeout(Duration::ZERO);
    let start = Instant::now();
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Read, Duration::ZERO));
    connection.write_all(b"1234").await.unwrap();
    assert_eq!(exceeded(connection.write_u8(5).await), (Limit::Write, Duration::ZERO));
    peer.write_u8(9).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 9);
    assert_eq!(start.elapsed(), Duration::ZERO);
    connection.set_read_timeout(None);
    connection.set_idle_timeout(Some(Duration::ZERO));
    assert_eq!(connection.idle_timeout(), Some(ms(1)));
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Idle, ms(1)));
    assert_eq!(start.elapsed(), ms(1));
}

/// With the shortest idle limit, a write in progress is looked at each millisecond, and no more.
#[tokio::test(start_paused = true)]
async fn the_shortest_idle_limit_and_a_write_in_progress_do_not_spin() {
    let (connection, _peer) = connection();
    let (mut reader, mut writer) = tokio::io::split(connection.with_idle_timeout(Duration::ZERO));
    let writing = tokio::spawn(async move { writer.write_all(b"12345").await });
    let reading = tokio::spawn(async move { reader.read_u8().await });
    sleep(ms(50)).await;
    assert!(!reading.is_finished() && !writing.is_finished());
    let registered = Timer::current().metrics().registered();
    assert!(registered < 200, "{registered}");
    reading.abort();
    writing.abort();
}

#[tokio::test(start_paused = true)]
async fn the_longest_limits_never_pass_early() {
    for longest in longest() {
        let (connection, mut peer) = connection();
        let far = Instant::now() + longest;
        let connection = connection
            .with_read_timeout(longest)
            .with_write_timeout(longest)
            .with_idle_timeout(longest)
            .with_deadline(far);
        assert_eq!(connection.read_timeout(), Some(longest));
        let (mut reader, mut writer) = tokio::io::split(connection);
        let reading = tokio::spawn(async move { reader.read_u8().await });
        let writing = tokio::spawn(async move { writer.write_all(b"12345").await });
        sleep(1_000 * HOUR).await;
        assert!(!reading.is_finished() && !writing.is_finished());
        peer.read_exact(&mut [0; 5]).await.unwrap();
        peer.write_u8(1).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), 1);
        writing.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_past_fails_the_first_operation() {
    let (connection, _peer) = connection();
    let mut connection = connection.with_deadline(Instant::now() - HOUR);
    assert_eq!(exceeded(connection.read_u8().await), (Limit::Deadline, Duration::ZERO));
    connection.set_deadline(None);
    connection.write_u8(1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_and_its_errors_are_handed_on() {
    let (connection, peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30)).with_idle_timeout(ms(30));
    drop(peer);
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 0);

    let kind = ErrorKind::TimedOut; // as a system reports it
    let fake = Fake { read: Answer::Fails(kind), write: Answer::Fails(kind), ..Fake::default() };
    let mut stream =
        TimeoutStream::new(fake).with_read_timeout(ms(30)).with_idle_timeout(ms(30)).with_write_timeout(ms(30));
    for error in [stream.read_u8().await.unwrap_err(), stream.write_u8(1).await.unwrap_err()] {
        assert_eq!(error.kind(), kind);
        assert!(error.get_ref().is_none(), "this is no limit of ours");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_panic_of_the_inner_stream_the_limits_still_hold() {
    let mut stream = TimeoutStream::new(Fake::default()).with_read_timeout(ms(30));
    let start = Instant::now();
    assert!(poll_read(&mut stream, Waker::noop()).is_pending());
    stream.get_mut().read = Answer::Panics;
    assert!(catch_unwind(AssertUnwindSafe(|| poll_read(&mut stream, Waker::noop()))).is_err());
    stream.get_mut().read = Answer::Waits;
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Read, ms(30)));
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(Timer::current().metrics().pending(), 0);
}

#[tokio::test]
async fn a_full_timer_is_an_error_not_a_panic() {
    let timer = Timer::builder().capacity(1).install().unwrap();
    let mut other = timer.try_sleep(HOUR);
    assert!(poll(&mut other).is_pending());
    let (connection, mut peer) = connection();
    let mut connection = connection.with_read_timeout(HOUR);
    let inner = |error: io::Error| *error.get_ref().unwrap().downcast_ref::<hairspring::error::Error>().unwrap();
    assert!(inner(connection.read_u8().await.unwrap_err()).is_at_capacity());
    // What need not wait needs no timer.
    peer.write_u8(1).await.unwrap();
    assert_eq!(connection.read_u8().await.unwrap(), 1);
    drop(other);
    assert!(poll(&mut pin!(connection.read_u8())).is_pending(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn limits_go_by_the_timer_that_was_chosen() {
    let timer = Timer::builder().build().unwrap();
    let (ours, _peer) = duplex(1);
    let mut connection = TimeoutStream::with_timer(ours, &timer).with_idle_timeout(HOUR).with_write_timeout(ms(30));
    assert_eq!((connection.read_timeout(), connection.write_timeout()), (None, Some(ms(30))));
    assert_eq!((connection.idle_timeout(), connection.deadline()), (Some(HOUR), None));
    let start = Instant::now();
    assert_eq!(exceeded(connection.write_all(b"two").await), (Limit::Write, ms(30)));
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!((timer.metrics().fired(), Timer::current().metrics().registered()), (1, 0));
    timer.shutdown();
    let error = connection.write_all(b"two").await.unwrap_err();
    let inner: &hairspring::error::Error = error.get_ref().unwrap().downcast_ref().unwrap();
    assert!(error.kind() == ErrorKind::Other && inner.is_shutdown());
}

/// Whether the shutdown comes before the read or while it waits.
#[tokio::test]
async fn after_its_timer_was_shut_down_a_limit_passes_when_it_would_have() {
    for waits in [false, true] {
        let (connection, mut peer) = connection();
        let mut connection = connection.with_read_timeout(ms(20));
        let timer = Timer::builder().install().unwrap();
        let start = Instant::now();
        let mut read = Box::pin(connection.read_u8());
        if waits {
            assert!(poll(&mut read).is_pending());
        }
        assert_eq!(timer.shutdown(), usize::from(waits));
        assert_eq!(exceeded(read.await), (Limit::Read, ms(20)));
        assert!(start.elapsed() >= ms(20));
        assert_ne!(Timer::current(), timer, "the runtime has made another");
        peer.write_u8(1).await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), 1);
    }
}

/// A runtime that is dropped waits for what `spawn_blocking` has started.
#[test]
fn a_read_that_holds_up_the_end_of_its_runtime_fails_with_the_timers_error() {
    must_end(|| {
        for runtime in both_flavours() {
            let (connection, _peer) = connection();
            let mut connection = connection.with_read_timeout(HOUR);
            let (sender, started) = std::sync::mpsc::channel();
            let read = runtime.spawn_blocking(move || {
                sender.send(()).unwrap();
                futures::executor::block_on(connection.read_u8()).unwrap_err()
            });
            started.recv().unwrap();
            drop(runtime);
            let error = futures::executor::block_on(read).unwrap();
            assert_eq!(error.kind(), ErrorKind::Other);
            let inner: &hairspring::error::Error = error.get_ref().unwrap().downcast_ref().unwrap();
            assert!(inner.is_shutdown());
        }
    });
}

#[tokio::test]
async fn vectored_writes_are_handed_on() {
    let fake = Fake { write: Answer::Done(3), ..Fake::default() };
    let mut stream = TimeoutStream::new(fake).with_write_timeout(HOUR);
    assert!(stream.is_write_vectored());
    assert!(!TimeoutStream::new(tokio_test::io::Builder::new().build()).is_write_vectored());
    let slices = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
    assert_eq!(stream.write_vectored(&slices).await.unwrap(), 3);
    assert_eq!(stream.get_ref().vectored, 2);
}

#[tokio::test(start_paused = true)]
async fn buffered_reads_are_limited_too() {
    let (ours, mut peer) = duplex(64);
    let mut lines = TimeoutStream::new(BufReader::new(ours)).with_read_timeout(ms(30)).with_idle_timeout(ms(50));
    peer.write_all(b"one\ntwo\nthr").await.unwrap();
    let mut line = String::new();
    for expected in ["one\n", "two\n"] {
        line.clear();
        lines.read_line(&mut line).await.unwrap();
        assert_eq!(line, expected);
    }
    let start = Instant::now();
    assert_eq!(lines.fill_buf().await.unwrap(), b"thr");
    lines.consume(3);
    assert_eq!(exceeded(lines.fill_buf().await), (Limit::Read, ms(30)));
    assert_eq!(exceeded(lines.fill_buf().await), (Limit::Idle, ms(50)));
    assert_eq!(start.elapsed(), ms(50));
}

/// As servers take connections.
async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(mut connection: S) -> io::Result<u64> {
    tokio::spawn(async move {
        let (mut reader, mut writer) = tokio::io::split(&mut connection);
        tokio::io::copy(&mut reader, &mut writer).await
    })
    .await
    .unwrap()
}

#[test]
fn generic_code_takes_it_over_tcp_on_every_runtime() {
    for runtime in both_flavours() {
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (connection, _) = listener.accept().await.unwrap();
            let limited = TimeoutStream::new(connection).with_idle_timeout(ms(50)).with_write_timeout(HOUR);
            let served = tokio::spawn(serve(limited));
            let start = Instant::now();
            client.write_all(b"over the network").await.unwrap();
            client.read_exact(&mut [0; 16]).await.unwrap();
            assert_eq!(exceeded(served.await.unwrap()), (Limit::Idle, ms(50)));
            assert!(start.elapsed() >= ms(50));
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it was closed");
        });
    }
}

/// A stream that must not move.
struct Pinned(Fake, PhantomPinned);

impl AsyncRead for Pinned {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.as_ref().get_ref().0.read.poll().map_ok(drop)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_must_not_move_is_pinned_with_it() {
    let mut stream = pin!(TimeoutStream::new(Pinned(Fake::default(), PhantomPinned)).with_read_timeout(ms(30)));
    assert_eq!(exceeded(stream.read_u8().await), (Limit::Read, ms(30)));
    let _inner: Pin<&mut Pinned> = stream.as_mut().get_pin_mut();
}

/// Each task that polls is the one that is woken next.
#[tokio::test(start_paused = true)]
async fn the_last_waker_is_the_one_woken() {
    let (connection, _peer) = connection();
    let mut connection = connection.with_read_timeout(ms(30));
    let (before, old) = Wakes::new();
    let (after, new) = Wakes::new();
    assert!(poll_with(&mut pin!(connection.read_u8()), &old).is_pending());
    let mut read = pin!(connection.read_u8());
    assert!(poll_with(&mut read, &new).is_pending());
    sleep(ms(30)).await;
    settle().await;
    assert_eq!((before.count(), after.count()), (0, 1));
    drop(old);
    assert_eq!(Arc::strong_count(&before), 1, "nothing is kept of it");
}

#[tokio::test]
async fn it_prints_its_limits() {
    let printed = format!("{:?}", TimeoutStream::new(7).with_read_timeout(ms(30)).with_idle_timeout(HOUR));
    for shown in ["stream: 7", "read_timeout: Some(30ms)", "write_timeout: None", "idle_timeout: Some(3600s)"] {
        assert!(printed.contains(shown), "{printed}");
    }
}
