//! Each behaviour of `DeadlineMap` and `Expirations`, on the clocks of runtimes.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;

use crate::common::{
    HOUR, OnDrop, Random, Wakes, bare, both_flavours, longest, ms, must_end, panic_message, paused, settle,
};
use futures::{Stream, StreamExt};
use hairspring::{DeadlineMap, Duration, Expirations, Instant, Timer};

fn poll_with<K, V>(expirations: &mut Expirations<K, V>, waker: &Waker) -> Poll<Option<(K, V)>> {
    Pin::new(expirations).poll_next(&mut Context::from_waker(waker))
}

fn poll<K, V>(expirations: &mut Expirations<K, V>) -> Poll<Option<(K, V)>> {
    poll_with(expirations, Waker::noop())
}

#[test]
fn both_halves_go_where_they_are_needed() {
    fn is_send_and_sync<T: Send + Sync>() {}
    fn is_send_and_unpin<T: Send + Unpin>() {}
    // With values that are `Send` only.
    is_send_and_sync::<DeadlineMap<String, RefCell<u8>>>();
    is_send_and_unpin::<Expirations<String, RefCell<u8>>>();
    is_send_and_unpin::<Expirations<String, std::marker::PhantomPinned>>();
}

#[test]
fn entries_expire_in_order_and_never_early_on_every_runtime() {
    let running = both_flavours().into_iter().chain(bare()).map(|runtime| (runtime, false));
    for (runtime, is_paused) in running.chain([(paused(), true)]) {
        runtime.block_on(async {
            let (map, expirations) = DeadlineMap::new();
            let start = Instant::now();
            for n in (1..=20).rev() {
                assert_eq!(map.insert(n, n, ms(n)), None);
            }
            drop(map);
            let mut expired: Vec<_> = expirations.map(|(key, _)| (key, start.elapsed())).collect().await;
            if !is_paused {
                // Time has passed between the inserts, by more than their deadlines differ perhaps.
                expired.sort_unstable();
            }
            assert!(expired.iter().map(|&(key, _)| key).eq(1..=20));
            assert!(expired.iter().all(|&(key, after)| after >= ms(key)));
        });
    }
}

#[test]
fn a_map_may_be_made_and_used_where_there_is_no_runtime() {
    let (map, mut expirations) = DeadlineMap::new();
    map.insert("later", 1, HOUR);
    map.insert("due", 2, Duration::ZERO);
    assert_eq!(poll(&mut expirations), Poll::Ready(Some(("due", 2))), "what is due takes no waiting");
    assert_eq!(poll(&mut expirations), Poll::Pending);
    map.touch("later", ms(2));
    for (runtime, key) in bare().into_iter().zip(["next", "last"]) {
        map.insert(key, 3, ms(1));
        assert!(runtime.block_on(expirations.recv()).is_some());
    }
    drop(map);
    assert!(bare()[0].block_on(expirations.recv()).is_some());
    assert_eq!(poll(&mut expirations), Poll::Ready(None));
}

