//! `DeadlineMap` and `Expirations`. The `map` target of the fuzzer compares every operation with a model.

mod builder;
mod foreign_code;
mod if_absent;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use crate::common::{
    HOUR, Wakes, bare, both_flavours, current_thread, inside, longest, ms, multi_thread, must_end, panic_message,
    paused,
};
use futures::{Stream, StreamExt};
use hairspring::{DeadlineMap, Duration, Expirations, Instant, Timer};

fn poll_with<K, V>(expirations: &mut Expirations<K, V>, waker: &Waker) -> Poll<Option<(K, V)>> {
    Pin::new(expirations).poll_next(&mut Context::from_waker(waker))
}

fn poll<K, V>(expirations: &mut Expirations<K, V>) -> Poll<Option<(K, V)>> {
    poll_with(expirations, Waker::noop())
}

#[test]
fn entries_expire_in_order_and_never_early() {
    let running = both_flavours().into_iter().chain(bare()).map(|runtime| (runtime, false));
    for (runtime, is_paused) in running.chain([(paused(), true)]) {
        runtime.block_on(async {
            let (map, expirations) = DeadlineMap::new();
            let start = Instant::now();
            for n in (1..=20).rev() {
                assert_eq!(map.insert(n, n, ms(n)), None);
            }
            drop(map);
            let mut expired: Vec<_> = expirations.map(|(key, _)| (key, start.elapsed())).collect().await;
            if !is_paused {
                // On a slow machine, the inserts may be further apart than the deadlines.
                expired.sort_unstable();
            }
            assert!(expired.iter().map(|&(key, _)| key).eq(1..=20));
            assert!(expired.iter().all(|&(key, after)| after >= ms(key)));
        });
    }
}

