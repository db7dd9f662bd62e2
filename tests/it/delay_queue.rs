//! `DelayQueue` as a user sees it. If a test names an issue, it is for a bug in another queue or timer.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, OnDrop, Wakes, YEAR, current_thread, longest, ms, must_end, panic_message, paused, settle};
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

/// Runs on a runtime whose clock moves only when every task waits.
fn on_paused_time(test: impl Future<Output = ()>) {
    paused().block_on(test);
}

// Order and time

#[test]
fn nothing_is_early_in_a_queue_that_is_made_long_after_its_clock_was_paused() {
    on_paused_time(async {
        std::thread::sleep(ms(1_200));
        let (mut queue, start) = (DelayQueue::new(), Instant::now());
        queue.insert('a', ms(5));
        assert!(poll(&mut queue).is_pending());
        assert_eq!(queue.next().await.map(Expired::into_inner), Some('a'));
        assert_eq!(start.elapsed(), ms(5));
    });
}

#[test]
fn nothing_is_early_in_a_queue_that_was_used_on_a_clock_further_on() {
    let mut queue = DelayQueue::new();
    on_paused_time(async {
        hairspring::sleep(HOUR).await;
        queue.insert('a', ms(5));
        queue.clear();
    });
    on_paused_time(async {
        queue.insert('b', ms(5));
        assert!(poll(&mut queue).is_pending());
    });
}

#[test]
fn entries_come_by_deadline_and_first_in_first_out_within_one() {
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
fn deadlines_a_nanosecond_apart_come_in_their_order() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        for nanos in (0..200).rev() {
            queue.insert_at(nanos, start + ms(1) + Duration::from_nanos(nanos));
        }
        let came: Vec<_> = queue.map(Expired::into_inner).collect().await;
        assert!(came.is_sorted() && came.len() == 200);
    });
}

