//! Settings of a `DeadlineMap`: `max_entries`, hasher, maximum lifetime and name.

use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

use crate::common::{HOUR, OnDrop, ms, panic_message, undriven};
use hairspring::deadline_map::Builder;
use hairspring::{DeadlineMap, Duration, Instant, Timer};

#[test]
fn settings_out_of_range_are_refused() {
    type Map = Builder<u8, u8>;
    let builder = DeadlineMap::<u8, u8>::builder;
    let refused: [(Map, &str); 5] = [
        (builder().shards(0), "shards is 0: must be from 1 to 64"),
        (builder().shards(65), "shards is 65: must be from 1 to 64"),
        (builder().max_entries(0), "max_entries is 0: must be at least 1"),
        (
            builder().timer(&undriven(Timer::builder().max_pending(5)).0),
            "timer is one with a `max_pending` of 5: must be one without, because the stream cannot return an error",
        ),
        (builder().max_lifetime(Duration::ZERO), "max_lifetime is 0ns: must be at least 1ns"),
    ];
    for (builder, message) in refused {
        let error = builder.build().unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
    assert!(builder().max_lifetime(Duration::MAX).max_entries(usize::MAX).shards(64).clone().build().is_ok());
}

#[test]
fn a_refusal_names_the_map_and_gives_everything_back() {
    let (map, _expirations) = DeadlineMap::builder().max_entries(2).name("sessions").build().unwrap();
    let value = Arc::new(3);
    map.insert("a", Arc::new(1), HOUR);
    map.insert("b", Arc::new(2), HOUR);
    let message = "the map `sessions` is full: it has room for 2 entries";
    let full = map.try_insert("c", value.clone(), HOUR).unwrap_err();
    assert_eq!(full.to_string(), message);
    assert!(matches!(full.into_inner(), ("c", back) if Arc::ptr_eq(&back, &value)));
    let full = map.try_insert_if_absent("c", value.clone(), HOUR).unwrap_err();
    assert_eq!(full.to_string(), message);
    assert!(matches!(full.into_inner(), ("c", back) if Arc::ptr_eq(&back, &value)));
    for panic in [
        panic_message(|| map.insert("c", value.clone(), HOUR)),
        panic_message(|| map.insert_at("c", value.clone(), Instant::now())),
        panic_message(|| map.insert_if_absent("c", value.clone(), HOUR)),
        panic_message(|| map.get_or_insert_with(&"c", HOUR, || panic!("not called"))),
    ] {
        assert_eq!(panic, message);
    }
    assert_eq!((map.metrics().refused(), Arc::strong_count(&value)), (6, 1), "a panic drops the value");
    let present = map.try_insert_if_absent("a", value.clone(), HOUR).unwrap_err();
    assert_eq!(
        (present.is_full(), present.to_string().as_str()),
        (false, "the map `sessions` has an entry for this key")
    );
    assert!(matches!(present.into_inner(), ("a", back) if Arc::ptr_eq(&back, &value)));
    assert_eq!(map.metrics().refused(), 6, "a key that has an entry is not refused for want of room");
    map.remove("b");
    assert_eq!(panic_message(|| map.get_or_insert_with(&"c", HOUR, || panic!("on purpose"))), "on purpose");
    assert!(map.try_insert_if_absent("d", value, HOUR).is_ok(), "a function that panicked takes no room");
}

#[test]
fn a_full_map_without_its_stream_drops_expired_entries() {
    type Value = Option<OnDrop<Box<dyn FnMut() + Send>>>;
    let (map, expirations) = DeadlineMap::<u8, Value>::builder().shards(8).max_entries(20).build().unwrap();
    drop(expirations);
    for key in 0..20 {
        // A metrics reporter counts refusals and never subtracts one, so it must not see one here.
        let inside = map.clone();
        let value = OnDrop(Box::new(move || assert_eq!(inside.metrics().refused(), 0)) as _);
        assert!(map.try_insert(key, Some(value), ms(1)).is_ok());
    }
    std::thread::sleep(ms(2));
    for key in 20..40 {
        let inserted = if key % 2 == 0 {
            map.try_insert(key, None, HOUR).map(drop)
        } else {
            map.try_insert_if_absent(key, None, HOUR)
        };
        assert!(inserted.is_ok(), "{key}");
    }
    assert_eq!((map.metrics().expired(), map.metrics().refused()), (20, 0));
    assert!(map.try_insert(40, None, HOUR).is_err());
    assert_eq!(map.metrics().refused(), 1);
    assert!(map.len() == 20 && (20..40).all(|key| map.contains_key(&key)));
}

/// A bug that this crate had: the map was full although entries had expired, if another insert took the room of the one
/// that was dropped.
#[test]
fn an_insert_makes_room_until_it_gets_it() {
    type Value = Option<OnDrop<Box<dyn FnMut() + Send>>>;
    for _ in 0..20 {
        // With many shards, hardly any of the inserts meets an expired entry in its own.
        let (map, expirations) = DeadlineMap::<u8, Value>::builder().shards(64).max_entries(3).build().unwrap();
        drop(expirations);
        let inside = map.clone();
        let inserts = OnDrop(Box::new(move || _ = inside.try_insert(11, None, HOUR)) as _);
        for (key, value) in [(1, Some(inserts)), (2, None), (3, None)] {
            assert!(map.try_insert(key, value, ms(1)).is_ok());
        }
        std::thread::sleep(ms(2));
        assert!(map.try_insert(4, None, HOUR).is_ok());
    }
}

#[test]
fn a_map_works_with_any_hasher() {
    #[derive(Default)]
    struct Same;
    impl Hasher for Same {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }
    let (map, _expirations) = DeadlineMap::builder().hasher(BuildHasherDefault::<Same>::default()).build().unwrap();
    let other = map.clone();
    for key in 0..200 {
        map.insert(key, key, HOUR);
    }
    assert!((0..200).all(|key| other.get(&key) == Some(key)));
    assert!((0..200).all(|key| other.remove(&key) == Some(key)) && map.is_empty());
}

#[test]
fn a_name_is_in_what_a_map_prints() {
    let (map, expirations) = DeadlineMap::builder().name("sessions").max_entries(1).build().unwrap();
    map.insert(1, 'a', HOUR);
    assert_eq!(format!("{map:?}"), r#"DeadlineMap { name: "sessions", len: 1, .. }"#);
    assert!(format!("{expirations:?}").starts_with(r#"Expirations { name: "sessions""#));
    let (unnamed, expirations) = DeadlineMap::<u8, u8>::new();
    assert_eq!(format!("{unnamed:?}"), "DeadlineMap { len: 0, .. }");
    assert!(format!("{expirations:?}").starts_with("Expirations"));
}