#[test]
fn a_map_works_outside_runtimes_and_outlives_them() {
    must_end(|| {
        let home = multi_thread(1);
        let (map, mut expirations) = inside(&home, DeadlineMap::new);
        map.insert("later", 1, HOUR);
        map.insert("due", 2, Duration::ZERO);
        assert_eq!(poll(&mut expirations), Poll::Ready(Some(("due", 2))), "a due entry needs no timer");
        assert_eq!(poll(&mut expirations), Poll::Pending);
        map.touch("later", ms(5));
        assert_eq!(futures::executor::block_on(expirations.recv()), Some(("later", 1)));
        drop(home);
        for runtime in bare() {
            map.insert("next", 3, ms(1));
            assert_eq!(runtime.block_on(expirations.recv()), Some(("next", 3)));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_touch_moves_the_deadline_either_way() {
    type Touch = fn(&DeadlineMap<&'static str, u8>, &str, Duration) -> bool;
    let touches: [(&str, Touch); 3] = [
        ("touch", |map, key, after| map.touch(key, after)),
        ("touch_at", |map, key, after| map.touch_at(key, Instant::now() + after)),
        ("touch_with", |map, key, after| map.touch_with(key, after, |value| *value += 1).is_some()),
    ];
    for (name, touch) in touches {
        let (map, mut expirations) = DeadlineMap::new();
        let start = Instant::now();
        map.insert("later", 0, HOUR);
        map.insert_at("earlier", 0, start + 3 * HOUR);
        map.insert("both", 0, HOUR);
        assert!(poll(&mut expirations).is_pending());
        assert!(touch(&map, "later", 5 * HOUR) && touch(&map, "earlier", 2 * HOUR), "{name}");
        assert!(touch(&map, "both", 9 * HOUR) && touch(&map, "both", 3 * HOUR), "{name}");
        assert!(!touch(&map, "none", HOUR), "{name}");
        for (key, hours) in [("earlier", 2), ("both", 3), ("later", 5)] {
            assert_eq!(map.deadline(key), Some(start + hours * HOUR), "{name}, {key}");
            assert_eq!(map.remaining(key), Some(start + hours * HOUR - Instant::now()), "{name}, {key}");
            assert_eq!(expirations.recv().await.map(|(key, _)| key), Some(key), "{name}");
            assert_eq!(start.elapsed(), hours * HOUR, "{name}, {key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_stream_sees_an_expired_entry() {
    // A shard stores a few entries differently from many.
    for others in [0, 100] {
        let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
        (0..others).for_each(|other| assert_eq!(map.insert(format!("alive {other}"), 0, 9 * HOUR), None));
        for key in ["gone", "again"] {
            map.insert(key.to_owned(), 1, ms(5));
        }
        tokio::time::advance(ms(5).saturating_sub(Duration::from_nanos(1))).await;
        let last = Duration::from_nanos(1);
        assert_eq!((map.remaining("gone"), map.get("gone")), (Some(last), Some(1)));
        assert_eq!(map.deadline("gone"), Some(Instant::now() + last));
        tokio::time::advance(last).await;

        assert_eq!((map.get("gone"), map.contains_key("gone"), map.remaining("gone")), (None, false, None));
        assert_eq!(map.get_with("gone", |_| panic!("it has expired")), None::<()>);
        assert_eq!((map.deadline("gone"), map.remove_if("gone", |_| panic!("it has expired"))), (None, None));
        assert_eq!(map.update("gone", |_| panic!("it has expired")), None::<()>);
        assert_eq!(map.touch_with("gone", HOUR, |_| panic!("it has expired")), None::<()>);
        assert!(!map.touch("gone", HOUR) && !map.touch_at("gone", Instant::now() + HOUR), "it stays expired");
        map.for_each(|key, _, _| assert!(key.starts_with("alive")));
        map.retain(|key, _| key.starts_with("alive"));
        assert_eq!((map.remove("gone"), map.len()), (None, others + 2), "it still counts");
        assert_eq!((map.insert("again".to_owned(), 2, HOUR), map.len()), (None, others + 3), "both count");

        let mut expired = [expirations.recv().await, expirations.recv().await].map(Option::unwrap);
        expired.sort_unstable();
        assert_eq!(expired, [("again".to_owned(), 1), ("gone".to_owned(), 1)], "nothing is lost");
        assert_eq!((map.get("again"), map.remaining("again"), map.len()), (Some(2), Some(HOUR), others + 1));
    }
}

#[test]
fn values_are_read_and_changed_by_key() {
    let (map, _expirations) = DeadlineMap::new();
    map.insert(String::from("key"), vec![1], HOUR);
    assert_eq!(map.get("key"), Some(vec![1]));
    assert_eq!(map.update("key", |value| value.push(2)), Some(()));
    assert_eq!(map.get_with("key", Vec::len), Some(2));
    assert!(map.contains_key("key") && map.contains_key(&String::from("key")));
    assert!(map.remaining("key") <= Some(HOUR), "none of these moves the deadline");
    assert_eq!(map.touch_with("key", 2 * HOUR, std::mem::take), Some(vec![1, 2]));
    map.retain(|_, value| {
        value.push(3);
        true
    });
    assert_eq!(map.remove_if("key", |value| *value != [3]), None);
    assert_eq!((map.get("key"), map.metrics().removed()), (Some(vec![3]), 0), "the condition does not hold");
    assert_eq!(map.remove_if("key", |value| *value == [3]), Some(vec![3]));
    assert_eq!((map.remove("key"), map.metrics().removed()), (None, 1));
    assert_eq!((map.get("key"), map.get_with("key", |_| ()), map.update("key", |_| ())), (None, None, None));
    assert_eq!((map.touch_with("key", HOUR, |_| ()), map.remove("key"), map.is_empty()), (None, None, true));
}

#[tokio::test(start_paused = true)]
async fn any_duration_and_any_instant_is_accepted() {
    let (map, mut expirations) = DeadlineMap::new();
    let (earliest, latest) = (Instant::now() - Duration::MAX, Instant::now() + Duration::MAX);
    for (key, duration) in longest().into_iter().enumerate() {
        map.insert(key, (), duration);
        map.insert_at(key + 10, (), latest);
        map.insert(key + 20, (), ms(1));
        assert!(map.touch(&(key + 20), duration) && map.touch_at(&key, latest));
        for key in [key, key + 10, key + 20] {
            assert!(map.remaining(&key) > Some(499 * 365 * 24 * HOUR), "{key}");
        }
    }
    assert!(poll(&mut expirations).is_pending());
    map.insert_at(30, (), earliest);
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((30, ()))));
    assert!(map.touch_at(&0, earliest));
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((0, ()))));
    assert!(map.touch(&1, ms(1)));
    assert_eq!(expirations.recv().await, Some((1, ())));
}

// The stream

#[tokio::test(start_paused = true)]
async fn the_stream_ends_after_the_last_handle_and_the_last_entry() {
    let (map, mut expirations) = DeadlineMap::new();
    let other = map.clone();
    let (woken, waker) = Wakes::new();
    map.insert('a', (), HOUR);
    drop(map);
    assert!(poll_with(&mut expirations, &waker).is_pending());
    drop(other);
    assert_eq!(woken.count(), 1, "dropping the last handle wakes, because the answer may have changed");
    assert_eq!(expirations.next().await, Some(('a', ())));
    assert_eq!((expirations.next().await, expirations.next().await), (None, None));

    let (map, mut expirations) = DeadlineMap::<u8, u8>::new();
    assert!(poll_with(&mut expirations, &waker).is_pending());
    drop(map);
    assert_eq!((woken.count(), poll(&mut expirations)), (2, Poll::Ready(None)), "an empty map");
}

#[tokio::test(start_paused = true)]
async fn without_its_stream_an_insert_drops_expired_entries() {
    let (map, mut expirations) = DeadlineMap::new();
    assert!(poll(&mut expirations).is_pending());
    drop(expirations);
    let payloads: Vec<_> = (0..1_000).map(Arc::new).collect();
    for payload in &payloads {
        map.insert(**payload, Arc::clone(payload), ms(1));
    }
    assert_eq!((map.len(), map.remaining(&7)), (1_000, Some(ms(1))), "the map still works");
    assert!(map.touch(&7, HOUR));
    tokio::time::advance(ms(2)).await;
    for key in 1_000..3_000 {
        map.insert(key, Arc::new(key), HOUR);
    }
    assert_eq!(map.len(), 2_001, "the new entries, and the one that was touched");
    assert_eq!(payloads.iter().filter(|payload| Arc::strong_count(payload) > 1).count(), 1);
}

#[test]
fn only_an_earlier_deadline_wakes_the_consumer() {
    paused().block_on(async {
        let (map, mut expirations) = DeadlineMap::new();
        let (first, waker) = Wakes::new();
        assert!(poll_with(&mut expirations, &waker).is_pending());
        map.insert(1, (), 5 * HOUR);
        assert_eq!(first.count(), 1);
        let (second, waker) = Wakes::new();
        assert!(poll_with(&mut expirations, &waker).is_pending());
        for (key, hours) in [(2, 6), (3, 5), (4, 9)] {
            map.insert(key, (), hours * HOUR);
        }
        map.touch(&1, 6 * HOUR);
        map.touch(&4, 5 * HOUR);
        map.remove(&3);
        assert_eq!(second.count(), 0);
        map.touch(&4, 4 * HOUR);
        map.insert(5, (), HOUR);
        assert_eq!((first.count(), second.count()), (1, 1), "only the last waker is woken, once");
        drop(expirations);
        map.insert(6, (), ms(1));
        assert_eq!(second.count(), 1);
    });
}

#[tokio::test]
async fn a_consumer_on_a_full_or_ended_timer_panics_and_loses_nothing() {
    let ended = Timer::builder().build().unwrap();
    let mut other = Timer::builder().capacity(1).install().unwrap().sleep(HOUR);
    assert!(futures::poll!(&mut other).is_pending());
    let (map, mut expirations) = DeadlineMap::new();
    map.insert(1, (), Duration::ZERO);
    map.insert(2, (), HOUR);
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((1, ()))), "a due entry needs no room");
    let message = panic_message(|| poll(&mut expirations));
    assert!(message.contains("at capacity"), "{message}");
    drop(other);
    assert!(poll(&mut expirations).is_pending());

    let (map, mut expirations) = DeadlineMap::with_timer(&ended);
    map.insert(2, (), HOUR);
    assert!(poll(&mut expirations).is_pending());
    map.insert(3, (), Duration::ZERO);
    ended.shutdown();
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((3, ()))));
    let message = panic_message(|| poll(&mut expirations));
    assert!(message.contains("shut down"), "{message}");
    assert!(map.touch(&2, Duration::ZERO));
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((2, ()))));
}

