//! Reading a `DeadlineMap`, and changing what is in it.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, OnDrop, longest, ms, must_end, panic_message};
use futures::Stream;
use hairspring::{DeadlineMap, Duration, Expirations, Instant};
#[cfg(feature = "test-util")]
use hairspring::{Timer, test_util::ManualClock};

type Halves<V> = (DeadlineMap<u32, V>, Expirations<u32, V>);

fn poll<K, V>(expirations: &mut Expirations<K, V>) -> Poll<Option<(K, V)>> {
    Pin::new(expirations).poll_next(&mut Context::from_waker(Waker::noop()))
}

/// Entries 0 to 99, each with its key as the value, in a map of several shards.
fn hundred() -> Halves<u32> {
    let halves = DeadlineMap::builder().shards(8).build().unwrap();
    for key in 0..100 {
        halves.0.insert(key, key, HOUR);
    }
    halves
}

fn contents<V: Clone>(map: &DeadlineMap<u32, V>) -> HashMap<u32, V> {
    let mut contents = HashMap::new();
    map.for_each(|key, value, _| assert!(contents.insert(*key, value.clone()).is_none(), "each once"));
    contents
}

#[test]
fn values_are_read_and_changed_by_key() {
    let (map, _expirations) = DeadlineMap::new();
    map.insert(String::from("key"), vec![1], HOUR);
    assert_eq!(map.get("key"), Some(vec![1]));
    assert_eq!(map.update("key", |value| value.push(2)), Some(()));
    assert_eq!(map.get_with("key", Vec::len), Some(2));
    assert!(map.contains_key("key") && map.contains_key(&String::from("key")));
    assert!(map.remaining("key") <= Some(HOUR), "none of these puts it off");
    assert_eq!(map.touch_with("key", 2 * HOUR, std::mem::take), Some(vec![1, 2]));
    assert!(map.remaining("key") > Some(HOUR) && map.get("key") == Some(vec![]));
    assert!(map.touch_at("key", Instant::now() + 3 * HOUR));
    assert!(map.remaining("key") > Some(2 * HOUR));
    let none = "no such key";
    assert_eq!((map.get(none), map.get_with(none, |_| ()), map.update(none, |_| ())), (None, None, None));
    assert_eq!((map.touch_with(none, HOUR, |_| ()), map.touch_at(none, Instant::now())), (None, false));
    assert!(!map.contains_key(none));
}

/// Each method, when the deadline has just come and after it. The stream is not polled meanwhile.
#[cfg(feature = "test-util")]
#[test]
fn after_its_deadline_an_entry_is_there_for_the_stream_only() {
    const NANO: Duration = Duration::from_nanos(1);
    // With few entries a map keeps them in another way than with many.
    for (late, others) in [Duration::ZERO, NANO, HOUR].into_iter().flat_map(|late| [(late, 0), (late, 100)]) {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let (map, mut expirations) = DeadlineMap::builder().shards(1).timer(&timer).build().unwrap();
        let alive = others + 1;
        (0..alive).for_each(|other| assert_eq!(map.insert(format!("alive {other}"), 0, 9 * HOUR), None));
        let names = ["past", "inserted", "inserted at", "tried"];
        for name in names {
            map.insert(name.to_owned(), 1, ms(5));
        }
        assert!(poll(&mut expirations).is_pending());
        clock.advance(Duration::from_nanos(4_999_999));
        assert_eq!((map.remaining("past"), map.get("past")), (Some(NANO), Some(1)));
        clock.advance(NANO + late);

        let when = clock.now() + HOUR;
        let code = |_: &mut i32| panic!("it has expired");
        assert_eq!((map.get("past"), map.contains_key("past"), map.remaining("past")), (None, false, None));
        assert_eq!(map.get_with("past", |_| panic!("it has expired")), None::<()>);
        assert_eq!(map.get_with_remaining("past", |_, _| panic!("it has expired")), None::<()>);
        assert_eq!(map.update("past", code), None::<()>);
        assert_eq!(map.touch_with("past", HOUR, code), None::<()>);
        assert!(!map.touch("past", HOUR), "a late heartbeat revives nothing");
        assert!(!map.touch_at("past", when));
        let mut seen = 0;
        let mut look = |key: &String| seen += usize::from(key.starts_with("alive"));
        map.for_each(|key, _, _| look(key));
        map.retain(|key, _| {
            look(key);
            !key.starts_with("past")
        });
        assert_eq!(seen, 2 * alive);
        assert_eq!(map.remove("past"), None);
        // They still take room.
        assert_eq!((map.len(), map.is_empty()), (alive + 4, false));
        assert_eq!(map.insert("inserted".to_owned(), 2, HOUR), None);
        assert_eq!(map.insert_at("inserted at".to_owned(), 2, when), None);
        assert_eq!(map.try_insert("tried".to_owned(), 2, HOUR), Ok(None));
        assert_eq!(map.len(), alive + 7, "old and new");

        let mut expired = Vec::new();
        while let Poll::Ready(Some(entry)) = poll(&mut expirations) {
            expired.push(entry);
        }
        expired.sort_unstable();
        let mut all = names.map(|name| (name.to_owned(), 1));
        all.sort_unstable();
        assert_eq!(expired, all, "nothing is lost");
        assert!(names[1..].iter().all(|name| map.get(*name) == Some(2) && map.remaining(*name) == Some(HOUR)));
        assert_eq!((map.len(), map.get("past")), (alive + 3, None));
        // What is cleared is gone for the stream, too.
        clock.advance(HOUR);
        assert_eq!(map.insert("tried".to_owned(), 3, HOUR), None);
        map.clear();
        assert_eq!((map.len(), poll(&mut expirations)), (0, Poll::Pending));
    }
}