#[tokio::test(start_paused = true)]
async fn a_touch_puts_the_deadline_off_or_advances_it() {
    let (map, mut expirations) = DeadlineMap::new();
    let start = Instant::now();
    map.insert("off", (), HOUR);
    map.insert("advanced", (), 3 * HOUR);
    map.insert("back and forth", (), HOUR);
    assert!(map.touch("off", 5 * HOUR));
    assert!(map.touch("advanced", 2 * HOUR));
    assert!(map.touch("back and forth", 9 * HOUR) && map.touch("back and forth", 3 * HOUR));
    assert!(!map.touch("none", HOUR));
    for (key, hours) in [("advanced", 2), ("back and forth", 3), ("off", 5)] {
        assert_eq!(map.remaining(key), Some(start + hours * HOUR - Instant::now()));
        assert_eq!(expirations.recv().await, Some((key, ())));
        assert_eq!(start.elapsed(), hours * HOUR);
        assert_eq!((map.remaining(key), map.touch(key, HOUR)), (None, false));
    }
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_expired_comes_out_beside_the_one_that_took_its_key() {
    let (map, mut expirations) = DeadlineMap::new();
    map.insert("other", 0, ms(4));
    for life in 1..=3 {
        assert_eq!(map.insert("key", life, ms(5)), None);
        assert_eq!((map.get("key"), map.len()), (Some(life), 1 + life));
        tokio::time::advance(ms(5)).await;
    }
    assert_eq!((map.insert("key", 4, HOUR), map.insert("key", 5, 2 * HOUR)), (None, Some(4)));
    let metrics = map.metrics();
    assert_eq!((metrics.pending(), metrics.inserted(), metrics.expired(), metrics.removed()), (5, 5, 0, 0));
    drop(map);
    let start = Instant::now();
    for expected in [("key", 1), ("key", 2), ("key", 3), ("other", 0)] {
        assert_eq!(expirations.recv().await, Some(expected), "no life of it is lost, and they come in their order");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(expirations.recv().await, Some(("key", 5)));
    assert_eq!(start.elapsed(), 2 * HOUR);
    assert_eq!(expirations.recv().await, None);
}

/// However late its consumer is, a map with one key does not get slow.
#[test]
fn a_key_that_expires_again_and_again_costs_no_more_each_time() {
    let (map, mut expirations) = DeadlineMap::new();
    let compared = Arc::new(AtomicUsize::new(0));
    let key = || Counted(Arc::clone(&compared));
    for life in 0..10_000 {
        assert_eq!(map.insert(key(), life, Duration::ZERO), None);
    }
    assert!(compared.load(SeqCst) <= 10_000, "compared {} times", compared.load(SeqCst));
    for life in 0..10_000 {
        assert!(matches!(poll(&mut expirations), Poll::Ready(Some((_, taken))) if taken == life));
    }
    assert!(map.is_empty());
}

/// All are equal. Counts how often two were compared.
struct Counted(Arc<AtomicUsize>);

impl Hash for Counted {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Counted {
    fn eq(&self, _: &Counted) -> bool {
        self.0.fetch_add(1, SeqCst);
        true
    }
}

impl Eq for Counted {}

#[tokio::test(start_paused = true)]
async fn an_insert_replaces_the_value_and_keeps_the_key() {
    /// Two are equal if their first fields are.
    #[derive(Debug)]
    struct Named(u8, &'static str);
    impl PartialEq for Named {
        fn eq(&self, other: &Named) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Named {}
    impl Hash for Named {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    let (map, mut expirations) = DeadlineMap::new();
    assert_eq!(map.insert(Named(1, "old"), 'a', HOUR), None);
    assert_eq!(map.insert(Named(1, "new"), 'b', ms(1)), Some('a'));
    assert_eq!(map.len(), 1);
    let (key, value) = expirations.recv().await.unwrap();
    assert_eq!((key.1, value), ("old", 'b'));
}

#[test]
fn keys_are_looked_up_by_their_borrowed_forms() {
    let (map, _expirations) = DeadlineMap::<String, u8>::new();
    map.insert("key".to_owned(), 1, HOUR);
    assert!(map.touch("key", HOUR) && map.touch(&"key".to_owned(), HOUR));
    assert!(map.remaining("key").is_some());
    assert_eq!(map.remove("key"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_are_taken() {
    let (map, mut expirations) = DeadlineMap::new();
    for (number, duration) in longest().into_iter().enumerate() {
        map.insert(number, (), duration);
        assert!(map.remaining(&number) > Some(499 * 365 * 24 * HOUR));
    }
    assert!(poll(&mut expirations).is_pending());
    map.insert(9, (), ms(1));
    assert_eq!(expirations.recv().await, Some((9, ())));
    assert!(map.touch(&0, ms(1)));
    assert_eq!(expirations.recv().await, Some((0, ())));
}

#[tokio::test(start_paused = true)]
async fn the_stream_ends_when_the_handles_are_gone_and_what_they_left_has_expired() {
    let (map, mut expirations) = DeadlineMap::new();
    let other = map.clone();
    let (woken, waker) = Wakes::new();
    map.insert('a', (), HOUR);
    drop(map);
    assert!(poll_with(&mut expirations, &waker).is_pending());
    other.insert('b', (), 2 * HOUR);
    drop(other);
    assert_eq!(woken.count(), 1, "the last handle wakes, as the answer may be another");
    assert!(poll_with(&mut expirations, &waker).is_pending());
    assert_eq!(expirations.next().await, Some(('a', ())));
    assert_eq!(expirations.next().await, Some(('b', ())));
    assert_eq!(expirations.next().await, None);
    assert_eq!(expirations.next().await, None);
}

#[tokio::test]
async fn the_stream_of_an_empty_map_ends_with_its_last_handle() {
    let (map, mut expirations) = DeadlineMap::<u8, u8>::new();
    let task = tokio::spawn(async move { expirations.recv().await });
    settle().await;
    assert!(!task.is_finished());
    drop(map);
    assert_eq!(task.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn without_its_stream_a_map_throws_away_what_expired_as_others_come() {
    let (map, mut expirations) = DeadlineMap::new();
    assert!(poll(&mut expirations).is_pending());
    drop(expirations);
    let payloads: Vec<_> = (0..1_000).map(Arc::new).collect();
    for payload in &payloads {
        map.insert(**payload, Arc::clone(payload), ms(1));
    }
    assert_eq!((map.len(), map.remaining(&7)), (1_000, Some(ms(1))), "it is a map still");
    assert!(map.touch(&7, HOUR));
    tokio::time::advance(ms(2)).await;
    for key in 1_000..3_000 {
        map.insert(key, Arc::new(key), HOUR);
    }
    assert_eq!(map.len(), 2_001, "those that came, and the one that was touched");
    let alive = payloads.iter().filter(|payload| Arc::strong_count(payload) > 1).count();
    assert_eq!(alive, 1);
}

#[test]
fn the_last_half_drops_what_is_left() {
    let payload = Arc::new(());
    let kept = Arc::downgrade(&payload);
    let (map, expirations) = DeadlineMap::new();
    map.insert(1, payload, HOUR);
    drop(map.clone());
    drop(map);
    assert!(kept.upgrade().is_some());
    drop(expirations);
    assert!(kept.upgrade().is_none());
}

#[test]
fn payloads_are_freed_at_once() {
    fn insert(map: &DeadlineMap<Arc<u8>, Arc<u8>>, number: u8) -> [Weak<u8>; 2] {
        let (key, value) = (Arc::new(number), Arc::new(number));
        let weak = [Arc::downgrade(&key), Arc::downgrade(&value)];
        drop(map.insert(key, value, HOUR));
        weak
    }
    let is_gone = |payload: &Weak<u8>| payload.strong_count() == 0;
    let (map, expirations) = DeadlineMap::new();
    let removed = insert(&map, 1);
    drop(map.remove(&1));
    assert!(removed.iter().all(is_gone));
    let (first, second) = (insert(&map, 2), insert(&map, 2));
    assert!(!is_gone(&first[0]) && is_gone(&first[1]), "the value was replaced, the key was not");
    assert!(is_gone(&second[0]) && !is_gone(&second[1]));
    let cleared: Vec<_> = (3..100).flat_map(|number| insert(&map, number)).collect();
    map.clear();
    assert!(cleared.iter().chain(&first).chain(&second).all(is_gone));
    assert_eq!((map.len(), map.is_empty()), (0, true));
    let dropped: Vec<_> = (3..100).flat_map(|number| insert(&map, number)).collect();
    drop((map, expirations));
    assert!(dropped.iter().all(is_gone));
}

#[tokio::test(start_paused = true)]
async fn a_map_can_be_used_after_it_was_cleared() {
    let (map, mut expirations) = DeadlineMap::new();
    map.insert(1, 'a', ms(5));
    assert!(poll(&mut expirations).is_pending());
    map.clear();
    assert_eq!(map.remaining(&1), None);
    map.insert(1, 'b', ms(10));
    let start = Instant::now();
    assert_eq!(expirations.recv().await, Some((1, 'b')));
    assert_eq!(start.elapsed(), ms(10));
}

#[test]
fn only_an_insert_before_what_it_waits_for_wakes_the_consumer() {
    paused().block_on(async {
        let (map, mut expirations) = DeadlineMap::new();
        let (first, waker) = Wakes::new();
        assert!(poll_with(&mut expirations, &waker).is_pending());
        map.insert(1, (), 5 * HOUR);
        assert_eq!(first.count(), 1);
        let (second, waker) = Wakes::new();
        assert!(poll_with(&mut expirations, &waker).is_pending());
        for (key, hours) in [(2, 6), (3, 5), (4, 9)] {
            map.insert(key, (), hours * HOUR);
        }
        map.touch(&1, 6 * HOUR);
        map.touch(&4, 5 * HOUR);
        map.remove(&3);
        assert_eq!(second.count(), 0);
        map.touch(&4, 4 * HOUR);
        map.insert(5, (), HOUR);
        assert_eq!((first.count(), second.count()), (1, 1), "once, and the last waker given");
        drop(expirations);
        map.insert(6, (), ms(1));
        assert_eq!(second.count(), 1);
    });
}

#[test]
fn a_consumer_that_waits_on_a_timer_that_was_shut_down_panics() {
    both_flavours()[0].block_on(async {
        let timer = Timer::builder().build().unwrap();
        let (map, mut expirations) = DeadlineMap::with_timer(&timer);
        map.insert(1, (), Duration::ZERO);
        map.insert(2, (), HOUR);
        timer.shutdown();
        assert_eq!(poll(&mut expirations), Poll::Ready(Some((1, ()))));
        let said = panic_message(|| poll(&mut expirations));
        assert!(said.contains("shut down"), "{said}");
    });
}

#[test]
fn a_consumer_that_waits_on_a_full_timer_panics_and_loses_nothing() {
    both_flavours()[0].block_on(async {
        let timer = Timer::builder().capacity(1).build().unwrap();
        let mut other = timer.sleep(HOUR);
        assert!(futures::poll!(&mut other).is_pending());
        let (map, mut expirations) = DeadlineMap::with_timer(&timer);
        map.insert(1, (), Duration::ZERO);
        map.insert(2, (), HOUR);
        assert_eq!(poll(&mut expirations), Poll::Ready(Some((1, ()))), "what is due takes no room");
        let said = panic_message(|| poll(&mut expirations));
        assert!(said.contains("at capacity"), "{said}");
        drop(other);
        assert!(poll(&mut expirations).is_pending());
        map.touch(&2, ms(1));
        assert_eq!(expirations.recv().await, Some((2, ())));
    });
}

/// A stream with more entries than a task may take at a time lets other tasks run.
#[test]
fn a_mass_expiry_lets_other_tasks_run() {
    must_end(|| {
        both_flavours()[0].block_on(async {
            let (map, mut expirations) = DeadlineMap::new();
            for key in 0..10_000 {
                map.insert(key, (), Duration::ZERO);
            }
            let stop = Arc::new(AtomicBool::new(false));
            let stops = Arc::clone(&stop);
            tokio::spawn(async move { stops.store(true, SeqCst) });
            let mut taken = 0;
            while !stop.load(SeqCst) {
                assert!(expirations.recv().await.is_some());
                taken += 1;
            }
            assert!(taken < 10_000);
        });
    });
}

/// A key whose code can panic, or call the map, on request.
struct Tricky {
    number: u8,
    on_hash: fn(),
    on_eq: fn(),
}

impl Tricky {
    fn calm(number: u8) -> Tricky {
        Tricky { number, on_hash: || (), on_eq: || () }
    }
}

impl Hash for Tricky {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.on_hash)();
        self.number.hash(state);
    }
}

impl PartialEq for Tricky {
    fn eq(&self, other: &Tricky) -> bool {
        (self.on_eq)();
        (other.on_eq)();
        self.number == other.number
    }
}

impl Eq for Tricky {}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_keys_code_leaves_the_map_as_it_was() {
    let (map, mut expirations) = DeadlineMap::new();
    for number in 0..50 {
        map.insert(Tricky::calm(number), number, ms(u64::from(number)));
    }
    for number in 0..50 {
        let bad: [Tricky; 2] = [
            Tricky { on_hash: || panic!("on purpose"), ..Tricky::calm(number) },
            Tricky { on_eq: || panic!("on purpose"), ..Tricky::calm(number) },
        ];
        for bad in bad {
            panic_message(|| map.touch(&bad, HOUR));
            panic_message(|| map.remove(&bad));
            panic_message(|| map.remaining(&bad));
            panic_message(|| map.insert(bad, 0, HOUR));
        }
    }
    assert_eq!(map.len(), 50);
    for number in 0..50 {
        assert_eq!(expirations.recv().await.map(|(key, value)| (key.number, value)), Some((number, number)));
    }
    assert!(map.is_empty());
}

/// Dropping a key or a value may use the map, because it happens outside the map's locks.
#[test]
fn drops_may_come_back_into_the_map() {
    type Map = DeadlineMap<u64, OnDrop<Box<dyn FnMut() + Send>>>;
    fn value(map: &Map) -> OnDrop<Box<dyn FnMut() + Send>> {
        let map = map.clone();
        OnDrop(Box::new(move || {
            for key in 0..200 {
                map.touch(&key, HOUR);
            }
            assert!(map.len() <= 200);
        }))
    }
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        for key in 0..200 {
            map.insert(key, value(&map), HOUR);
        }
        drop(map.insert(1, value(&map), HOUR));
        drop(map.remove(&2));
        drop(map.remove(&3));
        map.insert(3, value(&map), Duration::ZERO);
        assert!(matches!(poll(&mut expirations), Poll::Ready(Some((3, _)))));
        map.clear();
        assert!(map.is_empty());
        // And where inserts throw away what expired.
        drop(expirations);
        for key in 0..200 {
            map.insert(key, value(&map), Duration::ZERO);
        }
        map.clear();
    });
}

/// A key whose drop uses the map.
struct Looks(u8, Option<DeadlineMap<Looks, ()>>);

impl Hash for Looks {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Looks {
    fn eq(&self, other: &Looks) -> bool {
        self.0 == other.0
    }
}

impl Eq for Looks {}

impl Drop for Looks {
    fn drop(&mut self) {
        if let Some(map) = self.1.take() {
            assert!(map.len() <= 3);
        }
    }
}

#[test]
fn so_may_the_drops_of_keys_that_were_removed_or_not_needed() {
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        let key = |number| Looks(number, Some(map.clone()));
        for number in [1, 2, 3, 3] {
            map.insert(key(number), (), HOUR);
        }
        assert!(map.remove(&key(1)).is_some());
        assert!(map.touch(&key(2), Duration::ZERO));
        assert!(matches!(poll(&mut expirations), Poll::Ready(Some((Looks(2, _), ())))));
        map.clear();
    });
}

#[test]
fn a_drop_that_panics_leaves_the_others() {
    let (map, mut expirations) = DeadlineMap::new();
    for key in 0..100 {
        map.insert(key, Some(OnDrop(|| panic!("on purpose"))), HOUR);
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map.insert(1, None, HOUR)))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| drop(map.remove(&2)))).is_err());
    assert_eq!(map.len(), 99);
    let kept: Vec<_> = (2..100).filter_map(|key| map.remove(&key)).flatten().collect();
    assert_eq!((kept.len(), map.len()), (97, 2));
    std::mem::forget(kept);
    assert!(catch_unwind(AssertUnwindSafe(|| map.clear())).is_err());
    assert!(map.is_empty());
    map.insert(5, None, Duration::ZERO);
    assert!(matches!(poll(&mut expirations), Poll::Ready(Some((5, None)))));
}

/// A waker runs outside the map's locks, and its panic does not reach the thread that inserts.
#[test]
fn wakers_may_come_back_and_may_panic() {
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        let inside = map.clone();
        let waker = crate::common::on_wake(move || {
            for key in 0..100_u64 {
                inside.insert(key, (), HOUR);
                inside.remove(&key);
            }
            panic!("on purpose");
        });
        assert!(poll_with(&mut expirations, &waker).is_pending());
        map.insert(7, (), HOUR);
        map.insert(8, (), Duration::ZERO);
        assert_eq!(poll(&mut expirations), Poll::Ready(Some((8, ()))));
    });
}