#[test]
fn a_mass_expiry_lets_other_tasks_run() {
    must_end(|| {
        current_thread().block_on(async {
            let (map, mut expirations) = DeadlineMap::new();
            for key in 0..10_000 {
                map.insert(key, (), Duration::ZERO);
            }
            let stop = Arc::new(AtomicBool::new(false));
            let stops = Arc::clone(&stop);
            tokio::spawn(async move { stops.store(true, SeqCst) });
            let mut taken = 0;
            while !stop.load(SeqCst) {
                assert!(expirations.recv().await.is_some());
                taken += 1;
            }
            assert!(taken < 10_000);
        });
    });
}

// Memory

#[test]
fn payloads_are_freed_immediately() {
    fn insert(map: &DeadlineMap<Arc<u8>, Arc<u8>>, number: u8) -> [Weak<u8>; 2] {
        let (key, value) = (Arc::new(number), Arc::new(number));
        let weak = [Arc::downgrade(&key), Arc::downgrade(&value)];
        drop(map.insert(key, value, HOUR));
        weak
    }
    let is_gone = |payload: &Weak<u8>| payload.strong_count() == 0;
    let (map, expirations) = DeadlineMap::new();
    let removed = insert(&map, 1);
    drop(map.remove(&1));
    assert!(removed.iter().all(is_gone));
    let (first, second) = (insert(&map, 2), insert(&map, 2));
    assert!(!is_gone(&first[0]) && is_gone(&first[1]), "an insert replaces the value and keeps the old key");
    assert!(is_gone(&second[0]) && !is_gone(&second[1]));
    let cleared: Vec<_> = (3..100).flat_map(|number| insert(&map, number)).collect();
    map.clear();
    let retained: Vec<_> = (3..100).flat_map(|number| insert(&map, number)).collect();
    map.retain(|_, _| false);
    assert!(cleared.iter().chain(&first).chain(&second).chain(&retained).all(is_gone));
    let dropped: Vec<_> = (3..100).flat_map(|number| insert(&map, number)).collect();
    drop(map);
    assert!(!dropped.iter().any(is_gone), "the stream still returns them");
    drop(expirations);
    assert!(dropped.iter().all(is_gone));
}
