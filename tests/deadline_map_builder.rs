//! What the builder of a `DeadlineMap` sets: capacity, hasher and name. And what a map counts.

mod common;

use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use common::{HOUR, ms, panic_message};
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
    assert_eq!((full.capacity(), full.to_string().as_str()), (2, "the map is at capacity: it has room for 2 entries"));
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
    assert!(map.try_insert("a", Arc::new(3), HOUR).is_err(), "its key is as good as new");
    assert_eq!(expirations.recv().await, Some(("a", Arc::new(1))));
    assert!(map.try_insert("c", Arc::new(3), HOUR).is_ok());
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
    assert!(map.try_insert(40, 40, HOUR).is_err());
    assert!(map.len() == 20 && (20..40).all(|key| map.get(&key) == Some(key)));
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
    assert_eq!(error(DeadlineMap::builder().shards(65)), "shards is 65: a map has from 1 to 64");
    let most = usize::MAX;
    assert_eq!(
        error(DeadlineMap::builder().capacity(0)),
        format!("capacity is 0: a map has room for 1 to {most} entries")
    );
    assert!(DeadlineMap::<u8, u8>::builder().capacity(most).clone().build().is_ok());
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
    assert_eq!((now.inserted(), now.expired(), now.removed(), now.len()), (12, 6, 2, 4));
    map.clear();
    let now = map.metrics();
    assert_eq!((now.inserted(), now.expired(), now.removed(), now.len()), (12, 6, 6, 0));
    assert!(now.is_empty());
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
    assert_eq!(map.metrics().name(), Some("sessions"));
    let said = "the map `sessions` is at capacity: it has room for 1 entry";
    assert_eq!(map.try_insert(2, 'b', HOUR).unwrap_err().to_string(), said);
    assert_eq!(panic_message(|| map.insert(2, 'b', HOUR)), said);
    let (unnamed, _expirations) = DeadlineMap::<u8, u8>::new();
    assert_eq!(unnamed.metrics().name(), None);
}
