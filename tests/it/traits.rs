//! The auto traits and other traits of public types and futures, and their `Debug` output.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::SystemTime;

use crate::common::{HOUR, ms, poll, polled};
use hairspring::deadline_map;
use hairspring::delay_queue::{self, Expired};
use hairspring::error::{BuildError, Elapsed, Error, GrpcTimeoutError, LimitExceeded, TryInsertError};
use hairspring::io::{Limit, TimeoutStream};
use hairspring::stream::{self, ChunksTimeout, Debounce, IntervalStream, Throttle, TimeoutRepeating};
use hairspring::timer::{Alarm, Builder, Lateness, Metrics};
use hairspring::wheel::{self, Step, Tick, Ticks, Wheel};
use hairspring::{
    Deadline, DeadlineExceeded, DeadlineMap, DelayQueue, Expirations, Instant, Interval, MissedTickBehavior, Sleep,
    StreamExt, Timeout, Timer, TrySleep, boot, interval, timeout, wall,
};
use tokio::io::AsyncReadExt;

type Payload = String;
type Inner = futures::stream::Iter<std::vec::IntoIter<Payload>>;

/// Unwind safety matters too, because servers catch panics of requests that hold timers.
macro_rules! lasting {
    ($($type:ty),+ $(,)?) => {$({
        fn lasting<T: Send + Sync + Unpin + Debug + UnwindSafe + RefUnwindSafe>() {}
        lasting::<$type>();
    })+};
}

#[test]
fn everything_is_send_sync_unpin_debug_and_unwind_safe() {
    lasting!(
        Sleep, TrySleep, Timeout<Payload>, Timeout<Payload, Instant, Error>, Interval, MissedTickBehavior,
        Timer, Builder, BuildError, Alarm, Metrics, Lateness, Instant, Elapsed, Error,
        boot::Sleep, Interval<boot::Instant>, Timeout<Payload, boot::Instant>, TrySleep<boot::Instant>,
        wall::Sleep, wall::AlignedInterval, Timeout<Payload, SystemTime>, TrySleep<SystemTime>,
        DelayQueue<Payload>, Expired<Payload>, delay_queue::Key,
        DeadlineMap<Payload, Payload>, Expirations<Payload, Payload>, TryInsertError<Payload, Payload>,
        deadline_map::Builder<Payload, Payload>, deadline_map::Metrics,
        Deadline, DeadlineExceeded, Timeout<Payload, Deadline, DeadlineExceeded>, GrpcTimeoutError, TimeoutStream<Payload>, Limit, LimitExceeded,
        ChunksTimeout<Inner>, Debounce<Inner>, IntervalStream, Throttle<Inner>, TimeoutRepeating<Inner>,
        stream::Timeout<Inner>,
        Wheel<Payload>, Step<Payload>, Tick, Ticks, wheel::Key,
    );
    #[cfg(feature = "test-util")]
    lasting!(hairspring::test_util::ManualClock, hairspring::test_util::Hold);
    #[cfg(feature = "hyper")]
    lasting!(hairspring::hyper::HyperTimer);
    #[cfg(feature = "metrics")]
    lasting!(hairspring::timer::Reporter);
    #[cfg(feature = "tower")]
    {
        use hairspring::tower::{ResponseFuture, Timeout, TimeoutLayer};
        lasting!(
            TimeoutLayer, Timeout<Payload>, ResponseFuture<Payload>, TimeoutLayer<Payload, Payload>,
            Timeout<Payload, Payload, Payload>, ResponseFuture<Payload, Payload>,
        );
    }
    // Not `lasting`, because it holds tokio's types.
    #[cfg(feature = "test-util")]
    {
        fn shared<T: Send + Sync + Unpin + Debug>() {}
        shared::<hairspring::test_util::NoTimersLeft>();
    }
}

#[test]
fn values_are_copy_and_handles_are_clone() {
    macro_rules! all {
        ($check:ident: $($type:ty),+ $(,)?) => {$($check::<$type>();)+};
    }
    fn value<T: Copy + Eq + Hash>() {}
    fn handle<T: Clone>() {}
    fn compared<T: Eq>() {}
    all!(value: Alarm, Deadline, Elapsed, Instant, Limit, MissedTickBehavior, Tick, Ticks, delay_queue::Key, wheel::Key);
    all!(handle: Timer, Builder, BuildError, Metrics, Lateness, DeadlineMap<Payload, Payload>,
        deadline_map::Builder<Payload, Payload>, deadline_map::Metrics);
    #[cfg(feature = "test-util")]
    handle::<hairspring::test_util::ManualClock>();
    all!(compared: Timer, Metrics, Lateness, BuildError, Error, Elapsed, DeadlineExceeded, GrpcTimeoutError,
        LimitExceeded, TryInsertError<Payload, Payload>, deadline_map::Metrics);
    assert!(size_of::<Error>() <= 24);
}

#[tokio::test]
#[allow(clippy::mutable_key_type)] // The key does not change.
async fn handles_to_one_timer_are_one_key() {
    let (one, other) = (Timer::builder().build().unwrap(), Timer::builder().build().unwrap());
    let mut users = HashMap::from([(one.clone(), "one"), (other.clone(), "other"), (Timer::current(), "default")]);
    assert_eq!((users.len(), users[&one], users[&other]), (3, "one", "other"));
    one.shutdown();
    assert_eq!(users.insert(one.clone(), "ended"), Some("one"));
    let next = Timer::builder().build().unwrap();
    assert_eq!((users.get(&next), users[&one]), (None, "ended"), "a later timer may use the same memory");
    assert_eq!(users[&Timer::current()], "default");
}

