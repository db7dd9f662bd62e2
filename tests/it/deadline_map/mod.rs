//! `DeadlineMap` and `Expirations`. The `map` target of the fuzzer compares every operation with a model.

mod builder;
mod foreign_code;
mod if_absent;
mod order;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::common::{HOUR, Wakes, bare, inside, ms, multi_thread, must_end, panic_message};
use futures::Stream;
use hairspring::{DeadlineMap, Duration, Expirations, Instant, Timer};

fn poll_with<K, V>(expirations: &mut Expirations<K, V>, waker: &Waker) -> Poll<Option<(K, V)>> {
    Pin::new(expirations).poll_next(&mut Context::from_waker(waker))
}

fn poll<K, V>(expirations: &mut Expirations<K, V>) -> Poll<Option<(K, V)>> {
    poll_with(expirations, Waker::noop())
}

#[test]
fn a_map_works_outside_runtimes_and_outlives_them() {
    must_end(|| {
        let home = multi_thread(1);
        let (map, mut expirations) = inside(&home, DeadlineMap::new);
        map.insert("later", 1, HOUR);
        map.insert("due", 2, Duration::ZERO);
        assert_eq!(futures::executor::block_on(expirations.recv()), Some(("due", 2)));
        assert_eq!(poll(&mut expirations), Poll::Pending);
        let start = std::time::Instant::now();
        map.touch("later", ms(5));
        assert_eq!(futures::executor::block_on(expirations.recv()), Some(("later", 1)));
        assert!(start.elapsed() >= ms(5), "early");
        drop(home);
        for runtime in bare() {
            let start = std::time::Instant::now();
            map.insert("next", 3, ms(1));
            assert_eq!(runtime.block_on(expirations.recv()), Some(("next", 3)));
            assert!(start.elapsed() >= ms(1), "early");
        }
    });
}

// The stream

#[tokio::test(start_paused = true)]
async fn only_an_earlier_deadline_wakes_the_consumer() {
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
    assert_eq!((first.count(), second.count()), (1, 1), "only the last waker is woken, once");
    drop(expirations);
    map.insert(6, (), ms(1));
    assert_eq!(second.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewed_entry_has_its_own_time_to_live_again() {
    let (map, mut expirations) = DeadlineMap::new();
    // So many that they wait in a wheel.
    for key in 0..100 {
        map.insert(key, (), HOUR);
    }
    map.insert(0, (), 2 * HOUR);
    for key in 0..100 {
        assert!(map.touch(&key, ms(5)) && map.renew(&key));
    }
    assert_eq!((map.remaining(&0), map.remaining(&1)), (Some(2 * HOUR), Some(HOUR)));
    map.touch(&1, ms(5));
    assert_eq!(map.renew_with(&2, |()| 7), Some(7));
    assert_eq!(expirations.recv().await, Some((1, ())));
    assert!(!map.renew(&1), "it has expired");
}

#[tokio::test]
async fn a_consumer_on_an_ended_timer_panics_and_loses_nothing() {
    let ended = Timer::builder().build().unwrap();
    let long_ago = Instant::now();
    // A turn has reached it then.
    ended.sleep(ms(1)).await;
    let (map, mut expirations) = DeadlineMap::with_timer(&ended);
    map.insert(2, (), HOUR);
    assert!(poll(&mut expirations).is_pending());
    map.insert_at(3, (), long_ago);
    ended.shutdown();
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((3, ()))));
    let message = panic_message(|| poll(&mut expirations));
    assert!(message.contains("shut down"), "{message}");
    assert!(map.touch_at(&2, long_ago));
    assert_eq!(poll(&mut expirations), Poll::Ready(Some((2, ()))));
}
