//! Keys and values whose drops panic, many of them in one operation. Everything else is dropped nevertheless.

use std::borrow::Borrow;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Context;

use crate::common::{HOUR, Wakes};
use hairspring::wheel::{Tick, Wheel};
use hairspring::{DeadlineMap, DelayQueue, Duration, Expirations};

/// A key or a value that counts its drop, and then may panic.
struct Item {
    number: u64,
    panics: bool,
    alive: Rc<Cell<usize>>,
}

impl Drop for Item {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
        assert!(!self.panics, "on purpose");
    }
}

impl Borrow<u64> for Item {
    fn borrow(&self) -> &u64 {
        &self.number
    }
}

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.number == other.number
    }
}

impl Eq for Item {}

/// Creates items, and knows how many exist.
struct Items {
    keys_panic: fn(u64) -> bool,
    values_panic: fn(u64) -> bool,
    alive: Rc<Cell<usize>>,
}

impl Items {
    fn item(&self, number: u64, panics: bool) -> Item {
        self.alive.set(self.alive.get() + 1);
        Item { number, panics, alive: self.alive.clone() }
    }

    fn key(&self, number: u64) -> Item {
        self.item(number, (self.keys_panic)(number))
    }

    fn value(&self, number: u64) -> Item {
        self.item(number, (self.values_panic)(number))
    }

    /// A map with entries from 0 on.
    fn map(&self, shards: usize, count: u64) -> (DeadlineMap<Item, Item>, Expirations<Item, Item>) {
        let halves = DeadlineMap::builder().shards(shards).build().unwrap();
        for number in 0..count {
            assert!(halves.0.insert(self.key(number), self.value(number), HOUR).is_none());
        }
        halves
    }

    fn queue(&self) -> DelayQueue<Item> {
        let mut queue = DelayQueue::new();
        (0..MANY).for_each(|number| _ = queue.insert(self.value(number), HOUR));
        queue
    }

    fn wheel(&self) -> Wheel<Item> {
        let mut wheel = Wheel::new();
        (0..MANY).for_each(|number| _ = wheel.insert(Tick::from(number), self.value(number)));
        wheel
    }
}

const MANY: u64 = 100;

fn never(_: u64) -> bool {
    false
}

fn third(number: u64) -> bool {
    number % 3 == 0
}

fn another_third(number: u64) -> bool {
    number % 3 == 1
}

fn seventh(number: u64) -> bool {
    number == 7
}

/// Runs `code`, which must panic.
fn panics(code: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(code)).is_err(), "no drop panicked");
}

/// An operation after which no item exists.
type Case = (&'static str, fn(&Items));

fn check(keys_panic: fn(u64) -> bool, values_panic: fn(u64) -> bool, cases: &[Case]) {
    for (name, case) in cases {
        let items = Items { keys_panic, values_panic, alive: Rc::default() };
        case(&items);
        assert_eq!(items.alive.get(), 0, "{name} leaked some");
    }
}

/// A bug that this crate had: up to a quarter of the entries were never dropped. `HashMap` forgets all of the rest.
#[test]
fn a_map_drops_all_entries_although_some_drops_panic() {
    let cases: [Case; 7] = [
        ("clear", |items| {
            let (map, _expirations) = items.map(4, MANY);
            panics(|| map.clear());
        }),
        ("clear, with few entries", |items| {
            let (map, _expirations) = items.map(1, 9);
            panics(|| map.clear());
        }),
        ("clear, with expired entries whose keys were inserted again", |items| {
            let (map, _expirations) = items.map(4, 0);
            for number in (0..MANY).chain(0..MANY) {
                assert!(map.insert(items.key(number), items.value(number), Duration::ZERO).is_none());
            }
            panics(|| map.clear());
        }),
        ("retain", |items| {
            let (map, _expirations) = items.map(1, MANY);
            panics(|| map.retain(|_, _| false));
            assert!(map.is_empty());
        }),
        ("retain with a closure that panics", |items| {
            let (map, _expirations) = items.map(1, MANY);
            let mut left = MANY / 2;
            panics(|| {
                map.retain(|_, _| {
                    left -= 1;
                    assert!(left > 0, "on purpose");
                    false
                });
            });
            panics(|| map.clear());
        }),
        ("the end of the map", |items| {
            let (map, expirations) = items.map(4, MANY);
            drop(expirations);
            panics(|| drop(map));
        }),
        ("the end of the stream", |items| {
            let (map, expirations) = items.map(4, MANY);
            drop(map);
            panics(|| drop(expirations));
        }),
    ];
    check(third, never, &cases);
    check(never, third, &cases);
    check(third, another_third, &cases);
}

/// A bug that this crate had: the compiler leaks what a function is about to return if a drop panics then.
#[test]
fn a_key_whose_drop_panics_takes_its_value_along() {
    let cases: [Case; 3] = [
        ("insert", |items| {
            let (map, _expirations) = items.map(1, 0);
            map.insert(items.item(7, false), items.value(7), HOUR);
            panics(|| drop(map.insert(items.key(7), items.value(7), HOUR)));
            drop(map.remove(&7));
        }),
        ("remove", |items| {
            let (map, _expirations) = items.map(1, 9);
            panics(|| drop(map.remove(&7)));
            map.clear();
        }),
        ("an insert without a consumer, which drops expired entries", |items| {
            let (map, expirations) = items.map(1, 0);
            drop(expirations);
            panics(|| drop(map.insert(items.key(7), items.value(7), Duration::ZERO)));
            assert!(map.is_empty());
        }),
    ];
    check(seventh, never, &cases);
}

#[test]
fn queues_and_wheels_drop_all_entries_although_some_drops_panic() {
    let cases: [Case; 2] = [
        ("DelayQueue::clear", |items| {
            let mut queue = items.queue();
            let (woken, waker) = Wakes::new();
            assert!(queue.poll_expired(&mut Context::from_waker(&waker)).is_pending());
            panics(|| queue.clear());
            assert_eq!((woken.count(), queue.len()), (1, 0), "the poller is told");
        }),
        ("Wheel::clear", |items| {
            let mut wheel = items.wheel();
            panics(|| wheel.clear());
            assert!(wheel.is_empty());
        }),
    ];
    check(never, third, &cases);
    // As with a `Vec`, a second panic aborts.
    let cases: [Case; 3] = [
        ("the end of a queue", |items| panics(|| drop(items.queue()))),
        ("the end of a wheel", |items| panics(|| drop(items.wheel()))),
        ("the end of `DelayQueue::drain`", |items| {
            let mut queue = items.queue();
            panics(|| drop(queue.drain()));
        }),
    ];
    check(never, seventh, &cases);
}
