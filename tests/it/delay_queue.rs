//! `DelayQueue`. The issues that tests name are bugs of other queues and timers. The `queue` target of the fuzzer
//! compares every operation with a model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{
    HOUR, OnDrop, Wakes, YEAR, bare, both_flavours, current_thread, longest, ms, must_end, panic_message, paused,
    settle,
};
use futures::StreamExt;
use hairspring::delay_queue::{Expired, Key};
use hairspring::{DelayQueue, Duration, Instant, Timer};

const DAY: Duration = Duration::from_secs(86_400);

fn poll_with<T>(queue: &mut DelayQueue<T>, waker: &Waker) -> Poll<Option<Expired<T>>> {
    queue.poll_expired(&mut Context::from_waker(waker))
}

fn poll<T>(queue: &mut DelayQueue<T>) -> Poll<Option<T>> {
    poll_with(queue, Waker::noop()).map(|expired| expired.map(Expired::into_inner))
}

/// On a clock that moves only when every task waits.
fn on_paused_time(test: impl Future<Output = ()>) {
    paused().block_on(test);
}

// Order and time

#[test]
fn entries_come_by_deadline_then_first_in_first_out() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for (value, after) in [("d", 9), ("b", 5), ("c", 5), ("a", 2), ("e", 9)] {
            queue.insert_at(value, start + ms(after));
        }
        let came: Vec<_> = queue.by_ref().map(|expired| (expired.into_inner(), start.elapsed())).collect().await;
        assert_eq!(came, [("a", ms(2)), ("b", ms(5)), ("c", ms(5)), ("d", ms(9)), ("e", ms(9))]);
    });
}

#[test]
fn nothing_is_early_on_a_clock_paused_earlier() {
    let mut elsewhere = DelayQueue::new();
    on_paused_time(async {
        hairspring::sleep(HOUR).await;
        elsewhere.insert('a', ms(5));
        elsewhere.clear();
    });
    on_paused_time(async {
        std::thread::sleep(ms(1_200));
        for mut queue in [elsewhere, DelayQueue::new()] {
            let start = Instant::now();
            queue.insert('b', ms(5));
            assert!(poll(&mut queue).is_pending());
            assert_eq!(queue.next().await.map(Expired::into_inner), Some('b'));
            assert_eq!(start.elapsed(), ms(5));
        }
    });
}

/// libuv 4773, node 26578
#[test]
fn nothing_is_early_on_the_system_clock() {
    current_thread().block_on(async {
        let mut queue = DelayQueue::new();
        for micros in [0, 1, 250, 999, 1_000, 1_001, 1_900, 3_001] {
            queue.insert((), Duration::from_micros(micros));
        }
        while let Some(expired) = queue.next().await {
            assert!(Instant::now() >= expired.deadline());
        }
    });
}

/// tokio 8334: tokio-util 0.7.20 returns the near entry on day 815, because the far one, due on day 797, is in the
/// current slot of the top level.
#[test]
fn a_far_entry_in_the_current_slot_delays_none() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        queue.insert(20, 20 * DAY);
        queue.insert(5, 5 * DAY);
        queue.insert(6, 6 * DAY);
        for days in [5, 6, 20, 797] {
            assert_eq!(queue.next().await.unwrap().into_inner(), days);
            let late = start.elapsed().checked_sub(days * DAY).expect("not early");
            assert!(late < ms(2), "{late:?} late");
            if days == 5 {
                queue.insert(797, 792 * DAY);
            }
        }
    });
}

/// folly c53bda788, 67cb8eed5, netty 1959, akka 1016
#[test]
fn entries_at_every_power_of_two_come_on_time() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for bit in (0..40).rev() {
            for millis in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                queue.insert_at(millis, start + ms(millis));
            }
        }
        let mut before = 0;
        while let Some(expired) = queue.next().await {
            let millis = expired.into_inner();
            assert!(millis >= before, "in order");
            assert!(start.elapsed() >= ms(millis) && start.elapsed() < ms(millis + 2));
            before = millis;
        }
        assert_eq!(before, (1 << 39) + 1);
    });
}

