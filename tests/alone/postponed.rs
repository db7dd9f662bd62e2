//! Postponing a deadline does not touch the timer: the sleep stays where it is until it fires. An earlier one does.
//!
//! No test here pauses a clock. In a process that has done so, sleeps move immediately: see `tests/it/cancelled.rs`.

use std::pin::pin;
use std::time::Duration;

use crate::alone;
use crate::common::{HOUR, Wakes, both_flavours, connection, ms, multi_thread, poll, poll_with};
use futures::StreamExt as _;
use hairspring::io::TimeoutStream;
use hairspring::{DeadlineMap, DelayQueue, Instant, StreamExt as _, Timer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::coop::unconstrained;

const LIMIT: Duration = Duration::from_millis(20);

/// Sends one byte at a time back and forth. Each time, the connection has to wait for the peer's answer.
async fn ping_pong(mut connection: TimeoutStream<DuplexStream>, mut peer: DuplexStream, rounds: u32) {
    let echo = tokio::spawn(async move {
        while let Ok(byte) = peer.read_u8().await {
            peer.write_u8(byte).await.unwrap();
        }
    });
    for _ in 0..rounds {
        connection.write_u8(3).await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), 3);
    }
    drop(connection);
    echo.await.unwrap();
}

/// Runs `test` on runtimes on which no test can pause the clock.
fn on_unpaused<F: Future<Output = ()>>(test: fn() -> F) {
    for runtime in both_flavours().into_iter().skip(usize::from(cfg!(feature = "test-util"))) {
        runtime.block_on(test());
    }
}

#[test]
fn traffic_does_not_touch_the_timer() {
    alone(|| {
        on_unpaused(|| async {
            let (connection, peer) = connection();
            let last = Instant::now() + 4 * HOUR;
            let connection = connection
                .with_read_timeout(HOUR)
                .with_write_timeout(HOUR)
                .with_idle_timeout(2 * HOUR)
                .with_deadline(last);
            ping_pong(connection, peer, 1_000).await;
            let metrics = Timer::current().metrics();
            assert!(metrics.registered() <= 2, "more than one sleep per direction: {metrics:?}");
            assert_eq!(metrics.pending(), 0, "a dropped connection leaves no sleep behind");
        });
    });
}

/// If the sleep moved with each item, it would stay ahead of the clock and never fire.
#[test]
fn stream_items_do_not_move_the_sleep() {
    alone(|| {
        on_unpaused(|| {
            // On a slow machine, the loop would spend the task's budget.
            unconstrained(async {
                let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
                let items = futures::stream::poll_fn(|cx| receiver.poll_recv(cx));
                let mut items = pin!(items.timeout(LIMIT));
                // If the machine stalls, a poll may find that the limit has passed, and remove the sleep.
                while Timer::current().metrics().fired() == 0 {
                    let _ = poll(&mut items.next());
                    std::thread::sleep(ms(1));
                    sender.send(()).unwrap();
                    assert!(poll(&mut items.next()).is_ready());
                    tokio::task::yield_now().await;
                }
            })
        });
    });
}

/// All entries are due in the wheel, but none has expired. One poll must not go through them all.
#[test]
fn a_poll_yields_among_many_touched_entries() {
    const KEYS: u32 = 60_000;

    alone(|| {
        multi_thread(1).block_on(async {
            let (map, mut expirations) = DeadlineMap::new();
            let is_in_time = |key| {
                map.insert(key, (), ms(200));
                map.touch(&key, HOUR)
            };
            let mut late = 0;
            for key in 0..KEYS {
                // On a busy machine it may expire before it is touched. Then once more.
                while !is_in_time(key) {
                    late += 1;
                }
            }
            std::thread::sleep(ms(200));
            // They expire once a turn has reached them.
            hairspring::sleep(ms(1)).await;
            let (woken, waker) = Wakes::new();
            let mut polls = 0;
            loop {
                polls += 1;
                let before = woken.count();
                if poll_with(&mut expirations.next(), &waker).is_ready() {
                    late -= 1;
                } else if woken.count() == before {
                    break;
                }
            }
            assert_eq!(late, 0, "none but these has expired");
            assert!((2..KEYS).contains(&polls), "{polls} polls");
            for key in 0..KEYS {
                assert!(map.touch(&key, Duration::ZERO));
            }
            drop(map);
            assert_eq!(expirations.count().await, KEYS as usize);
        });
    });
}

#[test]
fn each_earlier_deadline_wakes_the_poller() {
    alone(|| {
        multi_thread(1).block_on(async {
            let mut queue = DelayQueue::new();
            let keys = [0, 1, 2].map(|n| queue.insert(n, HOUR * (n + 1)));
            let (woken, waker) = Wakes::new();
            assert!(poll_with(&mut queue.next(), &waker).is_pending());
            queue.reset(&keys[1], HOUR / 2);
            assert_eq!(woken.count(), 1, "it is now due before the entry that the poller waits for");
            queue.reset(&keys[2], ms(5));
            queue.remove(&keys[0]);
            assert_eq!(queue.next().await.unwrap().into_inner(), 2);
            // A shard stores a few entries differently from many.
            for others in [0, 100] {
                let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
                (0..others).for_each(|other| assert_eq!(map.insert(10 + other, (), 9 * HOUR), None));
                (0..3).for_each(|n| assert_eq!(map.insert(n, (), HOUR * (n + 1)), None));
                assert!(poll_with(&mut expirations.next(), &waker).is_pending());
                let before = woken.count();
                map.touch(&1, HOUR / 2);
                assert_eq!(woken.count(), before + 1, "it is now due before the entry that the consumer waits for");
                let start = Instant::now();
                map.insert(3, (), ms(1));
                assert!(map.touch(&3, ms(20)) || start.elapsed() >= ms(1));
                map.touch(&2, ms(5));
                map.remove(&0);
                assert!(expirations.next().await.is_some() && expirations.next().await.is_some());
                assert_eq!((map.len(), map.contains_key(&1)), (others as usize + 1, true));
            }
            // The stream still has an expired entry if its key was inserted again, and then removed.
            let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
            map.insert(0, "expired", ms(0));
            map.insert(0, "removed", HOUR);
            assert_eq!(map.remove(&0), Some("removed"));
            assert!(!map.is_empty());
            assert_eq!(expirations.next().await, Some((0, "expired")));
        });
    });
}

/// A bug that this crate had: the stream of a map kept its timer.
#[test]
fn what_has_ended_keeps_no_timer() {
    alone(|| {
        multi_thread(1).block_on(async {
            let mut queue = DelayQueue::new();
            let key = queue.insert(1, HOUR);
            assert!(poll(&mut queue.next()).is_pending());
            queue.remove(&key);
            assert!(queue.next().await.is_none());
            let (map, mut expirations) = DeadlineMap::new();
            map.insert(1, (), HOUR);
            assert!(poll(&mut expirations.next()).is_pending());
            map.remove(&1);
            drop(map);
            assert!(expirations.next().await.is_none());
            assert_eq!(Timer::current().metrics().pending(), 0);
        });
    });
}
