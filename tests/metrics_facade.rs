//! What a timer reports to the recorder of the crate `metrics`.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use common::{HOUR, ms, paused, poll, settle};
use hairspring::test_util::ManualClock;
use hairspring::timer::Reporter;
use hairspring::{DeadlineMap, DelayQueue, Timer, advance};
use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// What was reported under each name since the last snapshot.
type Reported = HashMap<String, DebugValue>;

/// Runs `code` with a recorder of its own, and passes it that recorder's snapshots.
fn recorded<T>(code: impl FnOnce(&Snapshotter) -> T) -> T {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || code(&snapshotter))
}

/// What the timer with the given name reported.
fn reported(recorder: &Snapshotter, timer: &str) -> Reported {
    reported_of(recorder, ("timer", timer))
}

/// What was reported with the given label.
fn reported_of(recorder: &Snapshotter, label: (&str, &str)) -> Reported {
    let mut reported = Reported::new();
    for (key, _, _, value) in recorder.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|label| (label.key(), label.value())).collect();
        if labels == [label] {
            reported.insert(key.key().name().to_owned(), value);
        }
    }
    reported
}

fn count(reported: &Reported, name: &str) -> u64 {
    match reported[name] {
        DebugValue::Counter(count) => count,
        ref other => panic!("{name} is {other:?}"),
    }
}

fn pending(reported: &Reported) -> f64 {
    gauge(reported, "hairspring_pending")
}

fn gauge(reported: &Reported, name: &str) -> f64 {
    match reported[name] {
        DebugValue::Gauge(pending) => pending.0,
        ref other => panic!("{other:?}"),
    }
}

/// In seconds.
fn lateness(reported: &Reported) -> Vec<f64> {
    match &reported["hairspring_lateness_seconds"] {
        DebugValue::Histogram(values) => values.iter().map(|value| value.0).collect(),
        other => panic!("{other:?}"),
    }
}

fn timer_by_hand() -> (ManualClock, Timer) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    (clock, timer)
}

#[test]
fn counts_and_the_gauge_are_those_of_the_timer() {
    let (clock, timer) = timer_by_hand();
    let mut sleeps: Vec<_> = (1..=10).map(|n| timer.sleep(ms(n))).collect();
    assert!(sleeps.iter_mut().all(|nap| poll(nap).is_pending()));
    sleeps.truncate(9);
    clock.advance(ms(3));
    recorded(|recorder| {
        let mut reporter = timer.reporter("by hand");
        reporter.publish();
        let first = reported(recorder, "by hand");
        let counts =
            ["registered", "fired", "cancelled"].map(|what| count(&first, &format!("hairspring_{what}_total")));
        assert_eq!(counts, [10, 3, 1]);
        assert!((pending(&first) - 6.0).abs() < 1e-9);
        assert_eq!(count(&first, "hairspring_turns_total"), timer.metrics().turns());
        assert_eq!(count(&first, "hairspring_cascaded_total"), timer.metrics().cascaded());

        clock.advance(ms(6));
        reporter.publish();
        let second = reported(recorder, "by hand");
        assert_eq!(count(&second, "hairspring_fired_total"), 9, "a total, not what came on top");
        assert!(pending(&second).abs() < 1e-9);
    });
}

#[test]
fn each_lateness_is_told_once_in_seconds() {
    let (clock, timer) = timer_by_hand();
    recorded(|recorder| {
        let mut reporter = timer.reporter("late");
        for round in 1..=2 {
            let mut sleeps: Vec<_> = (0..5).map(|_| timer.sleep(ms(1))).collect();
            assert!(sleeps.iter_mut().all(|nap| poll(nap).is_pending()));
            clock.advance(ms(1));
            reporter.publish();
            assert_eq!(lateness(&reported(recorder, "late")), [0.0; 5], "round {round}: a clock by hand is never late");
        }
        reporter.publish();
        assert_eq!(lateness(&reported(recorder, "late")), [0.0; 0]);
    });
}

#[test]
fn a_lateness_is_told_to_a_sixteenth() {
    // Tokio's clock goes past all deadlines at once, so what fires is late.
    recorded(|recorder| {
        paused().block_on(async {
            let timer = Timer::builder().build().unwrap();
            let mut sleeps: Vec<_> = (1..=4).map(|n| timer.sleep(ms(n * 100))).collect();
            assert!(sleeps.iter_mut().all(|nap| poll(nap).is_pending()));
            advance(Duration::from_secs(10)).await;
            settle().await;
            timer.reporter("late").publish();
            let mut late = lateness(&reported(recorder, "late"));
            late.sort_by(f64::total_cmp);
            assert_eq!(late.len(), 4);
            for (late, exact) in late.into_iter().zip([9.6, 9.7, 9.8, 9.9]) {
                assert!(late >= exact && late <= exact * 17.0 / 16.0, "{late} s for {exact}");
            }
        });
    });
}

#[test]
fn timers_are_told_apart_by_name() {
    recorded(|recorder| {
        let [(_left_clock, left), (_right_clock, right)] = [timer_by_hand(), timer_by_hand()];
        let mut nap = right.sleep(HOUR);
        assert!(poll(&mut nap).is_pending());
        // A snapshot takes out what was reported.
        left.reporter("left").publish();
        assert_eq!(count(&reported(recorder, "left"), "hairspring_registered_total"), 0);
        right.reporter("right").publish();
        assert_eq!(count(&reported(recorder, "right"), "hairspring_registered_total"), 1);
    });
}

