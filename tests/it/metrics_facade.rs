//! The metrics that timers, maps and queues report to a recorder of the `metrics` crate.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::common::{HOUR, ms, panic_message, pass, paused, poll, poll_with, polled, settle, undriven};
use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::{FutureExt, StreamExt};
use hairspring::test_util::ManualClock;
use hairspring::timer::Reporter;
use hairspring::{DeadlineMap, DelayQueue, Timer, advance};
use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The values that were reported under each name.
type Reported = HashMap<String, DebugValue>;

/// Runs `code` with a new recorder, and passes it that recorder's snapshots.
fn recorded<T>(code: impl FnOnce(&Snapshotter) -> T) -> T {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || code(&snapshotter))
}

fn recorded_on_paused(code: impl AsyncFnOnce(&Snapshotter)) {
    recorded(|recorder| paused().block_on(code(recorder)));
}

/// What each timer, map and queue has reported since the last snapshot, by its labels.
fn all_reported(recorder: &Snapshotter) -> HashMap<String, Reported> {
    let mut all: HashMap<String, Reported> = HashMap::new();
    for (key, _, _, value) in recorder.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        all.entry(labels.join(" ")).or_default().insert(key.key().name().to_owned(), value);
    }
    all
}

/// What the timer with the given name reported.
fn reported(recorder: &Snapshotter, timer: &str) -> Reported {
    all_reported(recorder).remove(&format!("name={timer}")).unwrap_or_default()
}

fn count(reported: &Reported, name: &str) -> u64 {
    match reported[name] {
        DebugValue::Counter(count) => count,
        ref other => panic!("{name} is {other:?}"),
    }
}

fn gauge(reported: &Reported, name: &str) -> f64 {
    match reported[name] {
        DebugValue::Gauge(value) => value.0,
        ref other => panic!("{name} is {other:?}"),
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
fn a_timer_reports_its_counts_under_its_name() {
    let (clock, timer) = timer_by_hand();
    let mut sleeps: Vec<_> = (1..=10).map(|n| polled(timer.sleep(ms(n)))).collect();
    sleeps.truncate(9);
    clock.advance(ms(3));
    timer.reporter("unheard").publish(); // without a recorder
    recorded(|recorder| {
        let mut reporter = timer.reporter("by hand");
        let mut counts = || {
            reporter.publish();
            let all = reported(recorder, "by hand");
            assert_eq!(count(&all, "hairspring_turns_total"), timer.metrics().turns());
            let names = ["registered", "fired", "cancelled"].map(|name| format!("hairspring_sleeps_{name}_total"));
            (names.map(|name| count(&all, &name)), gauge(&all, "hairspring_sleeps_pending"))
        };
        assert_eq!(counts(), ([10, 3, 1], 6.0));
        clock.advance(ms(6));
        assert_eq!(counts(), ([10, 9, 1], 0.0), "totals");

        let named = Timer::builder().name("requests").clock(&ManualClock::new()).build().unwrap();
        for name in ["requests", "other", ""] {
            named.reporter(name).publish();
            assert!(reported(recorder, name).contains_key("hairspring_sleeps_registered_total"), "{name}");
        }
    });
}

/// A bug that this crate had: a report while a timer ended, which wakes its tasks, was the last.
#[test]
fn the_last_report_of_a_timer_follows_its_end() {
    struct Reports(Mutex<Fuse<BoxFuture<'static, ()>>>);
    impl Reports {
        fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
            let mut reports = self.0.lock().unwrap();
            if reports.is_terminated() { Poll::Ready(()) } else { reports.poll_unpin(cx) }
        }
    }
    impl Wake for Reports {
        fn wake(self: Arc<Self>) {
            let _ = Reports::poll(&self, &mut Context::from_waker(Waker::noop()));
        }
    }

    recorded_on_paused(async |recorder| {
        let timer = Timer::builder().build().unwrap();
        let reports = Arc::new(Reports(Mutex::new(timer.reporter("ends").run(ms(1)).boxed().fuse())));
        let waker = Waker::from(reports.clone());
        let mut sleeps: Vec<_> = (0..200).map(|_| timer.try_sleep(HOUR)).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()));
        assert_eq!(timer.shutdown(), 200);
        poll_fn(|cx| reports.poll(cx)).await;
        let last = reported(recorder, "ends");
        let (cancelled, pending) = ("hairspring_sleeps_cancelled_total", "hairspring_sleeps_pending");
        assert_eq!((count(&last, cancelled), gauge(&last, pending)), (200, 0.0));
    });
}

