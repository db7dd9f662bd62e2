//! User code that a `DeadlineMap` runs: keys, values, closures and wakers. All of it may panic, and code that runs
//! outside the map's locks may use the map.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;

use super::{poll, poll_with};
use crate::common::{HOUR, OnDrop, ms, must_end, on_wake, panic_message, panicked_with};
use futures::executor::block_on;
use hairspring::{DeadlineMap, Duration, Expirations, Instant};

/// A key that calls a closure with "hash", "eq" or "drop" when that happens to it.
struct Key(u32, Box<dyn Fn(&str) + Send>);

impl Key {
    fn calm(number: u32) -> Key {
        Key(number, Box::new(|_| ()))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.1)("hash");
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        (self.1)("eq");
        (other.1)("eq");
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        (self.1)("drop");
    }
}

/// Entries 0 to 99 in several shards. Each value equals its key.
fn hundred() -> (DeadlineMap<u32, u32>, Expirations<u32, u32>) {
    let halves = DeadlineMap::builder().shards(8).build().unwrap();
    for key in 0..100 {
        halves.0.insert(key, key, HOUR);
    }
    halves
}

fn contents(map: &DeadlineMap<u32, u32>) -> HashMap<u32, u32> {
    let mut contents = HashMap::new();
    map.for_each(|key, value, _| assert!(contents.insert(*key, *value).is_none(), "each once"));
    contents
}

// Keys and values

#[tokio::test(start_paused = true)]
async fn a_key_that_panics_changes_nothing() {
    let (map, mut expirations) = DeadlineMap::builder().max_entries(11).build().unwrap();
    for number in 0..10 {
        map.insert(Key::calm(number), number, ms(number.into()));
    }
    for number in 0..10 {
        let wrong = if number % 2 == 0 { "hash" } else { "eq" };
        let bad = || Key(number, Box::new(move |what| assert!(what != wrong, "on purpose")));
        let calls: [&dyn Fn(); 13] = [
            &|| _ = map.get(&bad()),
            &|| _ = map.contains_key(&bad()),
            &|| _ = map.remaining(&bad()),
            &|| _ = map.update(&bad(), |_| panic!("not called")),
            &|| _ = map.touch(&bad(), HOUR),
            &|| _ = map.touch_at(&bad(), Instant::now()),
            &|| _ = map.renew_with(&bad(), |_| panic!("not called")),
            &|| _ = map.remove(&bad()),
            &|| _ = map.remove_if(&bad(), |_| panic!("not called")),
            &|| _ = map.insert(bad(), 0, HOUR),
            &|| _ = map.insert_if_absent(bad(), 0, HOUR),
            &|| _ = map.insert_at(bad(), 0, Instant::now()),
            &|| _ = map.try_insert(bad(), 0, HOUR),
        ];
        for call in calls {
            assert_eq!(panic_message(call), "on purpose");
        }
    }
    assert!(map.try_insert(Key::calm(10), 10, HOUR).is_ok(), "the failed inserts took no room");
    assert!(map.try_insert(Key::calm(11), 11, HOUR).is_err());
    for number in 0..=10 {
        assert_eq!(expirations.recv().await.map(|(key, value)| (key.0, value)), Some((number, number)));
    }
}

/// If the consumer is late, a map with one key stays fast.
#[test]
fn an_insert_compares_an_expired_key_once() {
    let (map, mut expirations) = DeadlineMap::new();
    let compared = Arc::new(AtomicUsize::new(0));
    for life in 0..10_000 {
        let compared = Arc::clone(&compared);
        let count = move |what: &str| _ = compared.fetch_add(usize::from(what == "eq"), SeqCst);
        assert_eq!(map.insert(Key(1, Box::new(count)), life, Duration::ZERO), None);
    }
    // A comparison counts twice, once for each key.
    assert!(compared.load(SeqCst) <= 20_000, "compared {} times", compared.load(SeqCst));
    for life in 0..10_000 {
        assert!(matches!(block_on(expirations.recv()), Some((_, taken)) if taken == life), "out of order");
    }
}

