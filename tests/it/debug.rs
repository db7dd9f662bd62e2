//! The `Debug` output of the public types shows times as instants or durations. Ticks mean nothing outside the wheel.

use std::fmt::Debug;

use crate::common::{HOUR, ms, poll, settle};
use hairspring::io::TimeoutStream;
use hairspring::{Deadline, DeadlineMap, DelayQueue, Instant, Timer, interval, sleep, timeout};
use tokio::io::AsyncReadExt;

#[track_caller]
fn shows_no_tick(printed: &impl Debug) {
    for printed in [format!("{printed:?}"), format!("{printed:#?}")] {
        assert!(!printed.contains("Tick"), "{printed}");
    }
}

/// A bug that this crate had: `Debug` of public types printed ticks, and that of `Metrics` omitted `cancelled`.
#[tokio::test(start_paused = true)]
async fn no_public_type_prints_ticks() {
    let (timer, driver) = Timer::builder().shards(2).build_with_driver().unwrap();
    let mut waits = timer.sleep(HOUR);
    assert!(poll(&mut waits).is_pending());
    shows_no_tick(&(&timer, &driver, &waits, timer.metrics(), timer.try_sleep(HOUR), Timer::builder()));
    shows_no_tick(&(interval(HOUR), timeout(HOUR, std::future::pending::<()>())));
    shows_no_tick(&Deadline::after(HOUR).limit(std::future::pending::<()>()));
    let mut limited =
        TimeoutStream::new(tokio::io::duplex(1).0).with_idle_timeout(HOUR).with_deadline(waits.deadline());
    assert!(poll(&mut Box::pin(limited.read_u8())).is_ready(), "the peer has gone");
    shows_no_tick(&limited);

    let mut queue = DelayQueue::new();
    queue.insert("first", HOUR);
    let key = queue.insert("second", HOUR);
    let expired = queue.remove(&key);
    shows_no_tick(&(&queue, &expired));
    shows_no_tick(&queue.drain());
    let (map, mut expirations) = DeadlineMap::new();
    map.insert(1, 'a', HOUR);
    assert!(poll(&mut Box::pin(expirations.recv())).is_pending());
    shows_no_tick(&(&map, &expirations));
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_came_out_prints_its_deadline() {
    let mut queue = DelayQueue::new();
    let when = Instant::now() + HOUR;
    let key = queue.insert_at("job", when);
    let printed = format!("{:?}", queue.remove(&key));
    assert!(printed.contains(r#"data: "job""#) && printed.contains(&format!("deadline: {when:?}")), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn metrics_print_all_that_they_count_and_when_the_next_is_due() {
    let mut long = sleep(HOUR);
    let mut sleeps = [1, 2, 3, 4].map(|n| sleep(ms(n)));
    assert!(poll(&mut long).is_pending());
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    tokio::time::advance(ms(3)).await;
    settle().await;
    drop(sleeps);
    let metrics = Timer::current().metrics();
    let printed = format!("{metrics:?}");
    for shown in [
        "pending: 1",
        "registered: 5",
        "fired: 3",
        "cancelled: 1",
        "refused: 0",
        "capacity: None",
        "turns: ",
        "cascaded: ",
        "lateness: ",
    ] {
        assert!(printed.contains(shown), "{shown} is not in {printed}");
    }
    assert!(printed.contains(&format!("next_deadline: {:?}", metrics.next_deadline())), "{printed}");
    assert!(metrics.next_deadline().is_some_and(|next| next <= long.deadline()));
}

#[cfg(feature = "test-util")]
#[test]
fn a_manual_clock_prints_what_it_shows() {
    let clock = hairspring::test_util::ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    let mut waits = timer.sleep(HOUR);
    assert!(poll(&mut waits).is_pending());
    shows_no_tick(&(&clock, clock.hold(), Timer::builder().clock(&clock)));
    let printed = format!("{clock:?}");
    assert!(printed.contains(&format!("{:?}", clock.now())) && printed.contains("pending: 1"), "{printed}");
}