#[test]
fn each_lateness_is_reported_once_in_seconds() {
    recorded_on_paused(async |recorder| {
        let timer = Timer::builder().build().unwrap();
        let _sleeps: Vec<_> = (1..=4).map(|n| polled(timer.sleep(ms(n * 100)))).collect();
        pass(Duration::from_secs(10)).await;
        let mut reporter = timer.reporter("late");
        reporter.publish();
        let mut late = lateness(&reported(recorder, "late"));
        late.sort_by(f64::total_cmp);
        assert_eq!(late.len(), 4);
        for (late, exact) in late.into_iter().zip([9.6, 9.7, 9.8, 9.9]) {
            assert!(late >= exact && late <= exact * 17.0 / 16.0, "{late} s for {exact}");
        }
        reporter.publish();
        assert_eq!(lateness(&reported(recorder, "late")), [0.0; 0]);
    });
}

/// An exporter that adds units to names would write `_seconds_seconds`.
#[test]
fn every_metric_is_described_without_repeating_its_unit() {
    recorded(|recorder| {
        let (timer, _runtime) = undriven(Timer::builder().max_pending(1));
        timer.reporter("described").publish();
        let (map, _expirations) = DeadlineMap::<u8, u8>::builder().max_entries(1).build().unwrap();
        map.reporter("described").publish();
        let all = recorder.snapshot().into_vec();
        assert_eq!(all.len(), 8 + 6);
        for (key, unit, description, _) in all {
            let name = key.key().name();
            let description = description.unwrap_or_else(|| panic!("{name} is not described"));
            let in_seconds = name.ends_with("_seconds");
            assert_eq!(unit, (!in_seconds).then_some(Unit::Count), "{name}");
            assert_eq!(description.contains("seconds"), in_seconds, "{name}: {description}");
            let subjects: &[&str] = if name.contains("entries") { &["map"] } else { &["sleep", "timer"] };
            let lower = description.to_lowercase();
            assert!(
                description.ends_with('.') && subjects.iter().any(|subject| lower.contains(subject)),
                "{name}: {description}"
            );
        }
    });
}

/// A bug that this crate had: without bucket bounds, the lateness reached Prometheus as a summary.
#[test]
fn the_lateness_buckets_have_a_useful_range() {
    let bounds = Reporter::LATENESS_BUCKETS;
    assert!(bounds.is_sorted_by(|bound, next| bound < next), "{bounds:?}");
    assert!(bounds[0] <= 0.000_05 && bounds[bounds.len() - 1] >= 1.0, "in seconds: {bounds:?}");
    recorded(|recorder| {
        timer_by_hand().1.reporter("named").publish();
        assert!(reported(recorder, "named").contains_key(Reporter::LATENESS));
    });
}

#[test]
fn periodic_reports_end_with_the_timer() {
    recorded_on_paused(async |recorder| {
        let timer = Timer::builder().build().unwrap();
        let reports = tokio::spawn(timer.reporter("periodic").run(Duration::from_secs(10)));
        settle().await;
        let registered = || count(&reported(recorder, "periodic"), "hairspring_sleeps_registered_total");
        assert_eq!(registered(), 0, "the first report, immediately");
        let _nap = polled(timer.sleep(HOUR));
        for (after, expected) in [(9, 0), (1, 1)] {
            pass(Duration::from_secs(after)).await;
            assert_eq!(registered(), expected);
        }
        assert_eq!(timer.shutdown(), 1);
        reports.await.unwrap();
        let last = reported(recorder, "periodic");
        assert_eq!(count(&last, "hairspring_sleeps_cancelled_total"), 1, "the last report, after the end");

        let timer = Timer::builder().build().unwrap();
        let reports = tokio::spawn(timer.reporter("dropped").run(ms(10)));
        drop(timer);
        reports.await.expect("a reporter does not keep its timer alive");
    });
    let message = panic_message(|| drop(timer_by_hand().1.reporter("x").run(Duration::ZERO)));
    assert_eq!(message, "`period` must be non-zero.");
}

/// The counters of a map or queue, and its number of entries.
fn entries(reported: &Reported) -> ([u64; 3], f64) {
    let names = ["inserted", "expired", "removed"].map(|name| format!("hairspring_entries_{name}_total"));
    (names.map(|name| count(reported, &name)), gauge(reported, "hairspring_entries_pending"))
}