/// tokio 5183, 2667, 4495, 6634, netty 7760
#[test]
fn any_duration_and_any_instant_is_accepted() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let mut keys = Vec::new();
        for after in longest() {
            keys.push(queue.insert((), after));
            keys.push(queue.insert_at((), Instant::now() + after));
            let key = queue.insert((), ms(1));
            queue.reset(&key, after);
            keys.push(key);
            queue.reset_at(&key, Instant::now() + after);
        }
        tokio::time::advance(100 * YEAR).await;
        settle().await;
        assert!(poll(&mut queue).is_pending());
        assert!(keys.iter().all(|key| queue.deadline(key) > Instant::now() + 100 * YEAR));
        assert!(queue.drain().all(|entry| entry.deadline() > Instant::now() + 100 * YEAR));
    });
}

/// async-io ff76625
#[test]
fn an_entry_due_exactly_now_is_ready() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        assert_eq!(poll(&mut queue), Poll::Ready(None));
        queue.insert_at('a', Instant::now());
        assert_eq!(poll(&mut queue), Poll::Ready(Some('a')));
        queue.insert('b', Duration::ZERO);
        queue.insert_at('c', Instant::now() - HOUR);
        assert_eq!(poll(&mut queue), Poll::Ready(Some('b')));
        assert_eq!(poll(&mut queue), Poll::Ready(Some('c')));
        let later = Instant::now() + ms(3);
        queue.insert_at('d', later);
        assert!(poll(&mut queue).is_pending());
        tokio::time::advance(ms(3)).await;
        assert_eq!(poll(&mut queue), Poll::Ready(Some('d')));
    });
}

/// libuv 4245, akka 32271
#[test]
fn an_entry_that_is_always_due_delays_no_other() {
    must_end(|| {
        current_thread().block_on(async {
            for eager_is_past in [false, true] {
                let mut queue = DelayQueue::new();
                let long_ago = Instant::now() - HOUR;
                queue.insert("eager", Duration::ZERO);
                for _ in 0..200 {
                    queue.insert("patient", ms(2));
                }
                let mut patient = 0;
                while patient < 200 {
                    if queue.next().await.unwrap().into_inner() == "patient" {
                        patient += 1;
                    } else if eager_is_past {
                        queue.insert_at("eager", long_ago);
                    } else {
                        queue.insert("eager", Duration::ZERO);
                    }
                }
            }
        });
    });
}

/// The entries become due together and out of order, so the queue sorts them in parts.
#[test]
fn a_poll_sorts_a_mass_expiry_in_parts() {
    const MANY: u64 = 100_000;
    // Outside a task, no coop budget ends a poll.
    let mut queue = DelayQueue::new();
    let start = Instant::now() - ms(200);
    for value in 0..MANY {
        queue.insert_at(value, start + Duration::from_nanos((value * 7_919) % MANY));
    }
    let (woken, waker) = Wakes::new();
    let (mut before, mut count, mut pauses) = (start, 0, 0);
    loop {
        match poll_with(&mut queue, &waker) {
            Poll::Ready(Some(expired)) => {
                assert!(expired.deadline() >= before);
                before = expired.deadline();
                count += 1;
            }
            Poll::Ready(None) => break,
            Poll::Pending => {
                pauses += 1;
                assert_eq!(woken.count(), pauses, "the queue asks to be polled again");
            }
        }
    }
    assert_eq!(count, MANY);
    assert!(pauses >= 2, "{pauses} pauses");
}

/// caffeine 3cf6d2937, agrona 8d05ce12: a mass expiry that stalls everything else.
#[test]
fn each_entry_spends_one_of_the_tasks_budget() {
    let mut queue = DelayQueue::new();
    for value in 0..1_000 {
        queue.insert(value, Duration::ZERO);
    }
    let in_one_poll = std::future::poll_fn(move |cx| {
        let mut count = 0;
        while let Poll::Ready(Some(_)) = queue.poll_expired(cx) {
            count += 1;
        }
        Poll::Ready(count)
    });
    let count = current_thread().block_on(async { tokio::spawn(in_one_poll).await.unwrap() });
    assert!((100..=200).contains(&count), "{count} in one poll");
}

// Keys

/// The message for a key that names no entry of the queue.
const REFUSAL: &str = "invalid key: its entry was already returned or removed, or belongs to another queue";

