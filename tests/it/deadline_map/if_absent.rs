//! Inserts that leave a live entry alone: `insert_if_absent` and `get_or_insert_with`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use crate::common::{HOUR, must_end, rounds};
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