#[test]
fn a_queue_reports_when_polled_drained_or_cleared() {
    recorded_on_paused(async |recorder| {
        let mut queue = DelayQueue::new();
        queue.insert(0, HOUR);
        let mut reporter = queue.reporter("retries");
        let mut counts = || {
            reporter.publish();
            entries(&all_reported(recorder)["name=retries kind=queue"])
        };
        assert_eq!(counts(), ([1, 0, 0], 1.0), "reported before any poll");
        for number in 1..10 {
            queue.insert(number, ms(number));
        }
        assert_eq!(counts(), ([1, 0, 0], 1.0));
        queue.next().await;
        assert_eq!(counts(), ([10, 1, 0], 9.0), "a poll reports its own result");
        queue.insert(0, HOUR);
        queue.clear();
        assert_eq!(counts(), ([11, 1, 10], 0.0), "a clear is reported, because no poll may follow");
        queue.insert(0, HOUR);
        assert_eq!(queue.drain().len(), 1);
        assert_eq!(counts(), ([12, 1, 11], 0.0));
    });
}

#[test]
fn the_last_report_is_complete() {
    recorded_on_paused(async |recorder| {
        let value = Arc::new(());
        let timer = Timer::builder().build().unwrap();
        let (map, mut expirations) = DeadlineMap::with_timer(&timer);
        let mut queue = DelayQueue::with_timer(&timer);
        let of_map = tokio::spawn(map.reporter("both").run(Duration::from_secs(10)));
        let of_queue = tokio::spawn(queue.reporter("both").run(Duration::from_secs(10)));
        settle().await;
        for number in 0..10 {
            map.insert(number, value.clone(), HOUR);
            queue.insert(value.clone(), HOUR);
        }
        map.insert(10, value.clone(), Duration::ZERO);
        assert!(expirations.recv().await.is_some());
        assert!(futures::poll!(queue.next()).is_pending());
        drop((expirations, timer));
        pass(Duration::from_secs(10)).await;
        let reported = &all_reported(recorder)["name=both kind=map"];
        assert_eq!(entries(reported), ([11, 1, 0], 10.0), "the map still works without its stream");
        map.remove(&0);
        drop((map, queue));
        assert_eq!(Arc::strong_count(&value), 1, "a reporter keeps no entry alive");
        assert!(!of_map.is_finished() && !of_queue.is_finished());
        advance(Duration::from_secs(10)).await;
        of_map.await.unwrap();
        of_queue.await.unwrap();
        let last = all_reported(recorder);
        let last = ["map", "queue"].map(|kind| entries(&last[&format!("name=both kind={kind}")]));
        assert_eq!(last, [([11, 1, 10], 0.0), ([10, 0, 10], 0.0)]);
    });
}

#[test]
fn refusals_and_capacities_are_reported() {
    recorded(|recorder| {
        let (timer, _runtime) = undriven(Timer::builder().max_pending(1));
        let mut sleeps = [(); 4].map(|()| timer.try_sleep(HOUR));
        assert_eq!(sleeps.iter_mut().map(poll).filter(Poll::is_ready).count(), 3);
        timer.reporter("full").publish();
        let full = reported(recorder, "full");
        assert_eq!(
            (count(&full, "hairspring_sleeps_refused_total"), gauge(&full, "hairspring_sleeps_max_pending")),
            (3, 1.0)
        );

        let (map, _expirations) = DeadlineMap::builder().max_entries(2).build().unwrap();
        assert_eq!((0..7).filter(|key| map.try_insert(*key, (), HOUR).is_err()).count(), 5);
        map.reporter("full").publish();
        let full = &all_reported(recorder)["name=full kind=map"];
        let refused = count(full, "hairspring_entries_refused_total");
        assert_eq!((refused, gauge(full, "hairspring_entries_max")), (5, 2.0));

        timer_by_hand().1.reporter("unlimited").publish();
        DeadlineMap::<u8, u8>::new().0.reporter("unlimited").publish();
        DelayQueue::<u8>::new().reporter("unlimited").publish();
        let all = recorder.snapshot().into_vec();
        let limits = all.iter().filter(|(key, ..)| key.key().name().contains("_max"));
        assert!(limits.flat_map(|(key, ..)| key.key().labels()).all(|label| label.value() != "unlimited"));
    });
}
