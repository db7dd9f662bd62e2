//! Inserts that leave a live entry alone: `insert_if_absent` and `get_or_insert_with`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, OnDrop, must_end, panic_message, rounds};
use hairspring::DeadlineMap;

/// `insert_if_absent` takes the same lock: see the models.
#[test]
fn one_of_several_threads_makes_the_value() {
    const THREADS: usize = 4;
    must_end(|| {
        let (map, _expirations) = DeadlineMap::new();
        let count = AtomicUsize::new(0);
        for round in rounds(500) {
            let started = AtomicUsize::new(0);
            let race = || {
                started.fetch_add(1, SeqCst);
                while started.load(SeqCst) < THREADS {
                    thread::yield_now();
                }
                map.get_or_insert_with(round, HOUR, || count.fetch_add(1, SeqCst))
            };
            thread::scope(|scope| {
                for thread in [(); THREADS].map(|()| scope.spawn(race)) {
                    assert_eq!(thread.join().unwrap(), round as usize, "made once, and seen by all");
                }
            });
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