/// The `Debug` output of `value`, on one line. It must show no ticks, which mean nothing outside the wheel, and no private
/// types.
#[track_caller]
fn printed(value: &impl Debug) -> String {
    const PRIVATE: [&str; 12] = [
        "Alignment",
        "Anchor",
        "DeadlineSleep",
        "Fuse",
        "Jump",
        "Key(",
        "Latest {",
        "LazySleep",
        "Reading",
        "Spans",
        "Still",
        "hairspring::",
    ];
    let [line, lines] = [format!("{value:?}"), format!("{value:#?}")];
    for hidden in PRIVATE.into_iter().chain(["Tick("]) {
        assert!(!line.contains(hidden) && !lines.contains(hidden), "{hidden} is in {lines}");
    }
    line
}

/// Fails unless each value prints all of its parts.
macro_rules! prints {
    ($($value:expr => [$($part:expr),* $(,)?]),* $(,)?) => {$({
        let text = printed(&$value);
        $(assert!(text.contains(&$part[..]), "{} is not in {text}", $part);)*
        drop(text);
    })*};
}

/// A bug that this crate had: `Debug` of public types printed ticks, and that of `Metrics` omitted `cancelled`.
#[tokio::test(start_paused = true)]
async fn debug_prints_times_and_no_ticks() {
    let timer = Timer::builder().shards(2).build().unwrap();
    let waits = polled(timer.sleep(HOUR));
    let mut limited =
        TimeoutStream::new(tokio::io::duplex(1).0).with_idle_timeout(HOUR).with_deadline(waits.deadline());
    assert!(poll(&mut Box::pin(limited.read_u8())).is_ready(), "the peer was dropped");
    let when = Instant::now() + HOUR;
    let mut queue = DelayQueue::new();
    let [_, key] = [(); 2].map(|()| queue.insert_at("job", when));
    let expired = queue.remove(&key);
    let inner = || futures::stream::iter(["job"]);
    let (map, mut expirations) = DeadlineMap::new();
    map.insert(1, 'a', HOUR);
    assert!(poll(&mut Box::pin(expirations.recv())).is_pending());
    prints! {
        (&timer, &waits, timer.try_sleep(HOUR), Timer::builder()) => [],
        timer.metrics() => [
            "pending: 1", "registered: 1", "fired: 0", "cancelled: 0", "refused: 0", "max_pending: None", "turns: ",
            "cascaded: ", "lateness: ",
        ],
        interval(HOUR) => ["next: ", "period: 3600s", "missed: 0", "missed_tick_behavior: Burst"],
        (interval(HOUR).fallible(), boot::interval(HOUR), timer.try_sleep(HOUR), boot::sleep(HOUR).fallible()) => [],
        (boot::sleep(HOUR), wall::sleep_until(SystemTime::UNIX_EPOCH)) => ["deadline: ", "is_elapsed: false"],
        wall::interval_aligned(HOUR).with_phase(ms(5)) => ["next: ", "period: 3600s", "phase: 5ms", "missed: 0"],
        (inner().timeout(HOUR), inner().timeout_repeating(interval(HOUR)), IntervalStream::new(interval(HOUR))) => ["job"],
        inner().throttle(HOUR) => ["job", "duration: 3600s"],
        inner().chunks_timeout(7, HOUR) => ["job", "max_size: 7", "duration: 3600s"],
        inner().debounce(HOUR).max_wait(2 * HOUR) => ["job", "duration: 3600s", "max_wait: 7200s"],
        queue.metrics() => [
            "pending: 1", "inserted: 2", "expired: 0", "removed: 1", "refused: 0", "max_entries: None",
        ],
        (&limited, Deadline::after(HOUR).limit(std::future::pending::<()>())) => [],
        queue => [],
        (queue.drain().collect::<Vec<_>>(), &map, &expirations) => [],
        key => ["Key {"],
        expired => [r#"data: "job""#, format!("deadline: {when:?}")],
        timeout(HOUR, std::future::ready("inner")) => ["inner", "deadline"],
        Deadline::after(ms(5)).named("request") => ["remaining: 5ms", r#"name: Some("request")"#, file!()],
        Deadline::NEVER => [r#"remaining: "never""#],
        TimeoutStream::new(7).with_read_timeout(ms(30)).with_idle_timeout(HOUR) =>
            ["stream: 7", "read_timeout: Some(30ms)", "write_timeout: None", "idle_timeout: Some(3600s)"],
    }
    #[cfg(feature = "test-util")]
    prints! {
        hairspring::test_util::pending() => [file!(), "deadline: ", "remaining: 3600s"],
        hairspring::test_util::hold() => [],
    }
}

#[cfg(feature = "test-util")]
#[test]
fn a_manual_clock_prints_its_time() {
    let clock = hairspring::test_util::ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    let _waits = polled(timer.sleep(HOUR));
    prints! {
        clock => [format!("{:?}", clock.now()), "pending: 1"],
        Timer::builder().clock(&clock) => [],
    }
}
