//! `DelayQueue`. The issues that tests name are bugs of other queues and timers. The `queue` target of the fuzzer
//! compares every operation with a model.

use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, current_thread, ms, must_end_on, on_wake, panic_message, paused, wait_until};
use futures::{FutureExt, StreamExt};
use hairspring::delay_queue::{Expired, Key};
use hairspring::{DelayQueue, Duration, Instant, Timer};

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

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_dropped_loses_nothing() {
    let mut queue = DelayQueue::new();
    assert!(queue.recv().await.is_none(), "it is empty");
    queue.insert('a', ms(20));
    queue.insert('b', ms(30));
    assert!(hairspring::timeout(ms(10), queue.recv()).await.is_err());
    for value in ['a', 'b'] {
        assert_eq!(queue.recv().await.map(Expired::into_inner), Some(value));
    }
    assert!(queue.recv().await.is_none());
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

/// A bug that this crate had: everything came out at once. The runtime whose clock is ahead has ended, or the queue
/// still waits there.
#[test]
fn nothing_is_early_or_late_on_a_clock_that_is_behind() {
    for (ends, polls_first) in [(true, false), (true, true), (false, false), (false, true)] {
        let mut queue = DelayQueue::new();
        let ahead = paused();
        let keys: Vec<Key> = ahead.block_on(async {
            hairspring::sleep(HOUR).await;
            let keys = (0..1_000).map(|n| queue.insert(n, HOUR * (1 + n % 4))).collect();
            hairspring::sleep(3 * HOUR).await;
            assert_eq!(queue.next().await.map(Expired::into_inner), Some(0));
            assert!(!ends || queue.next().await.is_some());
            while !ends && queue.len() > 250 {
                queue.next().await;
            }
            assert!(ends || poll(&mut queue).is_pending());
            keys
        });
        let _alive = if ends { None } else { Some(ahead) };
        on_paused_time(async {
            let start = Instant::now();
            assert!(!polls_first || poll(&mut queue).is_pending(), "early");
            assert!(!queue.try_reset(&keys[0], HOUR));
            queue.reset(&keys[3], HOUR);
            assert_eq!(queue.remove(&keys[7]).into_inner(), 7);
            assert_eq!(queue.insert(1_000, ms(60_000)), queue.peek().unwrap());
            let (mut before, mut count) = ((Instant::now(), 0), queue.len());
            while let Some(expired) = queue.next().await {
                let this = (expired.deadline(), *expired.get_ref());
                assert!((this.0..this.0 + ms(1)).contains(&Instant::now()), "{this:?} at {:?}", start.elapsed());
                assert!(before < this || this.1 == 3, "{before:?}, then {this:?}");
                (before, count) = (this, count - 1);
            }
            assert_eq!(count, 0);
        });
    }
}

/// A bug that this crate had: the entries came out at once.
#[test]
fn an_empty_queue_may_go_to_a_clock_that_is_far_behind() {
    let mut queue = DelayQueue::new();
    on_paused_time(async {
        hairspring::sleep(5 * HOUR).await;
        queue.insert('a', ms(5));
        assert!(queue.next().await.is_some());
    });
    on_paused_time(async {
        let start = Instant::now();
        let key = queue.insert('b', HOUR);
        queue.reset(&key, ms(5));
        queue.insert('c', ms(4));
        assert_eq!(queue.next().await.map(Expired::into_inner), Some('c'));
        assert_eq!(queue.next().await.map(Expired::into_inner), Some('b'));
        assert_eq!(start.elapsed(), ms(5));
    });
}

/// libuv 4245, akka 32271
#[test]
fn an_entry_that_is_always_due_delays_no_other() {
    must_end_on(current_thread(), async || {
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
}

/// The entries become due together and out of order, so the queue sorts them in parts.
#[test]
fn a_poll_sorts_a_mass_expiry_in_parts() {
    const MANY: u64 = 100_000;
    // Outside a task, no coop budget ends a poll.
    let mut queue = DelayQueue::new();
    let start = Instant::now();
    for value in 0..MANY {
        queue.insert_at(value, start + Duration::from_nanos((value * 7_919) % MANY));
    }
    let (woken, waker) = Wakes::new();
    let (mut before, mut count, mut pauses, mut seen) = (start, 0, 0, 0);
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
                // It waits for a turn at first, then asks to be polled again.
                wait_until(|| woken.count() > seen);
                seen = woken.count();
            }
        }
    }
    assert_eq!(count, MANY);
    assert!(pauses >= 3, "{pauses} pauses");
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

/// The fuzzer checks that each change of a poll's answer wakes the last poller.
#[test]
fn a_change_that_leaves_the_answer_wakes_nobody() {
    on_paused_time(async {
        let changes: [fn(&mut DelayQueue<u8>, &Key); 3] = [
            |queue, _| _ = queue.insert(2, 2 * HOUR),
            |queue, key| _ = (queue.insert(2, 2 * HOUR), queue.remove(key)),
            |queue, key| {
                queue.insert(2, 2 * HOUR);
                queue.reset(key, 3 * HOUR);
            },
        ];
        for change in changes {
            let mut queue = DelayQueue::new();
            let key = queue.insert(1, HOUR);
            let (woken, waker) = Wakes::new();
            assert!(poll_with(&mut queue, &waker).is_pending());
            change(&mut queue, &key);
            assert_eq!((woken.count(), poll(&mut queue)), (0, Poll::Pending));
        }
        let mut queue = DelayQueue::new();
        let key = queue.insert(1, HOUR);
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        queue.reset(&key, 3 * HOUR);
        assert_eq!(woken.count(), 1, "the poller waits for this entry");
    });
}

/// A bug that this crate had: the queue lost what it had taken out.
#[test]
fn a_panicking_waker_does_not_end_the_operation_that_wakes_it() {
    on_paused_time(async {
        let empties: [fn(&mut DelayQueue<u8>, Key) -> usize; 3] = [
            |queue, key| queue.remove(&key).into_inner().into(),
            |queue, _| queue.drain().count(),
            |queue, _| {
                queue.clear();
                1
            },
        ];
        let panics = on_wake(|| panic!("on purpose"));
        for empties in empties {
            let mut queue = DelayQueue::new();
            let key = queue.insert(1, HOUR);
            assert!(poll_with(&mut queue, &panics).is_pending());
            assert_eq!((empties(&mut queue, key), queue.len()), (1, 0));
        }
    });
}

// Memory

/// A bug that this crate had: if the start of the first entry's slot had passed, a poll woke the task that had polled
/// before.
#[cfg(feature = "test-util")]
#[test]
fn a_poll_that_waits_wakes_nobody() {
    for seconds in 1..100 {
        let clock = hairspring::test_util::ManualClock::new();
        let mut queue = DelayQueue::with_timer(&Timer::builder().clock(&clock).build().unwrap());
        queue.insert(0, Duration::ZERO);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(0)));
        let due = clock.now() + ms(100_000);
        for after in 1..=16 {
            queue.insert_at(after, due + ms(after));
        }
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        clock.advance(ms(1_000 * seconds));
        // Out of order, and so many that the queue knows only in which slot the first is.
        queue.insert_at(17, due + ms(2));
        assert!(poll(&mut queue).is_pending());
        assert_eq!(woken.count(), 0, "after {seconds} s");
    }
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
fn a_poll_on_an_ended_timer_panics_and_loses_nothing() {
    current_thread().block_on(async {
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

/// One program for both queues. Only the types differ. A bug that this crate had: what was due when its queue was
/// created was pending at first.
macro_rules! program {
    ($name:ident, $queue:ty, $instant:ty) => {
        async fn $name() -> Vec<String> {
            let mut queue = <$queue>::with_capacity(4);
            let start = <$instant>::now();
            let mut log = vec![format!("{} {}", queue.capacity(), queue.is_empty())];
            queue.insert_at("due", start);
            log.push(format!("{}", queue.next().now_or_never().is_some()));
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
