//! `Deadline`: order, limits, errors, and the format of gRPC's header.

use std::error::Error;
use std::future::pending;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;

use crate::common::{HOUR, Wakes, YEAR, longest, ms, on_wake, poll, poll_with, polled, polled_with};
use hairspring::error::Elapsed;
use hairspring::io::TimeoutStream;
use hairspring::{
    Deadline, DeadlineExceeded, DeadlineMap, DelayQueue, Duration, Instant, Timer, interval_at, sleep, sleep_until,
    timeout, timeout_at,
};

#[tokio::test(start_paused = true)]
async fn time_remains_until_the_deadline() {
    let remains = |deadline: Deadline| (deadline.remaining(), deadline.has_passed());
    let deadline = Deadline::after(ms(100));
    assert_eq!(deadline.instant(), Some(Instant::now() + ms(100)));
    for (pause, remaining) in [(ms(60), (ms(40), false)), (ms(40), (ms(0), true)), (HOUR, (ms(0), true))] {
        sleep(pause).await;
        assert_eq!(remains(deadline), remaining);
    }
    assert!(Deadline::after(Duration::ZERO).has_passed() && Deadline::at(Instant::now() - HOUR).has_passed());
    assert_eq!((Deadline::NEVER.instant(), remains(Deadline::NEVER)), (None, (Duration::MAX, false)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_waited_for_and_never_is_not_reached() {
    assert_eq!(Deadline::default(), Deadline::NEVER);
    let (deadline, line) = (Deadline::from(ms(20)), line!());
    assert!(line_of(deadline).contains(&format!("{}:{line}:", file!())), "the line that converted it");
    for (deadline, is_never) in [(deadline, false), (Deadline::NEVER.named("request"), true)] {
        assert_eq!(deadline.is_never(), is_never);
        assert_eq!(timeout(YEAR, deadline.sleep()).await.is_err(), is_never);
        assert_eq!(deadline.has_passed(), !is_never);
    }
}

/// With the trait in scope, a method `deadline` of all futures would hide those of sleeps and timeouts.
#[tokio::test(start_paused = true)]
async fn a_future_takes_a_deadline_and_keeps_the_methods_of_its_own() {
    use hairspring::FutureExt;
    let request = Deadline::after(ms(10)).named("request");
    assert_eq!(async { 5 }.with_deadline(request).await, Ok(5));
    let nap = sleep(HOUR);
    let until = nap.deadline();
    let limited = nap.with_deadline(request);
    assert_eq!((until, limited.deadline()), (Instant::now() + HOUR, request));
    assert_eq!(limited.await, Err(DeadlineExceeded::new(request)));
}

/// The line that set a deadline, which only `Debug` shows.
fn line_of(deadline: Deadline) -> String {
    format!("{deadline:?}").split_once("location: ").expect("it shows one").1.to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_earlier_deadline_keeps_its_name_and_line() {
    let [earlier, later] = [("earlier", 1), ("later", 2)].map(|(name, after)| Deadline::after(ms(after)).named(name));
    let equal = Deadline::after(ms(1)).named("equal");
    for (a, b, expected) in [
        (earlier, later, earlier),
        (later, earlier, earlier),
        (earlier, equal, earlier),
        (equal, earlier, equal),
        (Deadline::NEVER, later, later),
        (later, Deadline::NEVER, later),
    ] {
        let min = a.min(b);
        assert_eq!((min, min.name(), line_of(min)), (expected, expected.name(), line_of(expected)));
    }
    assert_eq!(Deadline::NEVER.min(Deadline::NEVER).instant(), None);
}

#[tokio::test(start_paused = true)]
async fn the_error_names_the_deadline_and_its_line() {
    let (deadline, line) = (Deadline::after(ms(10)).named("request"), line!());
    let start = Instant::now();
    let error = deadline.limit(pending::<()>()).await.unwrap_err();
    assert_eq!((start.elapsed(), error.name()), (ms(10), Some("request")));
    assert!(format!("{error:?}").contains(&format!("{}:{line}:", file!())), "{error:?}");
    assert_eq!(error.to_string(), "the deadline `request` has passed");
    let unnamed = DeadlineExceeded::new(Deadline::at(start));
    assert_eq!((unnamed.name(), unnamed.to_string().as_str()), (None, "a deadline has passed"));
}

/// A handler may send an error's text to a client.
#[tokio::test(start_paused = true)]
async fn the_error_converts_and_shows_its_line_only_in_debug() {
    let exceeded = Deadline::after(ms(1)).named("request").limit(pending::<()>()).await.unwrap_err();
    let as_io = io::Error::from(exceeded.clone());
    assert_eq!((as_io.kind(), as_io.get_ref().unwrap().downcast_ref()), (io::ErrorKind::TimedOut, Some(&exceeded)));
    assert!(format!("{as_io:?}").contains(file!()));
    assert_eq!(Elapsed::from(exceeded.clone()), Elapsed::new());
    let errors: [Box<dyn Error + Send + Sync>; 4] = [
        exceeded.clone().into(),
        as_io.into(),
        io::Error::other(exceeded.clone()).into(),
        Elapsed::from(exceeded).into(),
    ];
    for error in &errors {
        let mut next: Option<&dyn Error> = Some(&**error);
        while let Some(error) = next {
            assert!(!error.to_string().contains(".rs"), "{error}");
            next = error.source();
        }
    }
}

/// Passes on the error of its limit with `?`, because it does not know of an outer limit.
async fn call(deadline: Deadline, takes: Duration) -> Result<&'static str, DeadlineExceeded> {
    deadline.limit(sleep(takes)).await?;
    Ok("done")
}

#[tokio::test(start_paused = true)]
async fn an_outer_deadline_ignores_an_inner_ones_error() {
    for (outer, inner, takes, expected) in [
        (100, 50, 20, Ok("done")),
        (100, 50, 70, Err("inner")),
        (50, 100, 70, Err("outer")),
        // If both are due at the same instant, the inner one is polled first.
        (50, 50, 70, Err("inner")),
    ] {
        let outer = Deadline::after(ms(outer)).named("outer");
        let inner = Deadline::after(ms(inner)).named("inner");
        let result = outer.limit(call(inner, ms(takes))).await.and_then(|result| result);
        assert_eq!(result.as_ref().map_err(|error| error.name().unwrap()), expected.as_ref().map_err(|name| *name));
        if let Err(error) = result {
            assert_eq!(error == DeadlineExceeded::new(outer), expected == Err("outer") || outer == inner);
            assert_eq!(error == DeadlineExceeded::new(inner), expected == Err("inner"));
        }
        // A deadline that is passed down stays the same deadline.
        let passed_down = outer.limit(call(outer.min(Deadline::after(HOUR)), HOUR)).await.and_then(|result| result);
        let error = passed_down.unwrap_err();
        assert_eq!((error.name(), &error), (Some("outer"), &DeadlineExceeded::new(outer)));
    }
}

#[test]
fn equality_order_and_hash_use_the_instant() {
    let hash = |deadline: Deadline| BuildHasherDefault::<DefaultHasher>::new().hash_one(deadline);
    let at = Instant::now();
    let end = Instant::now() + Duration::MAX;
    let ascending = [Deadline::at(at - HOUR), Deadline::at(at), Deadline::at(end), Deadline::NEVER];
    for (index, one) in ascending.into_iter().enumerate() {
        for (other_index, other) in ascending.into_iter().enumerate() {
            let other = other.named("of another line and name");
            assert_eq!(one.cmp(&other), index.cmp(&other_index));
            assert_eq!(one.partial_cmp(&other), Some(index.cmp(&other_index)));
            assert_eq!((one == other, hash(one) == hash(other)), (index == other_index, index == other_index));
        }
    }
    let same = [Deadline::at(at).named("a"), Deadline::at(at).named("b")];
    assert_eq!(DeadlineExceeded::new(same[0]), DeadlineExceeded::new(same[1]));
}

#[tokio::test(start_paused = true)]
async fn instants_of_all_kinds_convert() {
    let at = Instant::now() + ms(5);
    let (from, line) = (Deadline::from(at), line!());
    assert_eq!((from.instant(), from.name()), (Some(at), None));
    assert!(line_of(from).starts_with(&format!("{}:{line}:", file!())), "{from:?}");
    let (std, tokio): (std::time::Instant, tokio::time::Instant) = (at.into(), at.into());
    assert_eq!([Deadline::from(std), Deadline::from(tokio)], [from; 2]);
}

#[tokio::test(start_paused = true)]
async fn sums_and_differences_keep_the_name_and_saturate() {
    let start = Instant::now();
    let first = Deadline::at(start + ms(10)).named("request");
    let (mut earlier, mut later) = (first - ms(5), first + ms(5));
    earlier -= ms(3);
    later += ms(3);
    for (moved, millis) in [(earlier, 2), (later, 18)] {
        assert_eq!((moved.instant(), moved.name()), (Some(start + ms(millis)), first.name()));
        assert_eq!(line_of(moved), line_of(first));
    }
    assert!((first - HOUR).has_passed());
    for longest in longest() {
        let (begin, end) = (first - longest, first + longest);
        assert_eq!((begin.instant(), begin - longest), (Some(start - Duration::MAX), begin));
        assert!(Deadline::after(longest) <= end && end <= end + longest && end + longest < Deadline::NEVER);
        assert_eq!(((Deadline::NEVER - longest).instant(), (Deadline::NEVER + longest).instant()), (None, None));
    }
}

#[tokio::test(start_paused = true)]
async fn it_prints_its_name_and_remaining_time() {
    let (now, nano) = (Instant::now(), Duration::from_nanos(1));
    for (deadline, text) in [
        (Deadline::at(now), "now"),
        (Deadline::at(now + ms(1) - nano), "now"),
        (Deadline::at(now - ms(1) + nano), "now"),
        (Deadline::at(now + ms(1)), "in 1ms"),
        (Deadline::at(now + ms(4_999) + ms(1) - nano), "in 4.999s"),
        (Deadline::at(now - ms(250) - nano), "250ms ago"),
        (Deadline::NEVER, "never"),
        (Deadline::NEVER.named("request"), "`request`, never"),
        (Deadline::at(now + ms(20)).named("request"), "`request`, in 20ms"),
    ] {
        assert_eq!(deadline.to_string(), text);
        assert_eq!(format!("{deadline:>30}|{deadline:<30}|"), format!("{text:>30}|{text:<30}|"));
    }
    let _far = [Deadline::at(now + Duration::MAX), Deadline::at(now - Duration::MAX)].map(|far| far.to_string());
}

/// With a generic parameter, `into()` would not compile, because its target type would be unknown.
#[tokio::test(start_paused = true)]
async fn into_converts_it_wherever_an_instant_is_accepted() {
    let (now, deadline) = (Instant::now(), Deadline::after(ms(5)));
    assert_eq!(Instant::from(deadline), now + ms(5));
    let (std, tokio): (std::time::Instant, tokio::time::Instant) = (now.into(), now.into());
    let timer = Timer::current();
    let mut queue = DelayQueue::new();
    let (map, _expirations) = DeadlineMap::new();
    let mut stream = TimeoutStream::new(tokio::io::empty());
    macro_rules! each {
        (|$at:ident| $call:expr) => {{
            let $at = std;
            let first = $call;
            let $at = tokio;
            let second = $call;
            let $at = deadline;
            [first, second, $call]
        }};
    }
    let due = [now, now, now + ms(5)];
    assert_eq!(each!(|at| sleep_until(at.into()).deadline()), due);
    assert_eq!(each!(|at| timeout_at(at.into(), pending::<()>()).deadline()), due);
    assert_eq!(each!(|at| timer.sleep_until(at.into()).deadline()), due);
    let keys = each!(|at| queue.insert_at((), at.into()));
    assert_eq!(keys.map(|key| queue.deadline(&key)), due);
    each!(|at| map.insert_at('a', (), at.into()));
    assert_eq!(map.remaining(&'a'), Some(ms(5)));
    each!(|at| stream.set_deadline(Some(at.into())));
    let [mut ticks, ..] = each!(|at| interval_at(at.into(), HOUR));
    assert_eq!(ticks.tick().await, now);
}

/// A bug that this crate had: the poll left no waker while the deadline was never.
#[tokio::test(start_paused = true)]
async fn after_a_reset_from_never_the_last_task_is_woken_at_the_deadline() {
    let mut limited = Deadline::after(HOUR).limit(pending::<()>());
    let ((first, one), (second, other)) = (Wakes::new(), Wakes::new());
    assert!(poll_with(&mut limited, &one).is_pending());
    limited.reset_at(Deadline::NEVER);
    assert!(poll_with(&mut limited, &other).is_pending());
    sleep(2 * HOUR).await;
    limited.reset_at(Deadline::after(ms(5)));
    assert_eq!((first.count(), second.count()), (0, 0));
    sleep(ms(5)).await;
    assert_eq!((first.count(), second.count()), (0, 1));
    assert!(poll(&mut limited).is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_limit_can_be_read_moved_and_taken_off() {
    let request = Deadline::after(ms(10)).named("request");
    let mut limited = polled(request.limit(pending::<()>()));
    assert_eq!((limited.deadline(), limited.deadline().name()), (request, Some("request")));
    limited.reset_at(Deadline::NEVER);
    assert!(poll(&mut limited).is_pending() && timeout(HOUR, &mut limited).await.is_err(), "it never passes");
    let later = Deadline::after(ms(5)).named("later");
    limited.reset_at(later);
    assert_eq!((&mut limited).await.unwrap_err().name(), Some("later"));
    assert!(poll(&mut limited.into_inner()).is_pending());
}

/// In the finest unit that takes 8 digits, rounded down.
#[tokio::test(start_paused = true)]
async fn it_formats_and_parses_the_grpc_header() {
    let nanos = Duration::from_nanos;
    let [minute, hour] = [60, 3_600].map(Duration::from_secs);
    for (remaining, text) in [
        (Duration::ZERO, "1n"),
        (nanos(1), "1n"),
        (nanos(99_999_999), "99999999n"),
        (nanos(100_000_000), "100000u"),
        (nanos(100_000_999), "100000u"),
        (Duration::from_secs(5), "5000000u"),
        (nanos(99_999_999_999), "99999999u"),
        (Duration::from_secs(100), "100000m"),
        (Duration::from_secs(99_999) + ms(999), "99999999m"),
        (Duration::from_secs(100_000), "100000S"),
        (Duration::from_secs(99_999_999) + ms(999), "99999999S"),
        (Duration::from_secs(100_000_000), "1666666M"),
        (99_999_999 * minute, "99999999M"),
        (100_000_020 * minute, "1666667H"),
        (1_700_000 * hour + 59 * minute, "1700000H"),
        (Duration::MAX, "99999999H"),
    ] {
        let deadline = Deadline::after(remaining);
        assert_eq!(deadline.to_grpc_timeout(), text, "{remaining:?}");
        let (read, line) = (Deadline::from_grpc_timeout(text).unwrap(), line!());
        assert!(read.remaining() <= deadline.remaining().max(nanos(1)), "never longer: {text}");
        assert!(line_of(read).starts_with(&format!("{}:{line}:", file!())), "{read:?}");
    }
    assert_eq!(Deadline::at(Instant::now() - HOUR).to_grpc_timeout(), "1n");
    assert_eq!(Deadline::NEVER.to_grpc_timeout(), "99999999H");
    let _longest = Deadline::at(Instant::now() + Duration::MAX).to_grpc_timeout();
    for (text, remaining) in [
        ("00000012u", nanos(12_000)),
        ("250m", ms(250)),
        ("5S", Duration::from_secs(5)),
        ("3M", 3 * minute),
        ("2H", 2 * hour),
        ("0S", Duration::ZERO),
    ] {
        assert_eq!(Deadline::from_grpc_timeout(text).unwrap().remaining(), remaining, "{text}");
    }
    assert!(Deadline::from_grpc_timeout("99999999H").unwrap().remaining() > 500 * YEAR);
}

#[test]
fn a_malformed_grpc_header_is_refused() {
    let texts = ["", "n", "5", "5s", "5h", "+5S", "-5S", " 5S", "5 S", "5S ", "123456789n", "1.5S", "1_0S", "0x1S"];
    for text in texts.into_iter().chain(["٣S", "5µ", "SS", "5SS", "5ms", "\n5S"]) {
        let error = Deadline::from_grpc_timeout(text).unwrap_err();
        let shown = format!("{text:?} is not a grpc-timeout: expected 1 to 8 digits and one of H, M, S, m, u, n");
        assert_eq!(error.to_string(), shown);
    }
}

/// A bug that this crate had: the panic came out of the reset.
#[test]
fn a_waker_that_panics_does_not_disturb_a_reset_from_never() {
    let mut limited = polled_with(Deadline::NEVER.limit(pending::<()>()), &on_wake(|| panic!("on purpose")));
    limited.reset_at(Deadline::at(Instant::now() - 2 * HOUR));
    assert!(futures::executor::block_on(limited).is_err());
}