#[test]
fn drops_of_keys_and_values_may_use_the_map() {
    type Map = DeadlineMap<Key, OnDrop<Box<dyn FnMut() + Send>>>;
    fn uses(map: &Map) -> impl Fn() + Send + 'static {
        let map = map.clone();
        move || {
            (0..50).for_each(|number| _ = map.touch(&Key::calm(number), HOUR));
            assert!(map.len() <= 50);
        }
    }
    fn key(map: &Map, number: u32) -> Key {
        let of_key = uses(map);
        Key(
            number,
            Box::new(move |what| {
                if what == "drop" {
                    of_key();
                }
            }),
        )
    }
    fn insert(map: &Map, number: u32, after: Duration) {
        drop(map.insert(key(map, number), OnDrop(Box::new(uses(map))), after));
    }
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        (0..50).for_each(|number| insert(&map, number, HOUR));
        insert(&map, 1, HOUR);
        drop(map.remove(&Key::calm(2)));
        assert!(map.insert_if_absent(key(&map, 1), OnDrop(Box::new(uses(&map))), HOUR).is_err());
        insert(&map, 3, Duration::ZERO);
        assert!(matches!(block_on(expirations.recv()), Some((Key(3, _), _))));
        map.retain(|key, _| key.0 % 2 == 0);
        assert_eq!(map.len(), 24);
        map.clear();
        // Inserts that drop expired entries also run such drops.
        drop(expirations);
        (0..50).for_each(|number| insert(&map, number, Duration::ZERO));
        map.clear();
    });
}

#[test]
fn wakers_may_use_the_map_and_panic() {
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        let inside = map.clone();
        let waker = on_wake(move || {
            for key in 0..100_u64 {
                inside.insert(key, (), HOUR);
                inside.remove(&key);
            }
            panic!("on purpose");
        });
        assert!(poll_with(&mut expirations, &waker).is_pending());
        map.insert(7, (), HOUR);
        map.insert(8, (), Duration::ZERO);
        assert_eq!(block_on(expirations.recv()), Some((8, ())));
    });
}

// Closures

#[test]
fn a_closure_that_panics_leaves_the_map_whole() {
    let (map, mut expirations) = hundred();
    for key in 0..100 {
        panic_message(|| map.get_with(&key, |_| panic!("on purpose")));
        panic_message(|| {
            map.update(&key, |value| {
                *value += 1_000;
                panic!("on purpose");
            })
        });
        panic_message(|| map.renew_with(&key, |_| panic!("on purpose")));
        panic_message(|| map.remove_if(&key, |_| panic!("on purpose")));
        panic_message(|| map.get_or_insert_with(&(key + 100), Duration::ZERO, || panic!("on purpose")));
    }
    panic_message(|| map.for_each(|_, _, _| panic!("on purpose")));
    let mut left = 50;
    panic_message(|| {
        map.retain(|_, _| {
            left -= 1;
            assert!(left > 0, "on purpose");
            false
        });
    });
    let rest = contents(&map);
    assert_eq!((map.len(), rest.len()), (51, 51), "49 were removed before");
    assert!(rest.iter().all(|(key, value)| *value == key + 1_000 && map.remaining(key) > Some(HOUR / 2)));
    assert!(poll(&mut expirations).is_pending());
    for key in rest.keys() {
        assert!(map.touch(key, Duration::ZERO));
        assert_eq!(block_on(expirations.recv()), Some((*key, key + 1_000)));
    }
    assert!(map.is_empty());
}

/// Fails unless the call panics because it uses the map of a closure, and the message names that map.
#[track_caller]
fn assert_refused<R>(map: &str, call: impl FnOnce() -> R) {
    let message = panic_message(|| drop(call()));
    assert!(message.starts_with(&format!("a closure for the `DeadlineMap` {map}")), "{message}");
    assert!(message.ends_with("or `Clone` of its value, used the same map, which is locked"), "{message}");
}

