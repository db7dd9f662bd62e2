//! Time is seen where the runtime sees it: no limit passes before the runtime has looked at its sockets, and what is due
//! already lets other tasks run first.

use std::future::pending;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, current_thread, ms, multi_thread, must_end, must_end_on, poll};
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use hairspring::io::TimeoutStream;
use hairspring::timer::{self, Alarm};
use hairspring::{
    Deadline, DeadlineMap, DelayQueue, Instant, StreamExt as _, Timer, boot, interval, sleep, timeout, timeout_at, wall,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};

const LIMIT: Duration = Duration::from_millis(20);

/// A read with a limit of some kind. Returns whether it got the byte.
type Read = fn(TcpStream) -> BoxFuture<'static, bool>;

async fn read(mut socket: TcpStream) -> bool {
    socket.read_u8().await.is_ok()
}

/// Reads until `limit` ends. In the poll that finds both, the read wins.
async fn read_until(socket: TcpStream, limit: impl Future) -> bool {
    tokio::select! {
        biased;
        got = read(socket) => got,
        _ = limit => false,
    }
}

fn kinds() -> Vec<(&'static str, Read)> {
    #[cfg_attr(not(any(feature = "hyper", feature = "tower")), allow(unused_mut))]
    let mut kinds: Vec<(&'static str, Read)> = vec![
        ("timeout", |socket| timeout(LIMIT, read(socket)).map(|got| got.is_ok()).boxed()),
        ("timeout_at", |socket| timeout_at(Instant::now() + LIMIT, read(socket)).map(|got| got.is_ok()).boxed()),
        ("fallible", |socket| Timer::current().timeout(LIMIT, read(socket)).fallible().map(|got| got.is_ok()).boxed()),
        ("Deadline", |socket| Deadline::after(LIMIT).limit(read(socket)).map(|got| got.is_ok()).boxed()),
        ("boot", |socket| boot::timeout(LIMIT, read(socket)).map(|got| got.is_ok()).boxed()),
        ("wall", |socket| wall::timeout_at(wall::now() + LIMIT, read(socket)).map(|got| got.is_ok()).boxed()),
        ("sleep", |socket| read_until(socket, sleep(LIMIT)).boxed()),
        ("TrySleep", |socket| read_until(socket, sleep(LIMIT).fallible()).boxed()),
        ("read timeout", |socket| {
            async { TimeoutStream::new(socket).with_read_timeout(LIMIT).read_u8().await.is_ok() }.boxed()
        }),
        ("idle timeout", |socket| {
            async { TimeoutStream::new(socket).with_idle_timeout(LIMIT).read_u8().await.is_ok() }.boxed()
        }),
        ("connection deadline", |socket| {
            async { TimeoutStream::new(socket).with_deadline(Instant::now() + LIMIT).read_u8().await.is_ok() }.boxed()
        }),
        ("stream timeout", |socket| {
            let mut bytes = stream::once(read(socket)).boxed().timeout(LIMIT);
            async move { bytes.next().await.is_some_and(|got| got.is_ok()) }.boxed()
        }),
        ("DelayQueue", |socket| {
            let mut queue = DelayQueue::new();
            queue.insert((), LIMIT);
            async move { read_until(socket, queue.next()).await }.boxed()
        }),
        ("DeadlineMap", |socket| {
            let (map, mut expirations) = DeadlineMap::new();
            map.insert((), (), LIMIT);
            async move { read_until(socket, expirations.recv()).await }.boxed()
        }),
    ];
    #[cfg(feature = "hyper")]
    kinds.push(("HyperTimer", |socket| {
        read_until(socket, hyper::rt::Timer::sleep(&hairspring::hyper::HyperTimer::new(), LIMIT)).boxed()
    }));
    #[cfg(feature = "tower")]
    kinds.push(("TimeoutLayer", |socket| {
        use tower::{Layer, ServiceExt};
        let service = tower::service_fn(|socket| async { Ok::<_, std::convert::Infallible>(read(socket).await) });
        hairspring::tower::TimeoutLayer::new(LIMIT).layer(service).oneshot(socket).map(|got| got.is_ok()).boxed()
    }));
    kinds
}

/// Sends a byte to a read, then keeps the thread busy until the limit is over. Returns whether the read got it, or `None`
/// if the machine was so slow that the byte came too late.
async fn a_byte_before_the_limit(kind: Read, is_local: bool) -> Option<bool> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    let ours = TcpStream::from_std(ours).unwrap();
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let start = Instant::now();
    let reads = async move {
        let mut read = kind(ours);
        assert!(poll(&mut read).is_pending());
        begins.store(true, SeqCst);
        read.await
    };
    let reads = if is_local { tokio::task::spawn_local(reads) } else { tokio::spawn(reads) };
    let busy = async move {
        while !begun.load(SeqCst) {
            yield_now().await;
        }
        let waits_until = Instant::now() + LIMIT;
        // The driver, too, waits by now.
        yield_now().await;
        yield_now().await;
        peer.write_all(b"x").unwrap();
        let in_time = start.elapsed() < LIMIT * 3 / 4;
        while Instant::now() < waits_until + LIMIT {
            thread::sleep(ms(1));
        }
        in_time.then_some(peer)
    };
    let peer = if is_local { tokio::task::spawn_local(busy) } else { tokio::spawn(busy) };
    let in_time = peer.await.unwrap();
    let got = reads.await.unwrap();
    in_time.map(|_| got)
}

