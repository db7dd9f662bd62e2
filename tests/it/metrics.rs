//! A timer's counts, which balance at every reading, and its name. `deadline_map::builder` tests the names of maps, and
//! `tracing` the names in spans.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

use crate::common::{
    HOUR, Random, beside, ms, multi_thread, must_end, on_both_flavours, poll, polled, settle, undriven,
};
use hairspring::error::Error;
use hairspring::{Instant, Timer, TrySleep};
use tokio::runtime::Runtime;

#[test]
fn the_counts_balance_at_every_reading() {
    must_end(|| {
        let runtime = multi_thread(2);
        let timer = runtime.block_on(async { Timer::builder().shards(3).build().unwrap() });
        let read = |over: &AtomicBool| {
            while !over.load(SeqCst) {
                let metrics = timer.metrics();
                assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled() + metrics.pending());
                assert_eq!(metrics.lateness().count(), metrics.fired());
            }
        };
        let load = |seed| {
            let mut random = Random::new(seed);
            let mut sleeps = std::collections::VecDeque::new();
            // Even on a slow machine, some must fire.
            while sleeps.len() < 5_000 || timer.metrics().fired() == 0 {
                let mut sleep = timer.sleep(random.duration(ms(2)));
                let _ = poll(&mut sleep);
                sleeps.push_back(sleep);
                if random.below(3) == 0 {
                    sleeps.pop_front();
                }
            }
        };
        beside(1, read, || {
            thread::scope(|scope| {
                scope.spawn(|| load(1));
                load(2);
            });
        });
        let metrics = timer.metrics();
        assert_eq!(metrics.pending(), 0);
        assert!(metrics.fired() > 0 && metrics.cancelled() > 0 && metrics.turns() > 0);
    });
}

#[tokio::test]
async fn snapshots_are_equal_while_nothing_changes() {
    let timer = Timer::builder().build().unwrap();
    let [mut waits, mut other] = [timer.sleep(HOUR), timer.sleep(2 * HOUR)];
    assert!(poll(&mut waits).is_pending());
    settle().await;
    let before = timer.metrics();
    let start = Instant::now();
    while Instant::now() == start {}
    assert_eq!(before, timer.metrics(), "at another time");
    assert!(poll(&mut other).is_pending());
    let registered = timer.metrics();
    assert_ne!(before, registered);
    drop(other);
    assert_ne!(registered, timer.metrics());
    waits.reset_at(Instant::now() + 3 * HOUR);
    let later = timer.metrics();
    drop(waits);
    assert_ne!(later, timer.metrics());
}

/// The name that a handle shows.
fn name_of(timer: &Timer) -> Option<String> {
    let shown = format!("{timer:?}");
    Some(shown.split_once("name: ")?.1.rsplit_once(", shards").expect("they follow").0.to_owned())
}

/// Timers reuse the memory of timers that have ended.
#[test]
fn a_new_timer_inherits_no_name() {
    for name in ["one", "other"].into_iter().cycle().take(6) {
        let (named, runtime, mut late) = full(name);
        drop((named, runtime));
        let (next, _runtime) = undriven(Timer::builder());
        assert_eq!(name_of(&next), None);
        let message = error(&mut late).to_string();
        let [unnamed, named] = ["the timer has ended".to_owned(), format!("the timer `{name}` has ended")];
        assert!(message.starts_with(&unnamed) || message.starts_with(&named), "{message}");
    }
}

#[test]
fn a_timer_has_any_name_or_none() {
    let (unnamed, _runtime) = undriven(Timer::builder());
    assert_eq!(format!("{unnamed:?}"), "Timer { shards: 1, is_shutdown: false, .. }");
    for name in ["requests", "", "`", "名前", "x".repeat(100_000).leak()] {
        let (timer, _runtime) = undriven(Timer::builder().name(name));
        assert_eq!(format!("{timer:?}"), format!("Timer {{ name: {name:?}, shards: 1, is_shutdown: false, .. }}"));
        timer.shutdown();
        assert_eq!(name_of(&timer), Some(format!("{name:?}")), "as long as there is a handle");
    }
    on_both_flavours(|| async {
        assert_eq!(name_of(&Timer::current()), None);
        Timer::builder().name("default").install().unwrap();
        hairspring::sleep(ms(1)).await;
        assert_eq!(name_of(&Timer::current()).as_deref(), Some("\"default\""));
    });
}

/// A timer with room for one sleep, and that sleep.
fn full(name: &'static str) -> (Timer, Runtime, TrySleep) {
    let (timer, runtime) = undriven(Timer::builder().name(name).max_pending(1));
    let first = polled(timer.try_sleep(HOUR));
    (timer, runtime, first)
}

fn error(sleep: &mut TrySleep) -> Error {
    let Poll::Ready(Err(error)) = poll(sleep) else { panic!("the timer accepted the sleep") };
    error
}

#[test]
fn errors_name_the_timer() {
    let (timer, _runtime, first) = full("requests");
    let error = || error(&mut timer.try_sleep(HOUR));
    let full = error();
    assert_eq!(full.to_string(), "the timer `requests` is full: 1 pending");
    assert_eq!(full, error());
    assert_ne!(full, Error::at_capacity(), "an error that a user creates has neither a name nor a count");
    timer.shutdown();
    drop(first);
    let ended = error();
    assert!(ended.is_shutdown() && ended == error() && ended != Error::shutdown());
    assert!(ended.to_string().starts_with("the timer `requests` has ended: "), "{ended}");
}