/// libuv 4773, node 26578
#[test]
fn nothing_comes_early_on_the_systems_clock() {
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

/// tokio 8334 in a queue: tokio-util 0.7.20 returns the near entry on day 815, because the far one, 797 days ahead, is
/// in the slot of the last level that contains the present.
#[test]
fn an_entry_20_days_ahead_does_not_come_on_day_815_where_a_far_one_shares_a_slot_with_the_present() {
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
fn far_and_near_entries_at_every_power_of_two_come_on_time() {
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
fn the_longest_durations_and_the_last_instants_are_accepted_and_never_come() {
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
fn what_is_due_exactly_now_is_ready() {
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
fn an_entry_that_comes_back_at_once_keeps_no_other_from_coming() {
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

/// caffeine 3cf6d2937, agrona 8d05ce12
#[test]
fn a_mass_expiry_comes_in_order_and_lets_other_tasks_run() {
    const MANY: u32 = 200_000;
    current_thread().block_on(async {
        let mut queue = DelayQueue::new();
        let when = Instant::now();
        for value in 0..MANY {
            queue.insert_at(value, when);
        }
        let turns = Rc::new(Cell::new(0));
        let counted = turns.clone();
        let local = tokio::task::LocalSet::new();
        local.spawn_local(async move {
            loop {
                counted.set(counted.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let consumer = local.run_until(async {
            for value in 0..MANY {
                assert_eq!(queue.next().await.unwrap().into_inner(), value);
            }
        });
        consumer.await;
        assert!(turns.get() > 100, "others ran {} times", turns.get());
    });
}

/// As above, but the entries become due together and are not in order: the queue sorts them in parts.
#[test]
fn a_mass_expiry_in_no_order_is_sorted_a_part_at_a_time() {
    const MANY: u64 = 100_000;
    // Outside of a task, where no budget ends a poll.
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
                assert_eq!(woken.count(), pauses, "it is to be polled again");
            }
        }
    }
    assert_eq!(count, MANY);
    assert!(pauses >= 2, "{pauses} pauses");
}

// Keys

/// tokio 3558, 3270
#[test]
fn a_key_of_an_entry_that_is_gone_is_refused_and_never_names_a_newer_one() {
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
        let deadline = queue.deadline(&live);
        for key in &stale {
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
        }
        assert_eq!((queue.deadline(&live), queue.len()), (deadline, 1), "it is as it was");
        assert_eq!(queue.remove(&live).into_inner(), 4);
    });
}

#[test]
fn a_try_to_reset_an_entry_that_is_there_resets_it() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let key = queue.insert(1, HOUR);
        let other = queue.insert(2, 2 * HOUR);
        let start = Instant::now();
        assert!(queue.try_reset(&key, 3 * HOUR));
        assert_eq!((queue.deadline(&key), queue.peek()), (start + 3 * HOUR, Some(other)));
        let (woken, waker) = Wakes::new();
        assert!(poll_with(&mut queue, &waker).is_pending());
        assert!(queue.try_reset_at(&key, start + ms(1)));
        assert_eq!(woken.count(), 1, "the task waits for a later entry");
        assert_eq!(queue.next().await.map(|entry| (entry.key(), start.elapsed())), Some((key, ms(1))));
    });
}

/// What a queue says to a key that names no entry of it.
const REFUSAL: &str = "invalid key: its entry was already returned or removed, or belongs to another queue";

/// A bug that this crate had: a `DelayQueue` removed an entry by the key of another queue.
#[test]
fn a_key_of_another_queue_is_refused_whatever_became_of_both() {
    // The entries have the same places in their queues.
    let filled = |count| {
        let mut queue = DelayQueue::new();
        let keys: Vec<Key> = (0..count).map(|n| queue.insert(n, HOUR)).collect();
        (queue, keys)
    };
    for count in [1, 2_000] {
        let (mut queue, keys) = filled(count);
        let (mut moved, mut foreign) = filled(count);
        foreign.extend(filled(count).1); // that queue is gone
        let mut cleared = filled(count);
        cleared.0.clear();
        foreign.extend(cleared.1);
        foreign.extend((0..count).map(|n| cleared.0.insert(n, HOUR)));
        moved = std::thread::spawn(move || {
            moved.compact();
            moved
        })
        .join()
        .unwrap();
        foreign.push(moved.insert(0, HOUR));
        foreign.extend(moved.drain().map(|entry| entry.key()));
        for key in &foreign {
            assert!(!keys.contains(key) && queue.try_remove(key).is_none());
        }
        let key = &foreign[0];
        for message in [
            panic_message(|| queue.remove(key).into_inner()),
            panic_message(|| queue.reset(key, ms(1))),
            panic_message(|| queue.reset_at(key, Instant::now())),
            panic_message(|| queue.deadline(key)),
        ] {
            assert_eq!(message, REFUSAL);
        }
        assert_eq!(queue.len(), keys.len(), "it is as it was");
        assert!(keys.iter().zip(0..).all(|(key, n)| queue.remove(key).into_inner() == n));
    }
}

/// tokio 2473, 3270
#[test]
fn what_is_due_and_was_not_polled_can_be_reset_and_removed() {
    on_paused_time(async {
        for wait in [Duration::ZERO, ms(64), ms(70)] {
            let mut queue = DelayQueue::new();
            let keys = [0, 1, 2].map(|value| queue.insert(value, wait));
            queue.insert(3, wait);
            tokio::time::advance(ms(80)).await;
            assert_eq!(poll(&mut queue), Poll::Ready(Some(0)));
            queue.reset(&keys[1], ms(5));
            queue.reset(&keys[1], ms(9));
            assert_eq!(queue.remove(&keys[2]).into_inner(), 2);
            assert_eq!(poll(&mut queue), Poll::Ready(Some(3)));
            assert!(poll(&mut queue).is_pending());
            tokio::time::advance(ms(9)).await;
            assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
            assert_eq!(poll(&mut queue), Poll::Ready(None));
        }
    });
}

/// netty 2541, STPE `removeOnCancel`, go 75935
#[test]
fn what_a_removed_entry_held_is_given_back_at_once() {
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

/// netty 14959, 6947
#[test]
fn the_count_is_right_whatever_is_tried_twice() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let keys = [0, 1, 2, 3].map(|value| queue.insert(value, Duration::ZERO));
        assert!(queue.try_remove(&keys[1]).is_some() && queue.try_remove(&keys[1]).is_none());
        assert_eq!(queue.len(), 3);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(0)));
        assert!(queue.try_remove(&keys[0]).is_none());
        queue.reset(&keys[2], HOUR);
        assert_eq!(queue.len(), 2);
    });
}

/// agrona 346, chronos 342
#[test]
fn draining_gives_all_that_was_not_handed_out_with_its_deadline_the_first_due_first() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        let start = Instant::now();
        let keys: Vec<_> = (0..100).map(|n| queue.insert_at(n, start + ms((n * 37) % 100))).collect();
        tokio::time::advance(ms(50)).await;
        for _ in 0..10 {
            assert!(matches!(poll(&mut queue), Poll::Ready(Some(_))));
        }
        let drained = queue.drain();
        assert_eq!(drained.len(), 90);
        for (left, due) in drained.zip(10..) {
            let value = *left.get_ref();
            assert_eq!(left.deadline(), start + ms(due));
            assert_eq!((value * 37) % 100, due);
            assert_eq!(left.key(), keys[usize::try_from(value).unwrap()]);
        }
        assert!(queue.is_empty() && queue.drain().next().is_none());
        queue.insert(7, ms(5));
        assert!(poll(&mut queue).is_pending(), "it goes on as before");
        assert_eq!(queue.next().await.unwrap().into_inner(), 7);
        assert_eq!(start.elapsed(), ms(55));
    });
}

