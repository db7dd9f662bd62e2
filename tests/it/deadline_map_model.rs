//! Compares `DeadlineMap` with models. One test runs random operations, polls and wake-ups on a manual clock, next to a
//! plain list of entries. In another, threads insert, touch and remove entries while one thread consumes them, and each
//! entry must end exactly once.
//!
//! `HAIRSPRING_ROUNDS=10000` runs more random rounds than the default, `HAIRSPRING_SEED=7` only the round with that
//! seed. A round that fails prints its seed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{Random, ms, must_end};
use hairspring::{DeadlineMap, Duration, Instant};

/// What the threads know about an entry. The value of an entry is its index.
struct Life {
    /// The earliest instant at which the stream may return it, according to the last touch that succeeded.
    not_before: Mutex<Instant>,
    ends: AtomicU32,
}

const THREADS: u64 = 3;
const ENTRIES: u64 = 20_000;

/// Three threads insert, touch, replace and remove entries, while a fourth takes what expires.
#[test]
fn each_entry_has_one_end_whatever_threads_do() {
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        let lives: Arc<Vec<_>> = Arc::new((0..THREADS * ENTRIES).map(|_| Life::new()).collect());
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (map, lives) = (map.clone(), Arc::clone(&lives));
                thread::spawn(move || live(number, &map, &lives))
            })
            .collect();
        drop(map);
        crate::common::current_thread().block_on(async {
            while let Some((_, index)) = expirations.recv().await {
                let life = &lives[index];
                let not_before = *life.not_before.lock().unwrap();
                assert!(Instant::now() >= not_before, "early, or touched before it was handed out");
                life.ends.fetch_add(1, SeqCst);
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(lives.iter().all(|life| life.ends.load(SeqCst) == 1), "each once, and none is lost");
    });
}

impl Life {
    fn new() -> Life {
        Life { not_before: Mutex::new(Instant::now()), ends: AtomicU32::new(0) }
    }

    /// Sets a deadline. Holds the lock until it is known whether that succeeded, so that the consumer waits for the
    /// result.
    fn set(&self, duration: Duration, set: impl FnOnce() -> bool) {
        let mut not_before = self.not_before.lock().unwrap();
        let deadline = Instant::now() + duration;
        if set() {
            *not_before = deadline;
        }
    }
}

/// Uses keys that no other thread uses, so that it knows which entry it replaces or removes.
fn live(number: u64, map: &DeadlineMap<u64, usize>, lives: &[Life]) {
    let mut random = Random::new(number);
    let mut latest = HashMap::new();
    for entry in 0..ENTRIES {
        let key = number + THREADS * random.below(500);
        let index = usize::try_from(number * ENTRIES + entry).unwrap();
        let duration = random.duration(ms(3));
        lives[index].set(duration, || {
            let replaced = map.insert(key, index, duration);
            if let Some(replaced) = replaced {
                assert_eq!(latest.get(&key), Some(&replaced));
                lives[replaced].ends.fetch_add(1, SeqCst);
            }
            true
        });
        latest.insert(key, index);
        let key = number + THREADS * random.below(500);
        let Some(&known) = latest.get(&key) else { continue };
        if random.below(8) == 0 {
            if let Some(removed) = map.remove(&key) {
                assert_eq!(removed, known);
                lives[removed].ends.fetch_add(1, SeqCst);
            }
        } else {
            let duration = random.duration(ms(3));
            lives[known].set(duration, || map.touch(&key, duration));
        }
    }
}
