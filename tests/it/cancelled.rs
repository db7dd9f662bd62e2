//! A timer that was cancelled or postponed does not move a paused clock.

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, current_thread, ms, must_end, paused, poll};
use futures::StreamExt;
use hairspring::delay_queue::Key;
use hairspring::timer::Alarm;
use hairspring::{DeadlineMap, DelayQueue, Instant, Timer, interval_at, sleep, timeout};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::yield_now;

const SHORT: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

/// How the clock of a runtime is paused.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Pause {
    FromTheStart,
    ByTokio,
    /// After a timer has already run on that runtime by the system's clock.
    ByTokioLater,
    #[cfg(feature = "test-util")]
    ByUs,
    #[cfg(feature = "test-util")]
    OnWorkers,
}

const PAUSES: &[Pause] = &[
    Pause::FromTheStart,
    Pause::ByTokio,
    Pause::ByTokioLater,
    #[cfg(feature = "test-util")]
    Pause::ByUs,
    #[cfg(feature = "test-util")]
    Pause::OnWorkers,
];

impl Pause {
    fn runtime(self) -> Runtime {
        match self {
            Pause::FromTheStart => paused(),
            #[cfg(feature = "test-util")]
            Pause::OnWorkers => crate::common::multi_thread(2),
            _ => current_thread(),
        }
    }

    async fn pause(self) {
        match self {
            Pause::FromTheStart => {}
            Pause::ByTokio => tokio::time::pause(),
            Pause::ByTokioLater => {
                sleep(ms(1)).await;
                tokio::time::pause();
            }
            #[cfg(feature = "test-util")]
            Pause::ByUs | Pause::OnWorkers => hairspring::pause(),
        }
    }
}

/// Runs `test` with each way of pausing a clock, and fails if it hangs.
fn on_paused_clocks(test: impl AsyncFn() + Send + Copy + 'static) {
    for &pause in PAUSES {
        // The test is the future of `block_on`, which the clock of such a runtime does not see everywhere.
        #[cfg(feature = "test-util")]
        if pause == Pause::OnWorkers && !crate::common::threads_are_seen() {
            continue;
        }
        must_end(move || {
            pause.runtime().block_on(async {
                pause.pause().await;
                test().await;
            });
        });
    }
}

/// Nothing that `cancels` leaves behind may move the clock while the runtime waits for another thread.
fn moves_no_clock(cancels: impl AsyncFn() + Send + Copy + 'static) {
    on_paused_clocks(async move || {
        let start = Instant::now();
        cancels().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "it was not to wait");
        word_from_another_thread().await;
        assert_eq!(start.elapsed(), Duration::ZERO, "time went on");
    });
}

async fn word_from_another_thread() {
    let (sender, word) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(ms(20));
        sender.send(()).unwrap();
    });
    word.await.unwrap();
}

/// Lets the timer's driver, and tokio's, see what was registered.
async fn let_it_be_seen() {
    for _ in 0..4 {
        yield_now().await;
    }
}

/// A bug that this crate had: a cancelled timer moved a paused clock: tokio's sleep for it stayed registered.
#[test]
fn a_timeout_that_was_in_time() {
    moves_no_clock(async || timeout(LONG, yield_now()).await.unwrap());
    moves_no_clock(async || timeout(LONG, let_it_be_seen()).await.unwrap());
    moves_no_clock(async || timeout(LONG, word_from_a_task()).await.unwrap());
}

async fn word_from_a_task() {
    tokio::spawn(let_it_be_seen()).await.unwrap();
}

#[test]
fn a_sleep_that_was_dropped() {
    moves_no_clock(async || assert!(poll(&mut sleep(LONG)).is_pending()));
    moves_no_clock(async || {
        let mut sleep = sleep(LONG);
        assert!(poll(&mut sleep).is_pending());
        let_it_be_seen().await;
    });
    moves_no_clock(async || {
        let task = tokio::spawn(sleep(LONG));
        let_it_be_seen().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    });
}

