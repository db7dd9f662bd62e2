//! What the builder of a `DeadlineMap` sets: capacity, hasher, maximum lifetime and name. And what a map counts.

use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, ms, panic_message};
use futures::Stream;
use hairspring::deadline_map::{BuildError, Builder};
use hairspring::{DeadlineMap, Duration, Expirations, Instant};

fn poll<K, V>(expirations: &mut Expirations<K, V>) -> Poll<Option<(K, V)>> {
    Pin::new(expirations).poll_next(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn a_full_map_refuses_new_keys_only() {
    let (map, mut expirations) = DeadlineMap::builder().capacity(2).build().unwrap();
    assert_eq!(map.try_insert("a", Arc::new(1), ms(5)), Ok(None));
    map.insert("b", Arc::new(2), HOUR);
    let (key, value) = ("c", Arc::new(3));
    let full = map.try_insert(key, value.clone(), HOUR).unwrap_err();
    assert_eq!(full.to_string(), "the map is at capacity: it has room for 2 entries");
    let (key, given_back) = full.into_inner();
    assert!(key == "c" && Arc::ptr_eq(&value, &given_back));
    let said = [
        panic_message(|| map.insert("c", Arc::new(3), HOUR)),
        panic_message(|| map.insert_at("c", Arc::new(3), Instant::now())),
    ];
    assert!(said.iter().all(|said| said == "the map is at capacity: it has room for 2 entries"), "{said:?}");
    assert_eq!(map.try_insert("b", Arc::new(4), HOUR).unwrap().as_deref(), Some(&2), "replaced, which takes no room");
    // An expired entry takes room until it is handed out.
    tokio::time::advance(ms(5)).await;
    assert!(map.try_insert("c", Arc::new(3), HOUR).is_err());
    assert!(map.try_insert_at("c", Arc::new(3), Instant::now() + HOUR).is_err_and(|full| full.into_inner().0 == "c"));
    assert!(map.try_insert("a", Arc::new(3), HOUR).is_err(), "its key is as good as new");
    assert_eq!(expirations.recv().await, Some(("a", Arc::new(1))));
    assert_eq!(map.try_insert_at("c", Arc::new(3), Instant::now() + HOUR), Ok(None));
    assert_eq!(map.remaining("c"), Some(HOUR));
    // And each way out gives its room back.
    map.remove("c");
    assert!(map.try_insert("d", Arc::new(4), HOUR).is_ok());
    map.retain(|key, _| *key != "d");
    assert!(map.try_insert("e", Arc::new(5), HOUR).is_ok() && map.try_insert("f", Arc::new(6), HOUR).is_err());
    map.clear();
    assert!(map.try_insert("f", Arc::new(6), HOUR).is_ok() && map.try_insert("g", Arc::new(7), HOUR).is_ok());
    assert!(map.try_insert("h", Arc::new(8), HOUR).is_err());
}

#[test]
fn in_a_full_map_without_its_stream_what_has_expired_makes_way() {
    let (map, expirations) = DeadlineMap::builder().shards(8).capacity(20).build().unwrap();
    drop(expirations);
    for key in 0..20 {
        assert!(map.try_insert(key, key, Duration::ZERO).is_ok());
    }
    for key in 20..40 {
        assert!(map.try_insert(key, key, HOUR).is_ok(), "{key}");
    }
    assert_eq!(map.metrics().refused(), 0);
    assert!(map.try_insert(40, 40, HOUR).is_err());
    assert_eq!(map.metrics().refused(), 1);
    assert!(map.len() == 20 && (20..40).all(|key| map.get(&key) == Some(key)));
}

/// A reporter that saw it would count it for good, as counters do not go back.
#[test]
fn what_makes_way_sees_no_refusal() {
    static MAP: OnceLock<DeadlineMap<u8, MakesWay>> = OnceLock::new();
    struct MakesWay;
    impl Drop for MakesWay {
        fn drop(&mut self) {
            assert_eq!(MAP.get().map(|map| map.metrics().refused()), Some(0));
        }
    }
    let (map, expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    drop(expirations);
    let map = MAP.get_or_init(|| map);
    assert!(map.try_insert(1, MakesWay, ms(1)).is_ok());
    std::thread::sleep(ms(2));
    assert!(map.try_insert(2, MakesWay, HOUR).is_ok());
    assert_eq!((map.metrics().expired(), map.metrics().refused()), (1, 0));
}

#[test]
fn a_panic_as_a_full_map_refuses_drops_key_and_value() {
    let (map, _expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    map.insert(0, None, HOUR);
    let value = Arc::new(());
    assert!(catch_unwind(AssertUnwindSafe(|| map.insert(1, Some(value.clone()), HOUR))).is_err());
    assert_eq!((Arc::strong_count(&value), map.len()), (1, 1));
}

/// The same in every run.
#[derive(Default)]
struct Fixed(u64);

impl Hasher for Fixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[test]
fn a_map_hashes_as_it_was_asked_to() {
    let hasher = BuildHasherDefault::<Fixed>::default();
    let (map, mut expirations) = DeadlineMap::builder().hasher(hasher).shards(4).build().unwrap();
    let other = map.clone();
    for key in 0..100 {
        map.insert(key, key, HOUR);
        assert_eq!(other.get(&key), Some(key), "a clone hashes alike");
    }
    assert!((0..100).all(|key| other.touch(&key, Duration::ZERO)));
    drop((map, other));
    assert!((0..100).all(|_| matches!(poll(&mut expirations), Poll::Ready(Some(_)))));
    assert_eq!(poll(&mut expirations), Poll::Ready(None));
}

#[test]
fn a_map_on_one_hash_is_slow_but_right() {
    #[derive(Default)]
    struct Same;
    impl Hasher for Same {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }
    let (map, _expirations) = DeadlineMap::builder().hasher(BuildHasherDefault::<Same>::default()).build().unwrap();
    for key in 0..200 {
        map.insert(key, key, HOUR);
    }
    assert!((0..200).all(|key| map.get(&key) == Some(key)));
    assert!((0..200).all(|key| map.remove(&key) == Some(key)) && map.is_empty());
}

#[test]
fn a_builder_refuses_what_is_out_of_range() {
    fn error(builder: Builder<u8, u8>) -> String {
        let error = builder.build().unwrap_err();
        assert!(matches!(error, BuildError::OutOfRange { .. }));
        error.to_string()
    }
    assert_eq!(error(DeadlineMap::builder().shards(65)), "shards is 65: must be from 1 to 64");
    assert_eq!(error(DeadlineMap::builder().capacity(0)), "capacity is 0: must be at least 1");
    assert_eq!(error(DeadlineMap::builder().max_lifetime(Duration::ZERO)), "max_lifetime is 0ns: must be at least 1ns");
    assert!(DeadlineMap::<u8, u8>::builder().max_lifetime(Duration::MAX).build().is_ok());
    assert!(DeadlineMap::<u8, u8>::builder().capacity(usize::MAX).clone().build().is_ok());
}

const IDLE: Duration = Duration::from_secs(30 * 60);

/// A map of one shard whose entries live for eight hours, with so many entries beside. With few entries a map keeps them
/// in another way than with many.
fn eight_hours(others: u32) -> (DeadlineMap<u32, u32>, Expirations<u32, u32>) {
    let halves = DeadlineMap::builder().shards(1).max_lifetime(8 * HOUR).build().unwrap();
    (0..others).for_each(|other| assert_eq!(halves.0.insert(1_000 + other, 0, 100 * HOUR), None));
    halves
}

#[tokio::test(start_paused = true)]
async fn no_touch_moves_an_entry_beyond_its_maximum_lifetime() {
    for others in [0, 100] {
        let (map, mut expirations) = eight_hours(others);
        map.remove(&1_000);
        tokio::time::advance(ms(1)).await;
        let start = Instant::now();
        map.insert(1, 1, IDLE);
        assert_eq!(map.remaining(&1), Some(IDLE), "a deadline before the end is kept");
        while start.elapsed() < 7 * HOUR {
            assert!(map.touch(&1, IDLE));
            tokio::time::advance(IDLE / 3).await;
        }
        assert_eq!(map.remaining(&1), Some(IDLE * 2 / 3));
        let left = Some(HOUR);
        assert!(map.touch(&1, 2 * HOUR) && map.remaining(&1) == left);
        assert!(map.touch_at(&1, Instant::now() + 2 * HOUR) && map.remaining(&1) == left);
        assert!(map.touch(&1, Duration::MAX) && map.remaining(&1) == left);
        assert_eq!((map.touch_with(&1, 2 * HOUR, |value| *value = 2), map.remaining(&1)), (Some(()), left));
        assert_eq!((map.update(&1, |value| *value = 3), map.remaining(&1)), (Some(()), left));
        assert!(map.touch(&1, ms(5)) && map.remaining(&1) == Some(ms(5)), "it may end sooner");
        assert!(map.touch(&1, 2 * HOUR) && map.remaining(&1) == left);
        // The others began before it.
        for _ in 1..others {
            assert!(matches!(expirations.recv().await, Some((other, 0)) if other > 1_000));
        }
        assert_eq!(expirations.recv().await, Some((1, 3)));
        assert_eq!(start.elapsed(), 8 * HOUR, "to the nanosecond");
        assert!(!map.touch(&1, IDLE));
    }
}

#[tokio::test(start_paused = true)]
async fn an_insert_is_limited_too_and_begins_the_life_anew() {
    for others in [0, 100] {
        let (map, mut expirations) = eight_hours(others);
        (0..others).for_each(|other| assert!(map.remove(&(1_000 + other)).is_some()));
        let whole = Some(8 * HOUR);
        assert_eq!((map.insert(1, 1, 9 * HOUR), map.remaining(&1)), (None, whole));
        assert_eq!((map.insert_at(2, 1, Instant::now() + 9 * HOUR), map.remaining(&2)), (None, whole));
        assert_eq!((map.try_insert(3, 1, Duration::MAX), map.remaining(&3)), (Ok(None), whole));
        tokio::time::advance(5 * HOUR).await;
        assert_eq!((map.insert(1, 2, 9 * HOUR), map.remaining(&1)), (Some(1), whole), "replaced");
        assert_eq!((map.remaining(&2), map.remaining(&3)), (Some(3 * HOUR), Some(3 * HOUR)));
        tokio::time::advance(3 * HOUR).await;
        // The old life of 2 is over, and has not been handed out.
        assert_eq!((map.insert(2, 2, 9 * HOUR), map.remaining(&2)), (None, whole));
        assert!(map.touch(&1, 9 * HOUR) && map.remaining(&1) == Some(5 * HOUR));
        assert_eq!((expirations.recv().await, expirations.recv().await), (Some((2, 1)), Some((3, 1))));
        let start = Instant::now();
        assert_eq!(expirations.recv().await, Some((1, 2)));
        assert_eq!((expirations.recv().await, start.elapsed()), (Some((2, 2)), 8 * HOUR));
    }
}

/// However a map moves them as it grows, shrinks and is cleared.
#[tokio::test(start_paused = true)]
async fn each_entry_keeps_the_end_of_its_own_life() {
    const COUNT: u32 = 5_000;
    let (map, mut expirations) = eight_hours(0);
    let start = Instant::now();
    let ends = |keys: &[u32]| {
        for &key in keys {
            assert!(map.touch(&key, 100 * HOUR));
            assert_eq!(Instant::now() + map.remaining(&key).unwrap(), start + 8 * HOUR + ms(key.into()), "{key}");
        }
    };
    for key in 0..COUNT {
        map.insert(key, key, IDLE);
        if key < 40 || key % 1_000 == 0 {
            ends(&(0..=key).collect::<Vec<_>>());
        }
        tokio::time::advance(ms(1)).await;
    }
    // They go back into the wheel as their first deadlines come.
    ends(&(0..COUNT).collect::<Vec<_>>());
    assert!(futures::poll!(std::pin::pin!(expirations.recv())).is_pending());
    tokio::time::advance(HOUR).await;
    assert!(futures::poll!(std::pin::pin!(expirations.recv())).is_pending());
    map.retain(|key, _| key % 100 == 7);
    let left: Vec<u32> = (0..COUNT).filter(|key| key % 100 == 7).collect();
    ends(&left);
    for &key in &left {
        assert_eq!(expirations.recv().await, Some((key, key)));
        assert_eq!(start.elapsed(), 8 * HOUR + ms(key.into()));
    }
    map.insert(1, 1, IDLE);
    map.clear();
    map.insert(2, 2, IDLE);
    tokio::time::advance(ms(1)).await;
    map.insert(3, 3, IDLE);
    assert!(map.touch(&2, 9 * HOUR) && map.touch(&3, 9 * HOUR));
    assert_eq!((map.remaining(&2), map.remaining(&3)), (Some(7 * HOUR + ms(3_599_999)), Some(8 * HOUR)));
}

#[tokio::test(start_paused = true)]
async fn a_map_counts_what_becomes_of_its_entries() {
    let (map, mut expirations) = DeadlineMap::builder().name("sessions").capacity(10).build().unwrap();
    for key in 0..10 {
        map.insert(key, (), ms(1));
    }
    map.insert(0, (), HOUR);
    map.touch(&1, HOUR);
    map.remove(&2);
    map.retain(|key, ()| *key != 3);
    assert!(map.try_insert(10, (), HOUR).is_ok() && map.try_insert(11, (), HOUR).is_ok());
    assert!(map.try_insert(12, (), HOUR).is_err());
    for _ in 4..10 {
        assert!(expirations.recv().await.is_some());
    }
    let now = map.metrics();
    assert_eq!((now.inserted(), now.expired(), now.removed(), now.pending()), (12, 6, 2, 4));
    map.clear();
    let now = map.metrics();
    assert_eq!((now.inserted(), now.expired(), now.removed(), now.pending()), (12, 6, 6, 0));
    assert_eq!((now.refused(), now.capacity()), (1, Some(10)));
    drop(expirations);
    map.insert(1, (), Duration::ZERO);
    assert_eq!((map.metrics().inserted(), map.metrics().expired()), (13, 7), "nobody was there to take it");
}

#[test]
fn a_name_is_in_what_a_map_says() {
    let (map, expirations) = DeadlineMap::builder().name("sessions").capacity(1).build().unwrap();
    map.insert(1, 'a', HOUR);
    assert_eq!(format!("{map:?}"), r#"DeadlineMap { name: "sessions", len: 1, .. }"#);
    assert!(format!("{expirations:?}").starts_with(r#"Expirations { name: "sessions""#));
    let said = "the map `sessions` is at capacity: it has room for 1 entry";
    assert_eq!(map.try_insert(2, 'b', HOUR).unwrap_err().to_string(), said);
    assert_eq!(panic_message(|| map.insert(2, 'b', HOUR)), said);
    let (unnamed, _expirations) = DeadlineMap::<u8, u8>::new();
    assert_eq!(format!("{unnamed:?}"), "DeadlineMap { len: 0, .. }");
}