#[tokio::test(start_paused = true)]
async fn deadlines_can_be_instants() {
    let (map, mut expirations) = DeadlineMap::new();
    let start = Instant::now();
    map.insert_at("later", 1, start + 2 * HOUR);
    map.insert_at("sooner", 2, start + HOUR);
    assert_eq!(map.remaining("later"), Some(2 * HOUR));
    assert!(map.touch_at("later", start + ms(1)), "it can be moved forward");
    assert_eq!(expirations.recv().await, Some(("later", 1)));
    assert_eq!(start.elapsed(), ms(1));
    assert!(map.touch_at("sooner", start + 3 * HOUR));
    assert_eq!(expirations.recv().await, Some(("sooner", 2)));
    assert_eq!(start.elapsed(), 3 * HOUR);
    map.insert_at("past", 3, start);
    assert_eq!((map.get("past"), poll(&mut expirations)), (None, Poll::Ready(Some(("past", 3)))));
    map.insert_at("touched", 4, start + 9 * HOUR);
    assert!(map.touch_at("touched", start));
    assert_eq!(poll(&mut expirations), Poll::Ready(Some(("touched", 4))));
}

#[tokio::test(start_paused = true)]
async fn a_touch_that_changes_moves_the_deadline_of_what_waits() {
    let (map, mut expirations) = DeadlineMap::new();
    let start = Instant::now();
    map.insert('a', 1, HOUR);
    assert!(poll(&mut expirations).is_pending());
    assert_eq!(map.touch_with(&'a', ms(7), |value| *value += 1), Some(()));
    assert_eq!(expirations.recv().await, Some(('a', 2)));
    assert_eq!(start.elapsed(), ms(7));
}

#[test]
fn zero_and_the_longest_durations_are_taken() {
    let (map, mut expirations) = DeadlineMap::new();
    for duration in longest() {
        map.insert(1, 'a', Duration::from_secs(1));
        assert_eq!(map.touch_with(&1, duration, |value| *value), Some('a'));
        assert!(map.remaining(&1) > Some(499 * 365 * 24 * HOUR));
    }
    let (earliest, latest) = (Instant::now() - Duration::MAX, Instant::now() + Duration::MAX);
    assert!(map.touch_at(&1, latest));
    assert_eq!(map.get(&1), Some('a'));
    assert_eq!(map.touch_with(&1, Duration::ZERO, |value| *value), Some('a'));
    assert_eq!(map.get(&1), None);
    map.insert_at(2, 'b', latest);
    map.insert_at(3, 'c', earliest);
    assert_eq!((map.get(&2), map.get(&3)), (Some('b'), None));
    let mut out = [poll(&mut expirations), poll(&mut expirations)].map(|polled| match polled {
        Poll::Ready(Some((key, _))) => key,
        other => panic!("{other:?}"),
    });
    out.sort_unstable();
    assert_eq!(out, [1, 3]);
}

#[test]
fn a_map_is_gone_through_and_thinned_out() {
    let (map, _expirations) = hundred();
    assert_eq!(contents(&map), (0..100).map(|key| (key, key)).collect());
    map.retain(|key, value| {
        *value += 1;
        key % 3 == 0
    });
    assert_eq!(contents(&map), (0..100).step_by(3).map(|key| (key, key + 1)).collect());
    assert_eq!(map.len(), 34);
    map.retain(|_, _| false);
    assert_eq!((map.is_empty(), map.len()), (true, 0));
    map.insert(1, 1, HOUR);
    assert_eq!(map.get(&1), Some(1), "it is a map still");
}