fn timers() -> Vec<(String, timer::Builder)> {
    let alarms = [Alarm::Thread, Alarm::Auto, Alarm::Tokio].into_iter();
    let alarms = alarms.chain(cfg!(target_os = "linux").then_some(Alarm::Timerfd));
    let mut timers: Vec<_> = alarms.map(|alarm| (format!("{alarm:?}"), Timer::builder().alarm(alarm))).collect();
    timers.push(("a resolution".into(), Timer::builder().resolution(ms(1))));
    timers
}

fn gets_the_byte(runtime: fn() -> Runtime, is_local: bool) {
    must_end(move || {
        for (name, timer) in timers() {
            for (kind, read) in kinds() {
                crate::common::step();
                let runtime = runtime();
                let test = async {
                    let timer = timer.clone().install().unwrap();
                    // The timer has waited before.
                    timer.sleep(ms(1)).await;
                    while let None | Some(false) = match a_byte_before_the_limit(read, is_local).await {
                        Some(false) => panic!("{kind}, {name}: cut although the data had come"),
                        got => got,
                    } {}
                };
                if is_local {
                    LocalSet::new().block_on(&runtime, test);
                } else {
                    runtime.block_on(test);
                }
            }
        }
    });
}

/// A bug that this crate had: the alarm thread, a helper and each poll's own look at the clock ended a limit while the
/// data still lay in the kernel. One read in ten got it.
#[test]
fn no_limit_of_a_busy_thread_cuts_what_had_come() {
    gets_the_byte(current_thread, false);
}

#[test]
fn no_limit_of_a_busy_worker_cuts_what_had_come() {
    gets_the_byte(|| multi_thread(1), false);
}

#[test]
fn no_limit_in_a_local_set_cuts_what_had_come() {
    gets_the_byte(current_thread, true);
}

/// vector's expiration map: an interval beside a stream that has items.
#[test]
fn items_that_are_ready_come_before_an_intervals_first_tick() {
    must_end_on(current_thread(), async || {
        for _ in 0..100 {
            let (mut ticks, mut items) = (interval(HOUR), stream::iter(1..=3).chain(stream::pending()));
            let mut seen = Vec::new();
            while seen.len() < 4 {
                tokio::select! {
                    _ = ticks.tick() => seen.push(0),
                    Some(item) = items.next() => seen.push(item),
                }
            }
            assert_eq!(seen, [1, 2, 3, 0]);
        }
    });
}

#[test]
fn what_is_due_already_lets_other_tasks_run_first() {
    for mut runtime in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        // Otherwise the runtime looks at its drivers now and then although a task is ready.
        let runtime = runtime.worker_threads(1).event_interval(u32::MAX).build().unwrap();
        must_end_on(runtime, async || {
            tokio::spawn(async {
                for _ in 0..10 {
                    let other = tokio::spawn(async {});
                    sleep(Duration::ZERO).await;
                    assert!(other.is_finished());
                    let other = tokio::spawn(async {});
                    assert!(timeout_at(Instant::now(), pending::<()>()).await.is_err() && other.is_finished());
                }
            })
            .await
            .unwrap();
        });
    }
}

/// Each tick that was missed would otherwise cost a turn.
#[test]
fn missed_ticks_that_a_turn_has_reached_are_ready_at_once() {
    must_end_on(current_thread(), async || {
        let mut ticks = interval(Duration::from_micros(10));
        ticks.tick().await;
        thread::sleep(ms(20));
        sleep(Duration::ZERO).await;
        let turns = Timer::current().metrics().turns();
        for _ in 0..1_000 {
            tokio::task::unconstrained(ticks.tick()).now_or_never().expect("it was due before the last turn");
        }
        assert_eq!(Timer::current().metrics().turns(), turns);
    });
}

/// The runtime's only worker comes to nothing else. A helper thread turns for it after a second.
#[test]
fn a_worker_that_blocks_until_a_sleep_ends_is_helped() {
    must_end_on(multi_thread(1), async || {
        tokio::spawn(async {
            sleep(ms(1)).await;
            futures::executor::block_on(sleep(ms(1)));
            // It has not come since: no further patience.
            futures::executor::block_on(sleep(ms(1)));
        })
        .await
        .unwrap();
    });
}