/// Cancels from a thread outside any runtime.
#[test]
fn a_sleep_that_was_dropped_elsewhere() {
    moves_no_clock(async || {
        let mut sleep = sleep(LONG);
        assert!(poll(&mut sleep).is_pending());
        let_it_be_seen().await;
        thread::spawn(move || drop(sleep)).join().unwrap();
    });
}

#[test]
fn an_interval_that_was_dropped() {
    moves_no_clock(async || {
        let mut ticks = interval_at(Instant::now() + LONG, LONG);
        assert!(poll(&mut ticks.next()).is_pending());
        let_it_be_seen().await;
    });
}

#[test]
fn a_timer_that_was_built_or_was_shut_down() {
    moves_no_clock(async || {
        for alarm in [Alarm::Thread, Alarm::Tokio] {
            let timers = [1, 3].map(|shards| Timer::builder().alarm(alarm).shards(shards).build().unwrap());
            let mut sleep = timers[0].sleep(LONG);
            assert!(poll(&mut sleep).is_pending());
            timers[1].timeout(LONG, let_it_be_seen()).await.unwrap();
            timers[0].shutdown();
            word_from_another_thread().await;
        }
    });
}

#[test]
fn a_delay_queue_that_was_emptied() {
    let ways: [fn(&mut DelayQueue<u32>); 5] = [
        |queue| assert!(queue.try_remove(&queue.peek().unwrap()).is_some()),
        |queue| assert_eq!(queue.remove(&queue.peek().unwrap()).into_inner(), 1),
        DelayQueue::clear,
        |queue| drop(queue.drain()),
        |queue| *queue = DelayQueue::new(),
    ];
    for way in ways {
        for yields in [false, true] {
            moves_no_clock(async move || {
                let mut queue = DelayQueue::new();
                queue.insert(1, LONG);
                assert!(poll(&mut queue.next()).is_pending());
                if yields {
                    let_it_be_seen().await;
                }
                way(&mut queue);
                word_from_another_thread().await;
            });
        }
    }
}

#[test]
fn a_deadline_map_that_was_emptied() {
    let ways: [fn(&DeadlineMap<u32, ()>); 2] = [|map| map.remove(&1).unwrap(), DeadlineMap::clear];
    for way in ways {
        for yields in [false, true] {
            moves_no_clock(async move || {
                let (map, mut expirations) = DeadlineMap::new();
                map.insert(1, (), LONG);
                assert!(poll(&mut expirations.next()).is_pending());
                if yields {
                    let_it_be_seen().await;
                }
                way(&map);
                word_from_another_thread().await;
            });
        }
    }
    moves_no_clock(async || {
        let (map, mut expirations) = DeadlineMap::new();
        map.insert(1, (), LONG);
        assert!(poll(&mut expirations.next()).is_pending());
        let_it_be_seen().await;
        drop(expirations);
        word_from_another_thread().await;
        assert_eq!(map.len(), 1);
    });
}

/// A runtime on tokio's paused clock that records the time whenever it has nothing to do: there its clock has stopped.
fn noting() -> (Runtime, Arc<Mutex<Vec<Instant>>>) {
    let stops = Arc::new(Mutex::new(Vec::new()));
    let noted = stops.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || noted.lock().unwrap().push(Instant::now()))
        .build()
        .unwrap();
    (runtime, stops)
}

/// Where the clock stops, counted from the start, on its way to [`LONG`], after `before` has run. Keeps what `before`
/// returns until then.
fn stops_after<T>(before: impl AsyncFn() -> T) -> Vec<Duration> {
    let (runtime, stops) = noting();
    let start = runtime.block_on(async {
        let start = Instant::now();
        let last = tokio::spawn(sleep(LONG));
        let _kept = before().await;
        last.await.unwrap();
        assert!((LONG..LONG + ms(2)).contains(&start.elapsed()), "{:?}", start.elapsed());
        start
    });
    let mut stops: Vec<Duration> = stops.lock().unwrap().iter().map(|stop| *stop - start).collect();
    stops.dedup();
    stops
}