/// Entries go one at a time from one thread to the other, inserted at any moment while the consumer is about to wait.
/// If a wake-up were lost, the consumer would wait forever.
#[test]
fn no_wake_up_is_lost() {
    must_end(|| {
        let (map, mut expirations) = DeadlineMap::new();
        let taken = Arc::new(AtomicU32::new(0));
        let last = Arc::clone(&taken);
        let consumer = thread::spawn(move || {
            while let Some((key, ())) = futures::executor::block_on(expirations.next()) {
                last.store(key, SeqCst);
            }
        });
        let mut random = Random::new(1);
        for key in crate::common::rounds(100_000).map(|round| round + 1) {
            map.insert(key, (), Duration::ZERO);
            // Seen at once, before the consumer sleeps. Yields, should there be one processor only.
            let mut looks = 0_u32;
            while taken.load(SeqCst) != key {
                looks += 1;
                if looks % 1_000 == 0 {
                    thread::yield_now();
                }
            }
            for _ in 0..random.below(400) {
                std::hint::spin_loop();
            }
        }
        drop(map);
        consumer.join().unwrap();
    });
}

#[test]
fn both_halves_say_what_they_are() {
    let (map, expirations) = DeadlineMap::new();
    map.insert(1, 2, HOUR);
    assert_eq!(format!("{map:?}"), "DeadlineMap { len: 1, .. }");
    assert!(format!("{expirations:?}").starts_with("Expirations"));
}

/// Lookup works as in a `HashMap`: with any form that hashes and compares like the key.
#[test]
fn a_key_of_ones_own_can_be_looked_up_by_a_part() {
    #[derive(PartialEq, Eq, Hash)]
    struct Id(String);
    impl Borrow<str> for Id {
        fn borrow(&self) -> &str {
            &self.0
        }
    }
    let (map, _expirations) = DeadlineMap::new();
    map.insert(Id("a".into()), 1, HOUR);
    assert_eq!(map.remove("a"), Some(1));
}

/// Like a sleep, a stream without a timer waits on the runtime that polls it.
#[test]
fn a_stream_that_is_polled_outside_every_runtime_still_waits() {
    must_end(|| {
        let home = crate::common::multi_thread(1);
        let (map, mut expirations) = crate::common::inside(&home, DeadlineMap::new);
        map.insert(1, 'a', ms(5));
        assert_eq!(futures::executor::block_on(expirations.recv()), Some((1, 'a')));
        map.insert(2, 'b', ms(5));
        drop(home);
        assert_eq!(crate::common::current_thread().block_on(expirations.recv()), Some((2, 'b')));
    });
}
