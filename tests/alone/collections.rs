//! Queues and maps in a process that has never paused a clock. Only there does moving a deadline leave the timer alone
//! for as long as possible.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::alone;
use crate::common::{HOUR, Random, Wakes, ms, multi_thread, must_end, poll_with};
use futures::StreamExt as _;
use hairspring::{DeadlineMap, DelayQueue, Duration, Instant};

#[test]
fn each_earlier_deadline_wakes_the_poller() {
    alone(|| {
        must_end(|| {
            multi_thread(1).block_on(async {
                let mut queue = DelayQueue::new();
                let keys = [0, 1, 2].map(|n| queue.insert(n, HOUR * (n + 1)));
                let (woken, waker) = Wakes::new();
                assert!(poll_with(&mut queue.next(), &waker).is_pending());
                queue.reset(&keys[1], HOUR / 2);
                assert_eq!(woken.count(), 1, "it is now due before the entry that the poller waits for");
                queue.reset(&keys[2], ms(5));
                queue.remove(&keys[0]);
                assert_eq!(queue.next().await.unwrap().into_inner(), 2);
                // A shard stores a few entries differently from many.
                for others in [0, 100] {
                    let (map, mut expirations) = DeadlineMap::builder().shards(1).build().unwrap();
                    (0..others).for_each(|other| assert_eq!(map.insert(10 + other, (), 9 * HOUR), None));
                    (0..3).for_each(|n| assert_eq!(map.insert(n, (), HOUR * (n + 1)), None));
                    assert!(poll_with(&mut expirations.next(), &waker).is_pending());
                    let before = woken.count();
                    map.touch(&1, HOUR / 2);
                    assert_eq!(woken.count(), before + 1, "it is now due before the entry that the consumer waits for");
                    let start = Instant::now();
                    map.insert(3, (), ms(1));
                    assert!(map.touch(&3, ms(20)) || start.elapsed() >= ms(1));
                    map.touch(&2, ms(5));
                    map.remove(&0);
                    assert!(expirations.next().await.is_some() && expirations.next().await.is_some());
                    assert_eq!((map.len(), map.contains_key(&1)), (others as usize + 1, true));
                }
            });
        });
    });
}

/// The threads' knowledge of an entry. The value of an entry is the index of its `Life`.
struct Life {
    /// The earliest instant at which the stream may return it, according to the last touch that succeeded.
    not_before: Mutex<Instant>,
    ends: AtomicU32,
}

const THREADS: u64 = 3;
const ENTRIES: u64 = 20_000;

/// Three threads insert, touch, replace and remove entries, while a fourth takes what expires.
#[test]
fn each_entry_ends_once_under_concurrent_use() {
    alone(|| {
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
            multi_thread(1).block_on(async {
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
            assert!(lives.iter().all(|life| life.ends.load(SeqCst) == 1), "each entry ends exactly once");
        });
    });
}

impl Life {
    fn new() -> Life {
        Life { not_before: Mutex::new(Instant::now()), ends: AtomicU32::new(0) }
    }

    /// Sets a deadline. The lock keeps the consumer from checking the entry before the result is known.
    fn set(&self, duration: Duration, set: impl FnOnce() -> bool) {
        let mut not_before = self.not_before.lock().unwrap();
        let deadline = Instant::now() + duration;
        if set() {
            *not_before = deadline;
        }
    }
}

/// No other thread uses the same keys, so each knows which entry it replaces or removes.
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