/// Whatever `cancels` postpones or cancels at [`SHORT`], time moves to [`LONG`] as if that timer had never existed.
fn goes_past<T>(cancels: impl AsyncFn() -> T + Send + Copy + 'static) {
    must_end(move || assert_eq!(stops_after(cancels), stops_after(async || ())));
}

#[test]
fn time_goes_on_to_what_is_left() {
    goes_past(async || timeout(SHORT, let_it_be_seen()).await.unwrap());
    goes_past(async || {
        let many: Vec<_> = (0..40).map(|n| tokio::spawn(sleep(SHORT + ms(n * 7_919 % 40)))).collect();
        let_it_be_seen().await;
        for task in many {
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
        }
    });
}

#[test]
fn time_goes_past_where_a_sleep_was_put_off_from() {
    for yields in [false, true] {
        goes_past(async move || {
            let mut sleep = sleep(SHORT);
            assert!(poll(&mut sleep).is_pending());
            if yields {
                let_it_be_seen().await;
            }
            sleep.reset_at(Instant::now() + HOUR);
            Some(sleep)
        });
    }
    // Put off, as what it was armed for, for a third.
    goes_past(async || {
        let mut sleep = sleep(SHORT);
        for _ in 0..3 {
            assert!(poll(&mut sleep).is_pending());
            let_it_be_seen().await;
            sleep.reset_at(sleep.deadline() + HOUR);
        }
        Some(sleep)
    });
}

/// A queue that was polled once, so that it waits, and is not polled again.
fn waiting_queue(entries: &[Duration]) -> (DelayQueue<usize>, Vec<Key>) {
    let mut queue = DelayQueue::new();
    let keys = entries.iter().enumerate().map(|(n, &after)| queue.insert(n, after)).collect();
    assert!(poll(&mut queue.next()).is_pending());
    (queue, keys)
}

#[test]
fn time_goes_past_what_was_removed_from_a_delay_queue_or_put_off() {
    for yields in [false, true] {
        let seen = move || async move {
            if yields {
                let_it_be_seen().await;
            }
        };
        goes_past(async move || {
            let (mut queue, keys) = waiting_queue(&[SHORT, HOUR]);
            seen().await;
            queue.remove(&keys[0]);
            queue
        });
        goes_past(async move || {
            let (mut queue, keys) = waiting_queue(&[SHORT]);
            seen().await;
            queue.reset(&keys[0], HOUR);
            queue
        });
        goes_past(async move || {
            let (mut queue, keys) = waiting_queue(&[SHORT, HOUR]);
            seen().await;
            queue.reset(&keys[0], 2 * HOUR);
            queue
        });
        // Near each other and in no order, so that the wheel knows no more than where they begin.
        goes_past(async move || {
            let near: Vec<Duration> = (0..40).map(|n| SHORT + ms(n * 7_919 % 40)).collect();
            let (mut queue, keys) = waiting_queue(&near);
            seen().await;
            queue.insert(40, HOUR);
            for key in keys {
                queue.remove(&key);
            }
            queue
        });
        // What it waited for was handed out in the place of what came first.
        goes_past(async move || {
            let (mut queue, keys) = waiting_queue(&[SHORT, HOUR]);
            seen().await;
            queue.insert(2, Duration::ZERO);
            assert!(poll(&mut queue.next()).is_ready());
            queue.remove(&keys[0]);
            queue
        });
    }
}

