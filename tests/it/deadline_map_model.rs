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

#[cfg(feature = "test-util")]
mod model {
    use std::collections::{BTreeMap, VecDeque};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use futures::Stream;
    use hairspring::test_util::ManualClock;
    use hairspring::{DeadlineMap, Duration, Expirations, Instant, Timer};

    use crate::common::{Random, Wakes, YEAR, for_seeds, longest};

    const ROUNDS: u64 = 300;
    const OPERATIONS: usize = 200;

    #[test]
    fn a_map_does_what_a_plain_list_does() {
        for_seeds(ROUNDS, |seed| Round::new(seed).run());
    }

    struct Round {
        random: Random,
        clock: ManualClock,
        /// All handles are equal, so the first will do. There are none once they have been dropped.
        handles: Vec<DeadlineMap<u64, u64>>,
        expirations: Expirations<u64, u64>,
        model: BTreeMap<u64, (u64, Instant)>,
        /// When the life of each entry ends at the latest.
        ends: BTreeMap<u64, Instant>,
        max_lifetime: Option<Duration>,
        /// What had expired when its key was inserted anew.
        displaced: VecDeque<(u64, u64)>,
        /// The waker of the last poll, if that poll was pending.
        waits: Option<Arc<Wakes>>,
        keys: u64,
        reach: Duration,
    }

    impl Round {
        fn new(seed: u64) -> Round {
            let mut random = Random::new(seed);
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().unwrap();
            // With one, entries become so many that there is a wheel; with many, they stay few.
            let shards = [1, 2, 8, 64][usize::try_from(random.below(4)).unwrap()];
            let mut builder = DeadlineMap::builder().shards(shards).timer(&timer);
            let keys = [1, 3, 20, 300][usize::try_from(random.below(4)).unwrap()];
            let reach = Duration::from_nanos(1 << [3, 8, 14, 32, 45][usize::try_from(random.below(5)).unwrap()]);
            let max_lifetime = (random.below(2) == 0).then(|| random.duration(2 * reach).max(Duration::from_nanos(1)));
            if let Some(lifetime) = max_lifetime {
                builder = builder.max_lifetime(lifetime);
            }
            let (map, expirations) = builder.build().unwrap();
            let handles = vec![map];
            let (model, ends, displaced) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
            Round {
                random,
                clock,
                handles,
                expirations,
                model,
                ends,
                max_lifetime,
                displaced,
                waits: None,
                keys,
                reach,
            }
        }

        fn run(&mut self) {
            for _ in 0..OPERATIONS {
                self.operate();
                self.compare();
            }
            self.handles.clear();
            self.compare();
            while self.len() > 0 {
                self.poll();
                if self.waits.is_some() {
                    assert!(self.clock.advance_to_next().is_some(), "it waits for what is left");
                }
            }
            self.waits = None;
            assert_eq!(self.poll_once(), Poll::Ready(None));
        }

        fn operate(&mut self) {
            let (map, key) = (&self.handles[0], self.random.below(self.keys));
            let duration = match self.random.below(20) {
                0 => Duration::ZERO,
                1 => longest()[0],
                _ => self.random.duration(self.reach),
            };
            let now = self.clock.now();
            let deadline = now + duration.min(Duration::from_secs(500 * 365 * 86_400));
            let known = self.model.get(&key).copied();
            let alive = known.filter(|&(_, deadline)| deadline > now).map(|(value, _)| value);
            match self.random.below(16) {
                0..=3 => {
                    let value = self.random.next();
                    assert_eq!(map.insert(key, value, duration), alive);
                    let end = self.max_lifetime.map_or(deadline, |lifetime| now + lifetime);
                    self.ends.insert(key, end);
                    self.model.insert(key, (value, deadline.min(end)));
                    self.displaced.extend(known.filter(|_| alive.is_none()).map(|(value, _)| (key, value)));
                }
                4..=7 => {
                    assert_eq!(map.touch(&key, duration), alive.is_some());
                    if let Some(value) = alive {
                        let end = self.max_lifetime.map_or(deadline, |_| self.ends[&key]);
                        self.model.insert(key, (value, deadline.min(end)));
                    }
                }
                8 | 9 => {
                    assert_eq!(map.remove(&key), alive);
                    if alive.is_some() {
                        self.model.remove(&key);
                    }
                }
                10 | 11 => {
                    let by = self.random.duration(self.reach / 2);
                    self.clock.advance(by);
                }
                12 if self.waits_for_something_near() => {
                    let first = self.first();
                    assert!(self.clock.advance_to_next() <= first, "it is woken in time");
                }
                13 | 14 => self.poll(),
                _ if self.random.below(10) == 0 => {
                    map.clear();
                    self.model.clear();
                    self.displaced.clear();
                }
                _ if self.handles.len() < 3 => self.handles.push(map.clone()),
                _ => drop(self.handles.remove(0)),
            }
        }

        fn len(&self) -> usize {
            self.model.len() + self.displaced.len()
        }

        fn first(&self) -> Option<Instant> {
            self.model.values().map(|&(_, deadline)| deadline).min()
        }

        /// Otherwise the clock moves to the end of time, where sums saturate.
        fn waits_for_something_near(&self) -> bool {
            let asleep = self.waits.as_ref().is_some_and(|waits| waits.count() == 0);
            asleep && self.first().is_some_and(|first| first < self.clock.now() + YEAR)
        }

        fn is_due(&self) -> bool {
            !self.displaced.is_empty() || self.first().is_some_and(|first| first <= self.clock.now())
        }

        /// Polls until nothing is due any more.
        fn poll(&mut self) {
            while let Poll::Ready(expired) = self.poll_once() {
                let (key, value) = expired.expect("there are entries, or handles");
                if self.displaced.is_empty() {
                    let (expected, deadline) = self.model.remove(&key).expect("each entry comes once");
                    assert_eq!(value, expected);
                    assert!(self.first().is_none_or(|first| deadline <= first), "the earliest comes first");
                    assert!(deadline <= self.clock.now(), "never early");
                } else {
                    // In their order if they are in one shard, as those of one key are.
                    let of_key = self.displaced.iter().position(|&(other, _)| other == key);
                    let expected = of_key.and_then(|at| self.displaced.remove(at));
                    assert_eq!(Some((key, value)), expected, "what was displaced comes first");
                }
                if self.random.below(4) == 0 || (self.len() == 0 && self.handles.is_empty()) {
                    return;
                }
            }
        }

        fn poll_once(&mut self) -> Poll<Option<(u64, u64)>> {
            let was_due = self.is_due();
            let (woken, waker) = Wakes::new();
            let polled = Pin::new(&mut self.expirations).poll_next(&mut Context::from_waker(&waker));
            self.waits = polled.is_pending().then_some(woken);
            assert_eq!(matches!(polled, Poll::Ready(Some(_))), was_due);
            polled
        }

        fn compare(&self) {
            if let Some(map) = self.handles.first() {
                assert_eq!((map.len(), map.is_empty()), (self.len(), self.len() == 0));
                for key in 0..self.keys.min(20) {
                    let remaining = self.model.get(&key).map(|(_, deadline)| *deadline - self.clock.now());
                    assert_eq!(map.remaining(&key), remaining.filter(|remaining| !remaining.is_zero()));
                }
            }
            let would_answer = self.is_due() || (self.handles.is_empty() && self.len() == 0);
            if let Some(waits) = self.waits.as_ref().filter(|_| would_answer) {
                assert!(waits.count() > 0, "the answer changed and nobody was told");
            }
        }
    }
}

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
