//! Inserts that leave a live entry alone: `insert_if_absent` and `get_or_insert_with`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use super::poll;
use crate::common::{HOUR, OnDrop, ms, must_end, panic_message, rounds};
use hairspring::{DeadlineMap, Duration};

#[tokio::test(start_paused = true)]
async fn a_live_entry_stays_with_its_deadline() {
    // A shard stores a few entries differently from many.
    for others in [0, 100] {
        let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
        (0..others).for_each(|other| assert_eq!(map.insert(1_000 + other, 0, 9 * HOUR), None));
        assert_eq!((map.insert_if_absent(1, 1, HOUR), map.get_or_insert_with(2, HOUR, || 2)), (None, 2));
        for (duration, value) in [(ms(1), 10), (9 * HOUR, 11), (Duration::ZERO, 12)] {
            assert_eq!(map.insert_if_absent(1, value, duration), Some(value), "the value comes back");
            assert_eq!(map.get_or_insert_with(2, duration, || panic!("there is one")), 2);
        }
        assert_eq!([map.get(&1), map.get(&2)], [Some(1), Some(2)]);
        assert_eq!([map.remaining(&1), map.remaining(&2)], [Some(HOUR); 2]);
        assert_eq!((map.metrics().inserted(), map.len()), (others + 2, 2 + usize::try_from(others).unwrap()));
        let mut expired = [expirations.recv().await, expirations.recv().await].map(Option::unwrap);
        expired.sort_unstable();
        assert_eq!(expired, [(1, 1), (2, 2)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_entry_counts_as_absent_and_goes_to_the_stream() {
    let (map, mut expirations) = DeadlineMap::builder().shards(1).max_lifetime(2 * HOUR).build().unwrap();
    map.insert(1, 'a', ms(5));
    map.insert(2, 'b', ms(5));
    tokio::time::advance(ms(5)).await;
    assert_eq!((map.insert_if_absent(1, 'c', HOUR), map.get_or_insert_with(2, 9 * HOUR, || 'd')), (None, 'd'));
    assert_eq!((map.get(&1), map.remaining(&1)), (Some('c'), Some(HOUR)));
    assert_eq!((map.get(&2), map.remaining(&2)), (Some('d'), Some(2 * HOUR)), "a new life, which is limited");
    assert_eq!(
        [poll(&mut expirations), poll(&mut expirations)],
        [(1, 'a'), (2, 'b')].map(|old| Poll::Ready(Some(old)))
    );
    // An entry without time goes to the stream, too.
    assert_eq!((map.insert_if_absent(3, 'e', Duration::ZERO), map.get(&3)), (None, None));
    assert_eq!((map.get_or_insert_with(4, Duration::ZERO, || 'f'), map.get(&4)), ('f', None));
    let mut expired = [expirations.recv().await, expirations.recv().await].map(Option::unwrap);
    expired.sort_unstable();
    assert_eq!(expired, [(3, 'e'), (4, 'f')]);
}

#[test]
fn one_of_several_threads_inserts() {
    const THREADS: usize = 4;
    must_end(|| {
        let (map, _expirations) = DeadlineMap::new();
        let count = AtomicUsize::new(0);
        for round in rounds(500) {
            let started = AtomicUsize::new(0);
            let race = |thread: usize| {
                started.fetch_add(1, SeqCst);
                while started.load(SeqCst) < THREADS {
                    thread::yield_now();
                }
                let make = || {
                    count.fetch_add(1, SeqCst);
                    thread
                };
                (map.insert_if_absent((round, 1), thread, HOUR), map.get_or_insert_with((round, 2), HOUR, make))
            };
            let results: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || race(thread))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let winners: Vec<_> = (0..THREADS).filter(|&thread| results[thread].0.is_none()).collect();
            assert_eq!(winners, [map.get(&(round, 1)).unwrap()]);
            assert!((0..THREADS).all(|thread| results[thread].0.is_none_or(|back| back == thread)), "its own value");
            assert!(results.iter().all(|(_, seen)| *seen == results[0].1), "all see one value");
            assert_eq!(count.load(SeqCst), round as usize + 1, "made once");
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_map_at_capacity_gives_everything_back() {
    let (map, mut expirations) = DeadlineMap::builder().capacity(2).build().unwrap();
    map.insert("a", Arc::new(1), ms(5));
    map.insert("b", Arc::new(2), HOUR);
    let value = Arc::new(3);
    let message = "the map is at capacity: it has room for 2 entries";
    let error = map.try_insert_if_absent("c", value.clone(), HOUR).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert!(matches!(error.into_inner(), ("c", given_back) if Arc::ptr_eq(&given_back, &value)));
    let owned = value.clone();
    let error = map.try_get_or_insert_with("c", HOUR, move || owned).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(Arc::strong_count(&value), 2, "the function was not called, and comes back");
    let (key, make) = error.into_inner();
    assert!(key == "c" && Arc::ptr_eq(&make(), &value));
    assert_eq!(panic_message(|| map.insert_if_absent("c", value.clone(), HOUR)), message);
    assert_eq!(panic_message(|| map.get_or_insert_with("c", HOUR, || panic!("not called"))), message);
    assert_eq!((map.metrics().refused(), Arc::strong_count(&value)), (4, 1));

    assert_eq!(map.try_insert_if_absent("b", value.clone(), HOUR), Ok(Some(value.clone())), "this needs no room");
    assert_eq!(*map.get_or_insert_with("b", HOUR, || panic!("not called")), 2);
    tokio::time::advance(ms(5)).await;
    assert!(map.try_insert_if_absent("a", value.clone(), HOUR).is_err(), "an expired entry takes room");
    assert!(map.try_get_or_insert_with("a", HOUR, || panic!("not called")).is_err());
    assert_eq!(expirations.recv().await, Some(("a", Arc::new(1))));
    // A function that panics takes no room.
    assert_eq!(panic_message(|| map.get_or_insert_with("c", HOUR, || panic!("on purpose"))), "on purpose");
    assert_eq!((map.len(), map.contains_key("c")), (1, false));
    assert!(Arc::ptr_eq(&map.get_or_insert_with("c", HOUR, || value.clone()), &value));
    assert!(map.try_insert_if_absent("d", value, HOUR).is_err());
}

#[test]
fn a_map_at_capacity_without_its_stream_drops_expired_entries() {
    let (map, expirations) = DeadlineMap::builder().shards(8).capacity(20).build().unwrap();
    drop(expirations);
    for key in 0..20 {
        map.insert(key, 0, Duration::ZERO);
    }
    for key in 20..40 {
        let inserted = if key % 2 == 0 {
            map.try_insert_if_absent(key, key, HOUR) == Ok(None)
        } else {
            map.try_get_or_insert_with(key, HOUR, || key).is_ok_and(|value| value == key)
        };
        assert!(inserted, "{key}");
    }
    assert_eq!((map.metrics().expired(), map.metrics().refused(), map.len()), (20, 0, 20));
}

/// A value whose clone panics, and whose drop uses the map.
struct Value(DeadlineMap<u8, Value>);

impl Clone for Value {
    fn clone(&self) -> Value {
        panic!("on purpose")
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        let _ = self.0.contains_key(&0);
    }
}

#[test]
fn what_is_not_inserted_is_dropped_outside_the_locks() {
    must_end(|| {
        let (map, _expirations) = DeadlineMap::new();
        drop(map.insert(1, Value(map.clone()), HOUR));
        assert_eq!(panic_message(|| map.get_or_insert_with(1, HOUR, || panic!("there is one"))), "on purpose");
        // A function that is not called is dropped.
        let uses = OnDrop(|| assert!(map.contains_key(&1)));
        let make = move || {
            let _uses = &uses;
            panic!("there is one")
        };
        assert_eq!(panic_message(|| map.get_or_insert_with(1, HOUR, make)), "on purpose");
        assert_eq!(panic_message(|| map.get_or_insert_with(2, HOUR, || Value(map.clone()))), "on purpose");
        assert!(map.contains_key(&2), "it was inserted before it was cloned");
        assert!(map.insert_if_absent(2, Value(map.clone()), HOUR).is_some());
        map.clear();
    });
}