#[test]
fn a_closure_that_uses_its_own_map_panics() {
    must_end(|| {
        let (map, _expirations) = DeadlineMap::builder().name("sessions").build().unwrap();
        let named = format!("`sessions`, created at {}:{}:", file!(), line!() - 1);
        (0..100).for_each(|key| _ = map.insert(key, key, HOUR));
        // Keys from 100 on are not in the map, and may belong to a shard without entries.
        for other in (0..200).step_by(7) {
            let uses: [&dyn Fn(); 9] = [
                &|| _ = map.get(&other),
                &|| _ = map.insert(other, 0, HOUR),
                &|| _ = map.insert_if_absent(other, 0, HOUR),
                &|| _ = map.touch(&other, HOUR),
                &|| _ = map.remove(&other),
                &|| _ = map.remaining(&other),
                &|| _ = map.update(&other, |value| *value = 0),
                &|| _ = map.len(),
                &|| map.clear(),
            ];
            let again = uses[other as usize % uses.len()];
            let calls: [&dyn Fn(); 7] = [
                &|| map.get_with(&5, |_| again()).unwrap(),
                &|| {
                    map.remove_if(&5, |_| {
                        again();
                        true
                    });
                },
                &|| {
                    map.get_or_insert_with(&300, HOUR, || {
                        again();
                        0
                    });
                },
                &|| map.update(&5, |_| again()).unwrap(),
                &|| map.renew_with(&5, |_| again()).unwrap(),
                &|| map.for_each(|_, _, _| again()),
                &|| {
                    map.retain(|_, _| {
                        again();
                        false
                    });
                },
            ];
            for call in calls {
                assert_refused(&named, call);
            }
        }
        assert_eq!(contents(&map), (0..100).map(|key| (key, key)).collect());
    });
}

#[test]
fn a_clone_that_uses_the_map_leaves_it_whole() {
    struct Value(Option<DeadlineMap<u32, Value>>);
    impl Clone for Value {
        fn clone(&self) -> Value {
            let _ = self.0.as_ref().expect("on purpose").contains_key(&2);
            Value(None)
        }
    }
    let (map, _expirations) = DeadlineMap::new();
    let named = format!("created at {}:{}:", file!(), line!() - 1);
    map.insert(1, Value(Some(map.clone())), HOUR);
    map.insert(2, Value(None), HOUR);
    assert_refused(&named, || map.get(&1));
    assert_refused(&named, || map.get_or_insert_with(&1, HOUR, || panic!("there is one")));
    assert_eq!(panic_message(|| drop(map.get(&2))), "on purpose");
    // A function that is not called is dropped outside the locks.
    let uses = OnDrop(|| assert!(map.contains_key(&1)));
    let make = move || {
        let _uses = &uses;
        panic!("there is one")
    };
    assert_eq!(panic_message(|| drop(map.get_or_insert_with(&2, HOUR, make))), "on purpose");
    assert_eq!(panic_message(|| drop(map.get_or_insert_with(&3, HOUR, || Value(None)))), "on purpose");
    assert!(map.remove(&3).is_some(), "it was inserted before it was cloned");
    assert!(map.remove(&1).is_some() && map.remove(&2).is_some());
}

type Code = Box<dyn FnMut()>;

thread_local! {
    static AT_THE_END: RefCell<Option<OnDrop<Code>>> = const { RefCell::new(None) };
}

/// Bugs that this crate had: a thread-local had been dropped before, so this panicked, and then the use of a map within
/// itself deadlocked.
#[test]
fn a_closure_may_use_another_map_while_its_thread_ends() {
    must_end(|| {
        let (sender, seen) = mpsc::channel();
        let thread = thread::spawn(move || {
            let ((map, _one), (other, _two)) = (hundred(), hundred());
            let nested = move || {
                map.get_with(&1, |_| {
                    let inner = other.get_with(&2, |value| {
                        assert_refused("", || map.get(&3)); // the outer closure's
                        assert_refused("", || other.remove(&3)); // the inner closure's
                        *value
                    });
                    assert_refused("", || map.get(&3)); // after the inner closure
                    inner
                })
            };
            // If another test has paused a clock, tokio's clock panics without this thread-local.
            let _ = tokio::runtime::Handle::try_current();
            // Its destructor comes after those of thread-locals that are used later.
            AT_THE_END.with(|_| ());
            assert_eq!(nested(), Some(Some(2)));
            let at_the_end = move || sender.send(panicked_with(&nested).ok()).unwrap();
            AT_THE_END.set(Some(OnDrop(Box::new(at_the_end))));
        });
        thread.join().unwrap();
        assert_eq!(seen.recv(), Ok(Some(Some(Some(2)))));
    });
}