fn assert_refused(queue: &mut DelayQueue<u32>, key: &Key) {
    let (len, first) = (queue.len(), queue.peek());
    assert!(queue.try_remove(key).is_none());
    assert!(!queue.try_reset(key, ms(1)) && !queue.try_reset_at(key, Instant::now()));
    for message in [
        panic_message(|| queue.remove(key).into_inner()),
        panic_message(|| queue.reset(key, ms(1))),
        panic_message(|| queue.reset_at(key, Instant::now())),
        panic_message(|| queue.deadline(key)),
    ] {
        assert_eq!(message, REFUSAL);
    }
    assert_eq!((queue.len(), queue.peek()), (len, first), "nothing has changed");
}

/// tokio 3558, 3270: a stale key that removes another entry.
#[test]
fn a_stale_key_is_refused() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let mut stale = vec![queue.insert(0, HOUR)];
        queue.remove(&stale[0]);
        stale.push(queue.insert(1, Duration::ZERO));
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
        stale.push(queue.insert(2, HOUR));
        queue.clear();
        stale.push(queue.insert(3, HOUR));
        stale.extend(queue.drain().map(|entry| entry.key()));
        queue.compact();
        let live = queue.insert(4, HOUR);
        for key in &stale {
            assert_refused(&mut queue, key);
        }
        assert_eq!(queue.remove(&live).into_inner(), 4);
    });
}

/// A bug that this crate had: a queue removed an entry by the key of another queue.
#[test]
fn a_key_of_another_queue_is_refused() {
    // The entries have the same positions in their queues.
    let filled = |count| {
        let mut queue = DelayQueue::new();
        let keys: Vec<Key> = (0..count).map(|n| queue.insert(n, HOUR)).collect();
        (queue, keys)
    };
    for count in [1, 2_000] {
        let (mut queue, keys) = filled(count);
        let (mut other, mut foreign) = filled(count);
        foreign.extend(filled(count).1); // of a queue that was dropped
        other.clear();
        foreign.extend((0..count).map(|n| other.insert(n, HOUR)));
        other = std::thread::spawn(|| other).join().unwrap();
        foreign.push(other.insert(0, HOUR));
        foreign.extend(other.drain().map(|entry| entry.key()));
        for key in &foreign {
            assert!(!keys.contains(key) && queue.try_remove(key).is_none());
        }
        assert_refused(&mut queue, &foreign[0]);
        assert!(keys.iter().zip(0..).all(|(key, n)| queue.remove(key).into_inner() == n));
    }
}

// Wake-ups

/// Each change is made to a queue with one entry, due in an hour, while a task waits for it.
#[test]
fn only_a_changed_answer_wakes_the_poller() {
    type Change = fn(&mut DelayQueue<u8>, &Key);
    let changes: [(&str, Change, usize, Poll<Option<u8>>); 12] = [
        ("tokio 8274: reset to earlier", |queue, key| queue.reset(key, ms(10)), 1, Poll::Pending),
        ("tokio 2217: reset to now", |queue, key| queue.reset(key, ms(0)), 1, Poll::Ready(Some(1))),
        ("reset to the past", |queue, key| queue.reset_at(key, Instant::now() - ms(5)), 1, Poll::Ready(Some(1))),
        ("reset to later, as in tokio-util", |queue, key| queue.reset(key, 2 * HOUR), 1, Poll::Pending),
        ("tokio 6751: remove the last", |queue, key| _ = queue.remove(key), 1, Poll::Ready(None)),
        ("tokio 8320: clear", |queue, _| queue.clear(), 1, Poll::Ready(None)),
        ("drain", |queue, _| drop(queue.drain()), 1, Poll::Ready(None)),
        ("insert later", |queue, _| _ = queue.insert(2, 2 * HOUR), 0, Poll::Pending),
        ("insert earlier", |queue, _| _ = queue.insert(2, ms(5)), 1, Poll::Pending),
        ("insert earlier twice", |queue, _| _ = (queue.insert(2, ms(5)), queue.insert(3, ms(4))), 1, Poll::Pending),
        ("remove one of two", |queue, key| _ = (queue.insert(2, 2 * HOUR), queue.remove(key)), 0, Poll::Pending),
        (
            "postpone one of two",
            |queue, key| {
                queue.insert(2, 2 * HOUR);
                queue.reset(key, 3 * HOUR);
            },
            0,
            Poll::Pending,
        ),
    ];
    on_paused_time(async {
        for (name, change, wakes, answer) in changes {
            let mut queue = DelayQueue::new();
            let key = queue.insert(1, HOUR);
            let ((first, old), (woken, waker)) = (Wakes::new(), Wakes::new());
            assert!(poll_with(&mut queue, &old).is_pending() && poll_with(&mut queue, &waker).is_pending());
            change(&mut queue, &key);
            assert_eq!((first.count(), woken.count()), (0, wakes), "{name}: the last waker only");
            assert_eq!(poll(&mut queue), answer, "{name}");
        }
        let mut empty = DelayQueue::new();
        let (woken, waker) = Wakes::new();
        assert!(matches!(poll_with(&mut empty, &waker), Poll::Ready(None)));
        empty.insert(1, Duration::MAX);
        assert_eq!(woken.count(), 1, "insert into an empty queue");
    });
}

