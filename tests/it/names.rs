//! Names of timers, and where they appear. Those of maps are in `deadline_map_builder.rs`, and those in spans in
//! `tracing.rs`.

use std::future::pending;

use crate::common::{HOUR, both_flavours, ms, panic_message, poll};
use hairspring::error::Error;
use hairspring::{DelayQueue, Timer};

/// A timer with room for one sleep, which is taken.
fn full() -> (Timer, hairspring::timer::Driver, hairspring::TrySleep) {
    let (timer, driver) = Timer::builder().name("requests").capacity(1).build_with_driver().unwrap();
    let mut first = timer.try_sleep(HOUR);
    assert!(poll(&mut first).is_pending());
    (timer, driver, first)
}

fn error(timer: &Timer) -> Error {
    match poll(&mut timer.try_sleep(HOUR)) {
        std::task::Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_is_in_what_a_timer_says_of_itself() {
    let (timer, _driver, _first) = full();
    assert_eq!(timer.name(), Some("requests"));
    assert_eq!(format!("{timer:?}"), r#"Timer { name: "requests", shards: 1, is_shutdown: false, .. }"#);
    let (unnamed, _driver) = Timer::builder().build_with_driver().unwrap();
    assert_eq!(unnamed.name(), None);
    assert_eq!(format!("{unnamed:?}"), "Timer { shards: 1, is_shutdown: false, .. }");
}

#[test]
fn a_name_is_in_errors_and_panics() {
    let (timer, _driver, first) = full();
    let full = error(&timer);
    assert_eq!(full.to_string(), "the timer `requests` is at capacity: 1 pending");
    assert_eq!(full, error(&timer));
    assert_ne!(full, Error::at_capacity(), "that has neither a name nor a count");
    let mut queue = DelayQueue::with_timer(&timer);
    queue.insert((), HOUR);
    let said = [
        panic_message(|| poll(&mut timer.sleep(HOUR))),
        panic_message(|| poll(&mut timer.timeout(HOUR, pending::<()>()))),
        panic_message(|| queue.poll_expired(&mut std::task::Context::from_waker(std::task::Waker::noop()))),
    ];
    assert!(
        said.iter().all(|said| said.starts_with("the timer `requests` is at capacity: 1 pending; the ")),
        "{said:?}"
    );
    timer.shutdown();
    drop(first);
    let ended = error(&timer);
    assert!(ended.is_shutdown() && ended == error(&timer) && ended != Error::shutdown());
    assert!(ended.to_string().starts_with("the timer `requests` has ended: "), "{ended}");
    assert_eq!(timer.name(), Some("requests"), "as long as there is a handle");
}

/// Memory is used again, and a name must not go with it.
#[test]
fn the_next_timer_has_a_name_of_its_own_or_none() {
    for round in 0..20 {
        let name = ["one", "other"][round % 2];
        let (timer, driver) = Timer::builder().name(name).build_with_driver().unwrap();
        let mut late = timer.try_sleep(HOUR);
        assert!(poll(&mut late).is_pending());
        assert_eq!(timer.name(), Some(name));
        drop((timer, driver));
        let (next, _driver) = Timer::builder().build_with_driver().unwrap();
        assert_eq!(next.name(), None);
        let std::task::Poll::Ready(Err(error)) = poll(&mut late) else { panic!("its timer has ended") };
        let said = error.to_string();
        assert!(said.starts_with("the timer has ended") || said.starts_with(&format!("the timer `{name}` has ended")));
    }
}

#[test]
fn the_timer_of_a_runtime_may_have_a_name() {
    for runtime in both_flavours() {
        runtime.block_on(async {
            assert_eq!(Timer::current().name(), None);
            Timer::builder().name("default").install().unwrap();
            hairspring::sleep(ms(1)).await;
            assert_eq!(Timer::current().name(), Some("default"));
        });
    }
}

#[test]
fn a_name_may_be_anything() {
    for name in ["", "`", "two words", "名前", "x".repeat(100_000).leak()] {
        let (timer, _driver) = Timer::builder().name(name).build_with_driver().unwrap();
        assert_eq!(timer.name(), Some(name));
    }
}
