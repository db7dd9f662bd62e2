//! Inserts that leave a live entry alone: `insert_if_absent` and `get_or_insert_with`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, must_end, rounds};
use hairspring::DeadlineMap;

/// A key that tells when it is cloned.
#[derive(PartialEq, Eq, Hash)]
struct Counted(u8);

static CLONES: AtomicUsize = AtomicUsize::new(0);

impl Clone for Counted {
    fn clone(&self) -> Counted {
        CLONES.fetch_add(1, SeqCst);
        Counted(self.0)
    }
}

#[test]
fn a_key_is_cloned_only_to_insert_it() {
    let map = DeadlineMap::without_expirations();
    for _ in 0..3 {
        assert_eq!(map.get_or_insert_with(&Counted(1), HOUR, || "made"), "made");
    }
    assert_eq!(CLONES.load(SeqCst), 1);
    let names = DeadlineMap::without_expirations();
    assert_eq!(names.get_or_insert_with("ann", HOUR, || 1), 1, "the key is a `String`, and `str` finds it");
    assert_eq!(names.remove(&String::from("ann")), Some(1));
}

#[test]
fn what_is_not_inserted_comes_back_as_an_error() {
    let map = DeadlineMap::without_expirations();
    assert_eq!(map.insert_if_absent(1, "first", HOUR), Ok(()));
    assert_eq!(map.insert_if_absent(1, "second", HOUR), Err("second"));
    assert_eq!(map.get(&1), Some("first"));
}

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
                map.get_or_insert_with(&round, HOUR, || count.fetch_add(1, SeqCst))
            };
            thread::scope(|scope| {
                for thread in [(); THREADS].map(|()| scope.spawn(race)) {
                    assert_eq!(thread.join().unwrap(), round as usize, "made once, and seen by all");
                }
            });
        }
    });
}