/// netty 1246
#[test]
fn a_far_entry_costs_one_wake_up() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        queue.insert(1, HOUR);
        queue.insert(2, 10 * HOUR);
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        for (after, wakes) in [(HOUR.saturating_sub(ms(1)), 0), (ms(1), 1)] {
            tokio::time::advance(after).await;
            settle().await;
            assert_eq!(woken.count(), wakes);
        }
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    });
}

/// tokio 1700
#[test]
fn an_insert_after_an_expiry_delays_none() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for second in 1..=5 {
            queue.insert(second, Duration::from_secs(second));
        }
        for second in 1..=5 {
            assert_eq!(queue.next().await.unwrap().into_inner(), second);
            assert_eq!(start.elapsed(), Duration::from_secs(second));
            queue.insert(100, Duration::from_secs(100));
        }
    });
}

#[test]
fn dropping_a_wait_loses_nothing() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        queue.insert('a', ms(10));
        for _ in 0..3 {
            assert!(hairspring::timeout(ms(2), queue.next()).await.is_err());
        }
        assert_eq!(queue.next().await.unwrap().into_inner(), 'a');
    });
}

// Memory

/// netty 2541, STPE `removeOnCancel`, go 75935
#[test]
fn a_removed_entry_is_dropped_immediately() {
    let mut queue = DelayQueue::new();
    let payload = Rc::new(());
    let key = queue.insert(payload.clone(), HOUR);
    drop(queue.remove(&key));
    assert_eq!(Rc::strong_count(&payload), 1);
    queue.insert(payload.clone(), HOUR);
    queue.clear();
    assert_eq!(Rc::strong_count(&payload), 1);
    queue.insert(payload.clone(), HOUR);
    drop(queue);
    assert_eq!(Rc::strong_count(&payload), 1);
}

/// agrona 164cc842, caffeine 3e66fe9de
#[test]
fn a_queue_works_after_a_payloads_drop_panicked() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        for number in 0..5 {
            queue.insert(Some(OnDrop(move || assert!(number != 2, "dropped"))), HOUR);
        }
        let (told, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
        assert_eq!((told.count(), queue.len()), (1, 0));
        queue.insert(None, ms(1));
        assert!(queue.next().await.is_some());
    });
}

#[test]
fn reserved_room_stays_until_it_is_released() {
    let mut queue = DelayQueue::with_capacity(1_000);
    assert_eq!(queue.capacity(), 1_000);
    let keys: Vec<_> = (0..3_000).map(|value| queue.insert(value, HOUR)).collect();
    assert_eq!(queue.capacity(), 3_000);
    for key in &keys[5..] {
        queue.remove(key);
    }
    assert_eq!(queue.capacity(), 1_000);
    queue.reserve(2_000);
    assert_eq!(queue.capacity(), 2_005);
    queue.clear();
    assert_eq!(queue.capacity(), 2_005);
    queue.compact();
    assert_eq!(queue.capacity(), 0);
    assert!(panic_message(|| queue.reserve(usize::MAX)).contains("at most"));
}

// Where it may be used

