//! Inserts that leave a live entry alone: `insert_if_absent` and `get_or_insert_with`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, OnDrop, must_end, panic_message, rounds};
use hairspring::DeadlineMap;

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
