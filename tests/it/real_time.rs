//! Random operations on a map and a queue on the system's clock, by several threads, some of which stand still now and
//! then: nothing expires early, everything ends exactly once, and the consumer is woken.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, Random, for_seeds, ms, must_end, step, with_workers};
use hairspring::delay_queue::Key;
use hairspring::timer::Alarm;
use hairspring::{DeadlineMap, DelayQueue, Instant, Timer};
use tokio::runtime::Runtime;

/// Entries that each thread inserts.
const ENTRIES: u64 = 40;
const THREADS: u64 = 4;

fn runtime(random: &mut Random) -> Runtime {
    with_workers(random.pick(&[0, 1, 2, 4, 8]))
}

fn timer(random: &mut Random) -> Timer {
    let alarm = random.pick(&[Alarm::Auto, Alarm::Thread, Alarm::Timerfd, Alarm::Tokio]);
    let builder = Timer::builder().alarm(alarm);
    let builder = if random.one_in(3) { builder.resolution(ms(1)) } else { builder };
    // Only Linux has a `timerfd`.
    builder.build().unwrap_or_else(|_| Timer::current())
}

/// Mostly short. Some are over at once.
fn duration(random: &mut Random) -> Duration {
    match random.below(8) {
        0 => Duration::ZERO,
        1 => HOUR,
        _ => random.duration(ms(15)),
    }
}

/// Lets some time pass.
fn pause(random: &mut Random) {
    match random.below(40) {
        0 => thread::sleep(random.duration(ms(40))),
        1..20 => thread::sleep(random.duration(ms(1))),
        _ => {}
    }
}

/// When each entry may end at the earliest, by its number. An entry that has ended is no longer there.
#[derive(Default)]
struct Living(Mutex<HashMap<u64, Instant>>);

impl Living {
    fn begins(&self, entry: u64, earliest: Instant) {
        assert_eq!(self.0.lock().unwrap().insert(entry, earliest), None);
    }

    /// Before a change of the deadline. Until it is over, either deadline may count.
    fn may_end(&self, entry: u64, earliest: Instant) {
        self.0.lock().unwrap().entry(entry).and_modify(|before| *before = earliest.min(*before));
    }

    /// After a change of the deadline.
    fn ends_from(&self, entry: u64, earliest: Instant) {
        self.0.lock().unwrap().entry(entry).and_modify(|before| *before = earliest);
    }

    fn ends(&self, entry: u64) -> Instant {
        self.0.lock().unwrap().remove(&entry).expect("an entry ends once")
    }

    /// What an operation returned, if anything, has ended.
    fn returned(&self, entry: Option<u64>) {
        entry.map(|entry| self.ends(entry));
    }

    fn expires(&self, entry: u64) {
        let now = Instant::now();
        assert!(self.ends(entry) <= now, "{entry} expired early");
    }
}

/// An entry of the map: its number, and between which instants its deadline is.
type Entry = (u64, [Instant; 2]);

fn touches(map: &DeadlineMap<u64, u64>, living: &Living, key: u64, (entry, deadline): &mut Entry, random: &mut Random) {
    let (duration, before) = (duration(random), Instant::now());
    living.may_end(*entry, before + duration);
    let is_there = map.touch(&key, duration);
    assert!(is_there || deadline[0] <= Instant::now(), "{entry} is gone");
    assert!(!is_there || before <= deadline[1], "{entry} was over");
    if is_there {
        *deadline = [before + duration, Instant::now() + duration];
        living.ends_from(*entry, deadline[0]);
    }
}

/// Uses keys that no other thread uses, so it knows what there is.
fn use_map(map: &DeadlineMap<u64, u64>, living: &Living, thread: u64, random: &mut Random) {
    let mut entries: HashMap<u64, Entry> = HashMap::new();
    let mut inserted = 0;
    while inserted < ENTRIES {
        pause(random);
        let key = thread * 10 + random.below(10);
        let before = Instant::now();
        match (entries.get_mut(&key), random.below(5)) {
            (_, 0 | 1) => {
                let entry = thread * ENTRIES + inserted;
                inserted += 1;
                let (duration, replaced) = (duration(random), entries.get(&key).copied());
                living.begins(entry, before + duration);
                let returned = map.insert(key, entry, duration);
                entries.insert(key, (entry, [before + duration, Instant::now() + duration]));
                is_right(returned, replaced, before);
                living.returned(returned);
            }
            (Some(entry), 2) => touches(map, living, key, entry, random),
            (there, 3) => {
                let there = there.copied();
                let removed = map.remove(&key);
                is_right(removed, there, before);
                living.returned(removed);
                entries.remove(&key);
            }
            (there, _) => is_right(map.get(&key), there.copied(), before),
        }
    }
    // What would take an hour.
    for (key, entry) in entries {
        let before = Instant::now();
        let removed = map.remove(&key);
        is_right(removed, Some(entry), before);
        living.returned(removed);
    }
}