#[test]
fn a_queue_works_outside_runtimes_and_outlives_them() {
    must_end(|| {
        for home in both_flavours() {
            let mut queue = DelayQueue::new();
            let key = queue.insert(2, HOUR);
            queue.insert(1, Duration::ZERO);
            assert_eq!((poll(&mut queue), poll(&mut queue)), (Poll::Ready(Some(1)), Poll::Pending));
            home.block_on(async {
                assert!(poll(&mut queue).is_pending());
                queue.reset(&key, ms(30));
            });
            drop(home);
            assert_eq!(futures::executor::block_on(queue.next()).unwrap().into_inner(), 2);
            for runtime in bare() {
                queue.insert(3, ms(1));
                assert_eq!(runtime.block_on(queue.next()).unwrap().into_inner(), 3);
            }
        }
    });
}

#[test]
fn a_poll_on_a_full_or_ended_timer_panics_and_loses_nothing() {
    current_thread().block_on(async {
        let mut other = Timer::builder().capacity(1).install().unwrap().sleep(HOUR);
        assert!(futures::poll!(&mut other).is_pending());
        let mut queue = DelayQueue::new();
        queue.insert(1, Duration::ZERO);
        let key = queue.insert(2, HOUR);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)), "what is due takes no room");
        assert!(panic_message(|| poll(&mut queue)).contains("at capacity"));
        drop(other);
        assert!(poll(&mut queue).is_pending());
        assert_eq!(queue.remove(&key).into_inner(), 2);

        let timer = Timer::builder().build().unwrap();
        let mut queue = DelayQueue::with_timer(&timer);
        let key = queue.insert(2, HOUR);
        assert!(poll(&mut queue).is_pending());
        assert_eq!(timer.shutdown(), 1);
        assert!(panic_message(|| poll(&mut queue)).contains("shut down"));
        assert_eq!(queue.remove(&key).into_inner(), 2);
    });
}

// As in tokio-util

#[test]
fn a_timeout_can_follow_a_future() {
    use hairspring::FutureExt;
    on_paused_time(async {
        let start = Instant::now();
        assert_eq!(async { 1 }.timeout(ms(5)).await, Ok(1));
        assert!(std::future::pending::<()>().timeout(ms(5)).await.is_err());
        assert_eq!(start.elapsed(), ms(5));
        assert!(std::future::pending::<()>().timeout_at(start + ms(9)).await.is_err());
        assert_eq!(start.elapsed(), ms(9));
        let unsized_too: &mut (dyn Future<Output = u8> + Unpin) = &mut std::future::ready(3);
        assert_eq!(unsized_too.timeout(ms(5)).await, Ok(3));
    });
}

/// One program for both queues. Only the types differ.
macro_rules! program {
    ($name:ident, $queue:ty, $instant:ty) => {
        async fn $name() -> Vec<String> {
            let mut queue = <$queue>::with_capacity(4);
            let start = <$instant>::now();
            let mut log = vec![format!("{} {}", queue.capacity(), queue.is_empty())];
            let slow = queue.insert("slow", ms(300));
            let moved = queue.insert_at("moved", start + ms(250));
            queue.insert("quick", ms(20));
            let gone = queue.insert("gone", ms(10));
            log.push(format!("{:?}", queue.peek() == Some(gone)));
            log.push(queue.remove(&gone).into_inner().to_owned());
            queue.reset(&slow, ms(400));
            queue.reset_at(&moved, start + ms(40));
            log.push(format!("{:?}", queue.deadline(&slow) - start));
            while let Some(expired) = queue.next().await {
                let late = start.elapsed().as_millis() / 5 * 5;
                log.push(format!("{} at {late} {:?}", expired.get_ref(), expired.key() == slow));
                if *expired.get_ref() == "quick" {
                    queue.insert("again", ms(100));
                    queue.compact();
                }
            }
            queue.insert("cleared", ms(5));
            queue.clear();
            log.push(format!("{} {}", queue.len(), queue.next().await.is_none()));
            log
        }
    };
}

program!(ours, DelayQueue<&'static str>, Instant);
program!(theirs, tokio_util::time::DelayQueue<&'static str>, tokio::time::Instant);

#[test]
fn it_behaves_like_tokio_utils_queue() {
    on_paused_time(async { assert_eq!(ours().await, theirs().await) });
}