/// A paused clock jumps to what is set: nothing may stay set for what was taken out.
#[tokio::test(start_paused = true)]
async fn what_was_not_retained_moves_no_clock() {
    let (map, mut expirations) = DeadlineMap::new();
    map.insert(1, (), ms(10));
    map.insert(2, (), HOUR);
    assert!(poll(&mut expirations).is_pending());
    let start = Instant::now();
    map.retain(|key, ()| *key == 2);
    hairspring::sleep(ms(30)).await;
    assert_eq!(start.elapsed(), ms(30));
    assert_eq!(expirations.recv().await, Some((2, ())));
    assert_eq!(start.elapsed(), HOUR);
}

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
        panic_message(|| map.touch_with(&key, Duration::ZERO, |_| panic!("on purpose")));
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
    assert_eq!((map.len(), rest.len()), (51, 51), "49 were taken out before");
    assert!(rest.iter().all(|(key, value)| *value == key + 1_000 && map.remaining(key) > Some(HOUR / 2)));
    assert!(poll(&mut expirations).is_pending());
    for key in rest.keys() {
        assert!(map.touch(key, Duration::ZERO));
        assert_eq!(poll(&mut expirations), Poll::Ready(Some((*key, key + 1_000))));
    }
    assert!(map.is_empty());
}

#[test]
fn a_closure_that_uses_its_own_map_panics_whatever_the_key() {
    must_end(|| {
        let (map, _expirations) = hundred();
        // Those from 100 on are not in the map, and may be in a shard without entries.
        for other in 0..200 {
            let calls: [&dyn Fn() -> bool; 8] = [
                &|| map.get(&other).is_some(),
                &|| map.insert(other, 0, HOUR).is_some(),
                &|| map.touch(&other, HOUR),
                &|| map.remove(&other).is_some(),
                &|| map.remaining(&other).is_some(),
                &|| map.update(&other, |value| *value = 0).is_some(),
                &|| map.len() == 100,
                &|| {
                    map.clear();
                    true
                },
            ];
            for call in calls {
                let said = panic_message(|| map.get_with(&5, |_| call()));
                assert!(said.contains("used the same map"), "{said}");
            }
            panic_message(|| map.update(&5, |_| map.remove(&other)));
            panic_message(|| map.touch_with(&5, HOUR, |_| map.remove(&other)));
        }
        panic_message(|| map.for_each(|key, _, _| assert!(map.remove(key).is_some())));
        panic_message(|| map.retain(|key, _| map.remove(key).is_some()));
        assert_eq!(contents(&map), (0..100).map(|key| (key, key)).collect());
    });
}

#[test]
fn the_panic_says_which_method_runs_the_closure() {
    let ((map, _one), (other, _two)) = (hundred(), hundred());
    let again = || map.contains_key(&7);
    let calls: [(&str, &dyn Fn()); 6] = [
        ("get_with", &|| _ = map.get_with(&5, |_| again())),
        ("get_with_remaining", &|| _ = map.get_with_remaining(&5, |_, _| again())),
        ("update", &|| _ = map.update(&5, |_| again())),
        ("touch_with", &|| _ = map.touch_with(&5, HOUR, |_| again())),
        ("for_each", &|| map.for_each(|_, _, _| _ = again())),
        ("retain", &|| map.retain(|_, _| again())),
    ];
    for (method, call) in calls {
        let whose = format!("the closure given to `DeadlineMap::{method}`");
        let expected = format!("{whose} used the same map, which is locked while it runs");
        assert_eq!(panic_message(call), expected);
    }
    // The method of the map that is used again, whichever closure is the innermost.
    let said = panic_message(|| map.touch_with(&5, HOUR, |_| other.get_with(&5, |_| again())));
    assert!(said.starts_with("the closure given to `DeadlineMap::touch_with` used"), "{said}");
    let said = panic_message(|| map.update(&5, |_| other.get_with(&5, |_| other.remove(&6))));
    assert!(said.starts_with("the closure given to `DeadlineMap::get_with` used"), "{said}");
}

