//! Settings of a `DeadlineMap`: capacity, hasher, maximum lifetime and name.

use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::Arc;

use crate::common::{HOUR, OnDrop, ms, panic_message};
use hairspring::deadline_map::Builder;
use hairspring::{DeadlineMap, Duration, Instant, Timer};

#[test]
fn settings_out_of_range_are_refused() {
    type Map = Builder<u8, u8>;
    let builder = DeadlineMap::<u8, u8>::builder;
    let refused: [(Map, &str); 5] = [
        (builder().shards(0), "shards is 0: must be from 1 to 64"),
        (builder().shards(65), "shards is 65: must be from 1 to 64"),
        (builder().capacity(0), "capacity is 0: must be at least 1"),
        (
            builder().timer(&Timer::builder().capacity(5).build_with_driver().unwrap().0),
            "timer is one with a capacity of 5: must have none, because the stream cannot return an error",
        ),
        (builder().max_lifetime(Duration::ZERO), "max_lifetime is 0ns: must be at least 1ns"),
    ];
    for (builder, message) in refused {
        let error = builder.build().unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
    }
    assert!(builder().max_lifetime(Duration::MAX).capacity(usize::MAX).shards(64).clone().build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_full_map_refuses_new_keys_only() {
    let (map, mut expirations) = DeadlineMap::builder().capacity(2).name("sessions").build().unwrap();
    assert_eq!(map.try_insert("a", Arc::new(1), ms(5)), Ok(None));
    map.insert("b", Arc::new(2), HOUR);
    let value = Arc::new(3);
    let full = map.try_insert("c", value.clone(), HOUR).unwrap_err();
    let message = "the map `sessions` is at capacity: it has room for 2 entries";
    assert_eq!(full.to_string(), message);
    assert_eq!(panic_message(|| map.insert("c", value.clone(), HOUR)), message);
    assert_eq!(panic_message(|| map.insert_at("c", value.clone(), Instant::now())), message);
    let (key, given_back) = full.into_inner();
    assert!(key == "c" && Arc::ptr_eq(&value, &given_back));
    drop(given_back);
    assert_eq!(Arc::strong_count(&value), 1, "a panic drops the value");
    assert_eq!(map.try_insert("b", Arc::new(4), HOUR).unwrap().as_deref(), Some(&2), "a replacement takes no room");
    // An expired entry takes room until it is handed out.
    tokio::time::advance(ms(5)).await;
    assert!(map.try_insert("a", value.clone(), HOUR).is_err(), "its key counts as new");
    assert_eq!(expirations.recv().await, Some(("a", Arc::new(1))));
    assert_eq!(map.try_insert_at("c", value, Instant::now() + HOUR), Ok(None));
    assert!(map.try_insert("d", Arc::new(4), HOUR).is_err());
}

#[test]
fn a_full_map_without_its_stream_drops_expired_entries() {
    type Value = Option<OnDrop<Box<dyn FnMut() + Send>>>;
    let (map, expirations) = DeadlineMap::<u8, Value>::builder().shards(8).capacity(20).build().unwrap();
    drop(expirations);
    for key in 0..20 {
        // A metrics reporter counts refusals and never subtracts one, so it must not see one here.
        let inside = map.clone();
        let value = OnDrop(Box::new(move || assert_eq!(inside.metrics().refused(), 0)) as _);
        assert!(map.try_insert(key, Some(value), ms(1)).is_ok());
    }
    std::thread::sleep(ms(2));
    for key in 20..40 {
        assert!(map.try_insert(key, None, HOUR).is_ok(), "{key}");
    }
    assert_eq!((map.metrics().expired(), map.metrics().refused()), (20, 0));
    assert!(map.try_insert(40, None, HOUR).is_err());
    assert_eq!(map.metrics().refused(), 1);
    assert!(map.len() == 20 && (20..40).all(|key| map.contains_key(&key)));
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

#[tokio::test(start_paused = true)]
async fn no_touch_moves_an_entry_beyond_its_maximum_lifetime() {
    const IDLE: Duration = Duration::from_secs(30 * 60);
    // A shard stores a few entries differently from many.
    for others in [0, 100] {
        let (map, mut expirations) = DeadlineMap::builder().shards(1).max_lifetime(8 * HOUR).build().unwrap();
        let start = Instant::now();
        map.insert(1, 1, IDLE);
        tokio::time::advance(ms(1)).await;
        (0..others).for_each(|other| assert_eq!(map.insert(1_000 + other, 0, 100 * HOUR), None));
        while start.elapsed() < 7 * HOUR {
            assert!(map.touch(&1, IDLE) && map.remaining(&1) == Some(IDLE), "a deadline before the end is kept");
            tokio::time::advance(IDLE / 3).await;
        }
        let left = Some(start + 8 * HOUR - Instant::now());
        assert!(map.touch_at(&1, Instant::now() + 2 * HOUR) && map.remaining(&1) == left);
        assert_eq!(map.deadline(&1), Some(start + 8 * HOUR));
        assert_eq!((map.touch_with(&1, Duration::MAX, |value| *value = 2), map.remaining(&1)), (Some(()), left));
        assert!(map.touch(&1, ms(5)) && map.remaining(&1) == Some(ms(5)), "an entry may end earlier");
        assert!(map.touch(&1, 2 * HOUR) && map.remaining(&1) == left);
        assert_eq!((map.insert(2, 0, Duration::MAX), map.remaining(&2)), (None, Some(8 * HOUR)), "inserts are limited");
        assert_eq!(expirations.recv().await, Some((1, 2)));
        assert_eq!(start.elapsed(), 8 * HOUR, "to the nanosecond");
        assert_eq!((map.insert(2, 3, 9 * HOUR), map.remaining(&2)), (Some(0), Some(8 * HOUR)), "a new life");
    }
}

#[test]
fn a_name_is_in_what_a_map_prints() {
    let (map, expirations) = DeadlineMap::builder().name("sessions").capacity(1).build().unwrap();
    map.insert(1, 'a', HOUR);
    assert_eq!(format!("{map:?}"), r#"DeadlineMap { name: "sessions", len: 1, .. }"#);
    assert!(format!("{expirations:?}").starts_with(r#"Expirations { name: "sessions""#));
    let (unnamed, expirations) = DeadlineMap::<u8, u8>::new();
    assert_eq!(format!("{unnamed:?}"), "DeadlineMap { len: 0, .. }");
    assert!(format!("{expirations:?}").starts_with("Expirations"));
}