/// The name already contains the unit, so an exporter that adds units to names would write `_seconds_seconds`.
#[test]
fn all_is_described_and_no_unit_is_told_that_the_name_says() {
    recorded(|recorder| {
        timer_by_hand().1.reporter("described").publish();
        let all = recorder.snapshot().into_vec();
        assert_eq!(all.len(), 7);
        for (key, unit, description, _) in all {
            let name = key.key().name();
            let description = description.unwrap_or_else(|| panic!("{name} is not described"));
            let in_seconds = name.ends_with("_seconds");
            assert_eq!(unit, (!in_seconds).then_some(Unit::Count), "{name}");
            assert_eq!(description.contains("seconds"), in_seconds, "{name}: {description}");
            assert!(
                description.ends_with('.') && description.to_lowercase().contains("timer"),
                "{name}: {description}"
            );
        }
    });
}

#[test]
fn buckets_for_the_lateness_reach_from_what_is_usual_to_what_is_wrong() {
    let bounds = Reporter::LATENESS_BUCKETS;
    assert!(bounds.is_sorted_by(|bound, next| bound < next), "{bounds:?}");
    assert!(bounds[0] <= 0.000_05 && bounds[bounds.len() - 1] >= 1.0, "in seconds: {bounds:?}");
    recorded(|recorder| {
        timer_by_hand().1.reporter("named").publish();
        assert!(reported(recorder, "named").contains_key(Reporter::LATENESS));
    });
}

#[test]
fn reports_come_at_the_period_until_the_timer_has_ended() {
    recorded(|recorder| {
        paused().block_on(async {
            let timer = Timer::builder().build().unwrap();
            let reports = tokio::spawn(timer.reporter("periodic").run(Duration::from_secs(10)));
            settle().await;
            let registered = || count(&reported(recorder, "periodic"), "hairspring_registered_total");
            assert_eq!(registered(), 0, "the first at once");
            let mut nap = timer.sleep(HOUR);
            assert!(poll(&mut nap).is_pending());
            advance(Duration::from_secs(9)).await;
            settle().await;
            assert_eq!(registered(), 0);
            advance(Duration::from_secs(1)).await;
            settle().await;
            assert_eq!(registered(), 1);
            assert_eq!(timer.shutdown(), 1);
            reports.await.unwrap();
            let last = reported(recorder, "periodic");
            assert_eq!(count(&last, "hairspring_cancelled_total"), 1, "the last after the end");
            assert!(pending(&last).abs() < 1e-9);
        });
    });
}

#[test]
fn a_reporter_does_not_keep_a_timer() {
    recorded(|_| {
        paused().block_on(async {
            let timer = Timer::builder().build().unwrap();
            let reports = tokio::spawn(timer.reporter("dropped").run(ms(10)));
            drop(timer);
            reports.await.unwrap();
        });
    });
}

#[test]
#[should_panic(expected = "`period` must be non-zero.")]
fn reports_without_end_are_refused() {
    drop(timer_by_hand().1.reporter("x").run(Duration::ZERO));
}

#[test]
fn without_a_recorder_nothing_happens() {
    timer_by_hand().1.reporter("unheard").publish();
}

#[test]
fn a_reporter_without_a_name_takes_the_timers() {
    recorded(|recorder| {
        let timer = Timer::builder().name("requests").clock(&ManualClock::new()).build().unwrap();
        timer.reporter("").publish();
        assert_eq!(count(&reported(recorder, "requests"), "hairspring_registered_total"), 0);
        timer.reporter("another").publish();
        assert!(reported(recorder, "another").contains_key("hairspring_registered_total"));
        timer_by_hand().1.reporter("").publish();
        assert!(reported(recorder, "").contains_key("hairspring_registered_total"), "it has none");
    });
}

#[test]
fn maps_and_queues_report_what_became_of_their_entries() {
    let counts = |reported: &Reported| {
        let count = |what| count(reported, &format!("hairspring_entries_{what}_total"));
        (["inserted", "expired", "removed"].map(count), gauge(reported, "hairspring_entries").to_string())
    };
    recorded(|recorder| {
        paused().block_on(async {
            let (map, mut expirations) = DeadlineMap::builder().name("sessions").build().unwrap();
            let mut queue = DelayQueue::new();
            for number in 0..10 {
                map.insert(number, (), ms(number));
                queue.insert(number, ms(number));
            }
            map.remove(&9);
            for _ in 0..3 {
                expirations.recv().await;
            }
            std::future::poll_fn(|cx| queue.poll_expired(cx)).await;
            map.metrics().publish("");
            assert_eq!(counts(&reported_of(recorder, ("of", "sessions"))), ([10, 3, 1], "6".to_owned()));
            queue.clear();
            queue.metrics().publish("retries");
            assert_eq!(counts(&reported_of(recorder, ("of", "retries"))), ([10, 1, 9], "0".to_owned()));
        });
    });
}