#[test]
fn the_panic_says_that_a_clone_used_the_map() {
    struct Again(Option<DeadlineMap<u32, Again>>);
    impl Clone for Again {
        fn clone(&self) -> Again {
            self.0.as_ref().map(|map| map.contains_key(&2));
            Again(None)
        }
    }
    let (map, _expirations) = DeadlineMap::new();
    map.insert(1, Again(Some(map.clone())), HOUR);
    let said = panic_message(|| drop(map.get(&1)));
    assert_eq!(said, "`Clone` of a value in `DeadlineMap::get` used the same map, which is locked while it runs");
    map.clear();
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_time_that_remains() {
    let (map, mut expirations) = DeadlineMap::new();
    for hours in 1..=20 {
        map.insert(hours, (), hours * HOUR);
    }
    let remaining = || {
        let mut all = Vec::new();
        map.for_each(|hours, (), remaining| all.push((*hours, remaining)));
        all.sort_unstable();
        all
    };
    assert!(remaining().into_iter().eq((1..=20).map(|hours| (hours, hours * HOUR))));
    assert_eq!(expirations.recv().await, Some((1, ())));
    map.touch(&2, 5 * HOUR);
    assert_eq!(map.get_with_remaining(&2, |(), remaining| remaining), Some(5 * HOUR));
    assert_eq!(map.get_with_remaining(&3, |(), remaining| remaining), Some(2 * HOUR));
    assert_eq!(map.get_with_remaining(&1, |(), remaining| remaining), None);
    assert!(remaining().into_iter().all(|(hours, remaining)| map.remaining(&hours) == Some(remaining)));
}

#[test]
fn a_closure_may_use_another_map() {
    must_end(|| {
        let ((map, _one), (other, _two), (third, _three)) = (hundred(), hundred(), hundred());
        let seen = map.get_with(&1, |_| {
            let inner = other.update(&2, |_| {
                let said = panic_message(|| map.get(&3));
                assert!(said.contains("used the same map"), "{said}");
                third.get(&3)
            });
            (inner, other.remove(&2), panic_message(|| map.get(&3)))
        });
        assert!(matches!(seen, Some((Some(Some(3)), Some(2), _))));
        // And nothing of it stays behind.
        assert_eq!((map.remove(&1), other.get(&2), third.remove(&1)), (Some(1), None, Some(1)));
    });
}

/// What a closure drops is dropped under the lock. What the map drops is not.
#[test]
fn what_was_not_retained_may_come_back_into_the_map_as_it_is_dropped() {
    must_end(|| {
        let (map, _expirations) = DeadlineMap::new();
        for key in 0..100_u32 {
            let again = map.clone();
            let value: OnDrop<Box<dyn FnMut() + Send>> = OnDrop(Box::new(move || {
                again.remove(&(key + 1));
            }));
            map.insert(key, value, HOUR);
        }
        map.retain(|key, _| key % 2 == 1);
        assert_eq!(map.len(), 0);
    });
}

#[test]
fn a_value_whose_clone_panics_stays() {
    #[derive(Debug)]
    struct Bad;
    impl Clone for Bad {
        fn clone(&self) -> Bad {
            panic!("on purpose")
        }
    }
    let (map, _expirations) = DeadlineMap::new();
    map.insert(1, Bad, HOUR);
    panic_message(|| map.get(&1));
    assert!(map.contains_key(&1) && map.remove(&1).is_some());
}

/// A key that panics in `Hash` or `Eq`, as it was made to.
#[derive(Debug)]
struct Tricky(u32, Option<&'static str>);

impl Tricky {
    fn code(&self, code: &str) {
        assert!(self.1 != Some(code), "on purpose");
    }
}

impl Hash for Tricky {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.code("hash");
        self.0.hash(state);
    }
}

impl PartialEq for Tricky {
    fn eq(&self, other: &Tricky) -> bool {
        self.code("eq");
        other.code("eq");
        self.0 == other.0
    }
}

impl Eq for Tricky {}

#[test]
fn keys_that_panic_in_hash_or_eq_lose_nothing() {
    let (map, _expirations) = DeadlineMap::builder().capacity(51).build().unwrap();
    for key in 0..50 {
        map.insert(Tricky(key, None), key, HOUR);
    }
    for (key, code) in (0..50).zip(["hash", "eq"].into_iter().cycle()) {
        let bad = || Tricky(key, Some(code));
        panic_message(|| map.get(&bad()));
        panic_message(|| map.contains_key(&bad()));
        panic_message(|| map.update(&bad(), |_| panic!("not called")));
        panic_message(|| map.touch_with(&bad(), Duration::ZERO, |_| panic!("not called")));
        panic_message(|| map.touch_at(&bad(), Instant::now()));
        panic_message(|| map.insert_at(bad(), 0, Instant::now()));
        panic_message(|| map.try_insert(bad(), 0, Duration::ZERO));
        panic_message(|| map.try_insert_at(bad(), 0, Instant::now()));
    }
    assert!((0..50).all(|key| map.get(&Tricky(key, None)) == Some(key)) && map.len() == 50);
    assert!(map.try_insert(Tricky(50, None), 50, HOUR).is_ok(), "none of them took room");
    assert!(map.try_insert(Tricky(51, None), 51, HOUR).is_err());
}