/// agrona 164cc842, caffeine 3e66fe9de
#[test]
fn a_payload_that_panics_as_it_is_dropped_leaves_a_queue_that_works() {
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

// Memory

#[test]
fn room_that_is_reserved_stays_until_it_is_given_back() {
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

/// A page of these takes 1 GiB.
#[test]
fn an_empty_queue_has_no_room_for_entries() {
    assert_eq!(DelayQueue::<[u8; 1 << 23]>::new().capacity(), 0);
}

// Where it may be used

#[test]
fn it_can_be_made_filled_and_asked_for_what_is_due_without_a_runtime() {
    let mut queue = DelayQueue::new();
    let key = queue.insert(2, HOUR);
    queue.insert(1, Duration::ZERO);
    assert_eq!(poll(&mut queue), Poll::Ready(Some(1)));
    assert_eq!(poll(&mut queue), Poll::Pending);
    queue.remove(&key);
    assert_eq!(poll(&mut queue), Poll::Ready(None));

    queue.insert(3, ms(1));
    crate::common::bare()[0].block_on(async { assert_eq!(queue.next().await.unwrap().into_inner(), 3) });
    queue.insert(4, ms(1));
    assert_eq!(futures::executor::block_on(queue.next()).unwrap().into_inner(), 4);
}

#[test]
fn it_waits_on_with_the_runtime_that_polls_it() {
    must_end(|| {
        let [first, second] = crate::common::both_flavours();
        let mut queue = DelayQueue::new();
        first.block_on(async {
            let key = queue.insert(1, HOUR);
            assert!(poll(&mut queue).is_pending());
            queue.reset(&key, ms(30));
        });
        drop(first);
        assert_eq!(second.block_on(queue.next()).unwrap().into_inner(), 1);
    });
}

#[test]
fn on_a_timer_that_was_shut_down_it_panics_and_never_hangs() {
    current_thread().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let mut queue = DelayQueue::with_timer(&timer);
        queue.insert(1, HOUR);
        assert!(poll(&mut queue).is_pending());
        assert_eq!(timer.shutdown(), 1);
        assert!(panic_message(|| poll(&mut queue)).contains("shut down"));
    });
}

#[test]
fn on_a_full_timer_it_panics_and_keeps_its_entries() {
    current_thread().block_on(async {
        let timer = Timer::builder().capacity(1).build().unwrap();
        let mut other = timer.sleep(HOUR);
        assert!(futures::poll!(&mut other).is_pending());
        let mut queue = DelayQueue::with_timer(&timer);
        queue.insert(1, Duration::ZERO);
        let key = queue.insert(2, HOUR);
        assert_eq!(poll(&mut queue), Poll::Ready(Some(1)), "what is due takes no room");
        assert!(panic_message(|| poll(&mut queue)).contains("at capacity"));
        drop(other);
        assert!(poll(&mut queue).is_pending());
        queue.reset(&key, ms(1));
        assert_eq!(queue.next().await.unwrap().into_inner(), 2);
    });
}

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

#[test]
fn a_wait_that_is_dropped_loses_nothing() {
    on_paused_time(async {
        let mut queue = DelayQueue::new();
        queue.insert('a', ms(10));
        for _ in 0..3 {
            assert!(hairspring::timeout(ms(2), queue.next()).await.is_err());
        }
        assert_eq!(queue.next().await.unwrap().into_inner(), 'a');
    });
}

#[test]
fn it_has_the_traits_of_tokio_utils() {
    fn is<T: Send + Sync + Unpin + Default + std::fmt::Debug + futures::Stream>() {}
    fn is_key<T: Send + Sync + Copy + Eq + std::hash::Hash + std::fmt::Debug>() {}
    fn is_unpin<T: Unpin>() {}
    is::<DelayQueue<u8>>();
    is_key::<Key>();
    is_unpin::<DelayQueue<std::marker::PhantomPinned>>();
    assert!(size_of::<DelayQueue<[u8; 1_000]>>() < 256);
}

#[test]
fn timeouts_can_be_written_behind_a_future() {
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

/// One program for both queues: only the names of the types differ.
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
fn a_program_written_for_tokio_utils_queue_does_the_same() {
    on_paused_time(async { assert_eq!(ours().await, theirs().await) });
}

#[test]
fn a_queue_that_has_nothing_to_wait_for_keeps_no_timer() {
    current_thread().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let mut queue = DelayQueue::with_timer(&timer);
        let key = queue.insert("removed", HOUR);
        assert!(poll(&mut queue).is_pending());
        assert_eq!(timer.metrics().pending(), 1);
        queue.remove(&key);
        assert_eq!(poll(&mut queue), Poll::Ready(None));
        assert_eq!(timer.metrics().pending(), 0);
        queue.insert("cleared", HOUR);
        assert!(poll(&mut queue).is_pending());
        queue.clear();
        assert_eq!(timer.metrics().pending(), 0);
    });
}