#[test]
fn time_goes_past_what_was_removed_from_a_deadline_map_or_put_off() {
    let ways: [fn(&DeadlineMap<u32, ()>); 4] = [
        |map| map.remove(&1).unwrap(),
        |map| assert!(map.touch(&1, HOUR)),
        |map| assert!(map.insert(1, (), HOUR).is_some()),
        |map| {
            map.clear();
            map.insert(3, (), HOUR);
        },
    ];
    for way in ways {
        for yields in [false, true] {
            goes_past(async move || {
                let (map, mut expirations) = DeadlineMap::new();
                map.insert(1, (), SHORT);
                map.insert(2, (), HOUR);
                assert!(poll(&mut expirations.next()).is_pending());
                if yields {
                    let_it_be_seen().await;
                }
                way(&map);
                (map, expirations)
            });
        }
    }
}

/// Timers that are cancelled while the clock runs must not move it once it is paused again.
#[test]
fn a_clock_that_was_resumed_and_paused_again() {
    must_end(|| {
        paused().block_on(async {
            let [mut later, mut sooner] = [LONG, SHORT].map(sleep);
            assert!(poll(&mut later).is_pending());
            let_it_be_seen().await;
            tokio::time::resume();
            assert!(poll(&mut sooner).is_pending());
            let_it_be_seen().await;
            drop((later, sooner));
            let_it_be_seen().await;
            tokio::time::pause();
            let start = Instant::now();
            word_from_another_thread().await;
            assert_eq!(start.elapsed(), Duration::ZERO);
        });
    });
}

/// Timers that are still waited for must move the clock: only cancelled ones do not.
#[test]
fn what_is_waited_for_still_moves_the_clock() {
    on_paused_clocks(async || {
        let start = Instant::now();
        timeout(SHORT, ready(())).await.unwrap();
        assert!(timeout(LONG, pending::<()>()).await.is_err());
        assert!((LONG..LONG + ms(2)).contains(&start.elapsed()));
    });
}

#[cfg(feature = "test-util")]
mod manual_clocks {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use hairspring::test_util::ManualClock;

    #[test]
    fn one_on_which_everything_was_cancelled_does_not_move() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let start = clock.now();
        let mut queue = DelayQueue::with_timer(&timer);
        let (map, mut expirations) = DeadlineMap::with_timer(&timer);
        let mut sleep = timer.sleep(LONG);
        let key = queue.insert(1, LONG);
        map.insert(1, (), LONG);
        assert!(poll(&mut queue.next()).is_pending() && poll(&mut expirations.next()).is_pending());
        assert!(poll(&mut sleep).is_pending());
        assert_eq!(clock.pending(), 3);
        queue.remove(&key);
        assert_eq!(clock.pending(), 2);
        map.remove(&1);
        assert_eq!(clock.pending(), 1);
        drop(sleep);
        assert_eq!((clock.pending(), clock.advance_to_next(), clock.now()), (0, None, start));
    }

    #[test]
    fn one_goes_to_what_was_put_off_and_shows_no_time_in_between() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let start = clock.now();
        let (watched, done) = (clock.clone(), Arc::new(AtomicBool::new(false)));
        let ends = done.clone();
        let looks = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let shown = watched.now() - start;
                assert_eq!(shown.as_nanos() % SHORT.as_nanos(), 0, "it shows {shown:?}");
            }
        });
        for round in crate::common::rounds(2_000) {
            let mut queue = DelayQueue::with_timer(&timer);
            let key = queue.insert(1, SHORT / 4);
            // In no order, so that the wheel knows no more than where they begin.
            let mut sleeps: Vec<_> = (0..40).rev().map(|n| timer.sleep(SHORT / 8 + ms(n))).collect();
            assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()) && poll(&mut queue.next()).is_pending());
            for sleep in &mut sleeps {
                sleep.reset_at(start + (round + 1) * SHORT);
            }
            queue.reset(&key, SHORT);
            assert_eq!(clock.advance_to_next(), Some(start + (round + 1) * SHORT));
        }
        done.store(true, Ordering::Relaxed);
        looks.join().unwrap();
    }
}