/// Whether an operation that began at `before` and has just ended found the entry, if it was there.
fn is_right(found: Option<u64>, there: Option<Entry>, before: Instant) {
    match (found, there) {
        (Some(found), Some((entry, deadline))) => assert!(found == entry && before <= deadline[1], "{entry} was over"),
        (None, Some((entry, deadline))) => assert!(deadline[0] <= Instant::now(), "{entry} is gone"),
        (found, None) => assert_eq!(found, None, "it has been removed"),
    }
}

/// Calls `code` for each of some threads, half of which are the runtime's.
fn on_threads(runtime: &Runtime, random: &mut Random, code: impl Fn(u64, &mut Random) + Send + Sync + 'static) {
    let code = Arc::new(code);
    let mut threads = Vec::new();
    for thread in 0..THREADS {
        let (code, mut random) = (code.clone(), Random::new(random.next()));
        if thread % 2 == 0 {
            runtime.spawn(async move { code(thread, &mut random) });
        } else {
            threads.push(thread::spawn(move || code(thread, &mut random)));
        }
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn entries_of_a_map_end_once_and_not_early() {
    must_end(|| {
        for_seeds(12, |seed| {
            step();
            let random = &mut Random::new(seed);
            let runtime = runtime(random);
            let timer = runtime.block_on(async { timer(random) });
            let shards = random.pick(&[1, 2, 8]);
            let (map, mut expirations) = DeadlineMap::builder().shards(shards).timer(&timer).build().unwrap();
            let living = Arc::new(Living::default());
            let seen = living.clone();
            let consumer = runtime.spawn(async move {
                while let Some((_, entry)) = expirations.recv().await {
                    seen.expires(entry);
                }
            });
            let used = living.clone();
            on_threads(&runtime, random, move |thread, random| use_map(&map, &used, thread, random));
            runtime.block_on(consumer).unwrap();
            assert!(living.0.lock().unwrap().is_empty(), "{:?} never ended", living.0);
        });
    });
}

/// A queue that several threads lock, and which of its entries are still there, with their keys and deadlines.
struct Shared {
    queue: DelayQueue<u64>,
    there: HashMap<u64, (Key, Instant)>,
    /// Threads that have not finished.
    threads: u64,
}

impl Shared {
    fn insert(&mut self, entry: u64, duration: Duration) {
        let deadline = Instant::now() + duration;
        self.there.insert(entry, (self.queue.insert_at(entry, deadline), deadline));
    }

    fn reset(&mut self, entry: u64, duration: Duration) {
        let (key, deadline) = self.there.get_mut(&entry).expect("it is there");
        *deadline = Instant::now() + duration;
        self.queue.reset_at(key, *deadline);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(expired) = ready!(self.queue.poll_expired(cx)) {
            let (_, deadline) = self.there.remove(expired.get_ref()).expect("an entry ends once");
            assert!(deadline == expired.deadline() && deadline <= Instant::now(), "{expired:?} expired early");
        }
        assert!(self.there.is_empty(), "not in the queue: {:?}", self.there);
        Poll::Ready(())
    }
}

/// An entry that keeps the queue from becoming empty before all threads have finished.
const LAST: u64 = u64::MAX;

fn use_queue(shared: &Mutex<Shared>, thread: u64, random: &mut Random) {
    for number in 0..ENTRIES {
        pause(random);
        let shared = &mut *shared.lock().unwrap();
        shared.insert(thread * ENTRIES + number, duration(random));
        let other = random.below(THREADS) * ENTRIES + random.below(ENTRIES);
        let Some((key, deadline)) = shared.there.get(&other) else { continue };
        match random.below(3) {
            0 => {
                assert_eq!(shared.queue.remove(key).into_inner(), other);
                shared.there.remove(&other);
            }
            1 => shared.reset(other, duration(random)),
            _ => assert_eq!(shared.queue.deadline(key), *deadline),
        }
    }
    let shared = &mut *shared.lock().unwrap();
    shared.threads -= 1;
    if shared.threads == 0 {
        let there: Vec<u64> = shared.there.keys().copied().collect();
        for entry in there {
            shared.reset(entry, random.duration(ms(15)));
        }
    }
}

#[test]
fn entries_of_a_queue_end_once_and_not_early() {
    must_end(|| {
        for_seeds(12, |seed| {
            step();
            let random = &mut Random::new(seed);
            let runtime = runtime(random);
            let queue = runtime.block_on(async { DelayQueue::with_timer(&timer(random)) });
            let mut shared = Shared { queue, there: HashMap::new(), threads: THREADS };
            shared.insert(LAST, HOUR);
            let shared = Arc::new(Mutex::new(shared));
            let seen = shared.clone();
            let consumer = runtime.spawn(poll_fn(move |cx| seen.lock().unwrap().poll(cx)));
            on_threads(&runtime, random, move |thread, random| use_queue(&shared, thread, random));
            runtime.block_on(consumer).unwrap();
        });
    });
}
