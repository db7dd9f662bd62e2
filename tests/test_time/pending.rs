//! `test_util::pending` lists pending timers, and where each was created.

use std::future;
use std::panic::Location;

use crate::common::{HOUR, joined, ms, multi_thread, on_both_flavours, panic_message, panicked, until};
use crate::kinds::{Kind, on_each};
use futures::StreamExt;
use hairspring::test_util::{self, NoTimersLeft, Pending, assert_no_timers_left, pending, settle};
use hairspring::{DeadlineMap, DelayQueue, FutureExt, Instant, Timer, advance, sleep, sleep_until, timeout};
use tokio::sync::oneshot;

#[track_caller]
fn here() -> &'static Location<'static> {
    Location::caller()
}

const KINDS: [Kind; 3] = [Kind::StartPaused, Kind::PausedLater, Kind::Workers(2)];

/// Spawns a future, and returns the listed timer that it waits for.
async fn waits(future: impl Future + Send + 'static) -> Pending {
    let task = tokio::spawn(async move {
        future.await;
    });
    settle().await;
    let mut waiting = pending();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    task.abort();
    settle().await;
    assert!(pending().is_empty(), "{:?}", pending());
    waiting.remove(0)
}

#[track_caller]
fn assert_created(timer: &Pending, at: &Location<'_>, kind: &str) {
    assert_eq!((timer.location().file(), timer.location().line()), (at.file(), at.line()), "{timer}");
    assert!(timer.to_string().starts_with(&format!("{kind} created at ")), "{timer}");
}

#[test]
fn each_kind_of_timer_is_listed_with_its_location() {
    on_each(&KINDS, || async {
        macro_rules! is_listed {
            ($made:expr, $kind:literal) => {{
                let (at, made) = (here(), $made);
                let found = waits(made).await;
                assert_created(&found, at, $kind);
                assert_eq!((found.deadline(), found.remaining()), (Instant::now() + HOUR, HOUR));
            }};
        }
        let end = Instant::now() + HOUR;
        is_listed!(sleep(HOUR), "Sleep");
        is_listed!(sleep_until(end), "Sleep");
        is_listed!(timeout(HOUR, future::pending::<()>()), "Timeout");
        is_listed!(future::pending::<()>().timeout_at(end), "Timeout");
        is_listed!(Timer::current().timeout(HOUR, future::pending::<()>()), "Timeout");
        let (at, mut made) = (here(), hairspring::interval_at(end, ms(1)));
        assert_created(&waits(async move { made.tick().await }).await, at, "Interval");
        let (at, mut made) = (here(), DelayQueue::new());
        made.insert((), HOUR);
        assert_created(&waits(async move { made.next().await.is_some() }).await, at, "DelayQueue");
        let (at, (map, mut made)) = (here(), DeadlineMap::new());
        map.insert(1, 2, HOUR);
        assert_created(&waits(async move { made.recv().await }).await, at, "DeadlineMap");
    });
}

#[test]
fn resets_and_ticks_keep_a_timers_location() {
    on_each(&KINDS, || async {
        let (at, mut ticks) = (here(), hairspring::interval(ms(1)));
        for _ in 0..3 {
            ticks.tick().await;
        }
        assert_created(&waits(async move { ticks.tick().await }).await, at, "Interval");
        let (at, mut again) = (here(), sleep(ms(1)));
        (&mut again).await;
        again.reset_at(Instant::now() + HOUR);
        let found = waits(again).await;
        assert_created(&found, at, "Sleep");
        assert_eq!(found.remaining(), HOUR);
    });
}

#[test]
fn the_list_is_sorted_and_omits_what_fired() {
    on_each(&KINDS, || async {
        let tasks: Vec<_> = [3, 1, 2].into_iter().map(|n| tokio::spawn(sleep(HOUR * n))).collect();
        settle().await;
        let left = || pending().iter().map(|timer| timer.remaining().as_secs() / 3_600).collect::<Vec<_>>();
        assert_eq!(left(), [1, 2, 3]);
        test_util::advance_and_settle(HOUR).await;
        assert_eq!(left(), [1, 2]);
        tasks[1].abort();
        test_util::advance_and_settle(HOUR).await;
        assert_eq!(left(), [1]);
        test_util::advance_and_settle(HOUR).await;
        assert_eq!(left(), []);
    });
}

#[test]
fn a_running_clock_lists_timers_after_the_first_call() {
    on_both_flavours(|| async {
        assert!(pending().is_empty());
        let (at, made) = (here(), sleep(HOUR));
        let task = tokio::spawn(made);
        until(|| pending().iter().any(|timer| timer.location().line() == at.line())).await;
        assert!(pending().iter().all(|timer| timer.remaining() <= HOUR));
        task.abort();
    });
}

/// A timer that fired while the timers were being listed had no location.
#[test]
fn each_timer_has_its_location_while_thousands_fire() {
    on_each(&[Kind::Workers(2)], || async {
        let _still = test_util::hold();
        for _ in 0..10 {
            let tasks: Vec<_> = (0..2_000).map(|_| tokio::spawn(sleep(HOUR))).collect();
            settle().await;
            let (begin, begins) = oneshot::channel();
            let lists = tokio::task::spawn_blocking(|| {
                let mut left = pending();
                begin.send(()).unwrap();
                while !left.is_empty() {
                    let lost = left.iter().find(|timer| timer.location().file() != file!());
                    assert!(lost.is_none(), "{lost:?}");
                    left = pending();
                }
            });
            begins.await.unwrap();
            advance(HOUR).await;
            joined(tasks).await;
            lists.await.unwrap();
        }
    });
}

#[test]
fn a_test_that_leaves_timers_fails_with_their_list() {
    /// The message of a test that leaves timers, and ends with `ends`.
    fn fails(kind: Kind, leaves: usize, ends: fn()) -> String {
        panic_message(|| {
            kind.run(|| async {
                let _all_end = assert_no_timers_left();
                sleep(ms(1)).await;
                (0..leaves).for_each(|_| drop(tokio::spawn(timeout(HOUR, future::pending::<()>()))));
                settle().await;
                ends();
            });
        })
    }
    let line = line!() - 6;
    for kind in KINDS {
        let message = fails(kind, 1, || ());
        let place = format!("{}:{line}:", file!());
        assert!(message.contains("1\n") && message.contains("Timeout ") && message.contains(&place), "{message}");
        kind.run(|| async {
            let _all_end: NoTimersLeft = assert_no_timers_left();
            let task = tokio::spawn(sleep(HOUR));
            settle().await;
            task.abort();
            settle().await;
        });
    }
    // A fixture that drops its runtime first would hide every timer left.
    let message = panic_message(|| {
        let runtime = multi_thread(1);
        let entered = runtime.enter();
        let all_end = assert_no_timers_left();
        drop(entered);
        drop(runtime);
        drop(all_end);
    });
    assert!(message.starts_with("the runtime ended before this guard"), "{message}");
    let message = fails(Kind::StartPaused, 30, || ());
    assert_eq!(message.lines().count(), 22, "{message}");
    assert!(message.ends_with("and 10 more\n"), "{message}");
    assert_eq!(fails(Kind::StartPaused, 1, || panic!("its own")), "its own", "not hidden by the list");
}

/// A bug that this crate had: the message was tokio's, which does not say where else to ask.
#[test]
fn outside_a_runtime_the_panic_says_where_to_ask() {
    let calls: [(&str, fn()); 2] =
        [("pending", || drop(pending())), ("assert_no_timers_left", || drop(assert_no_timers_left()))];
    for (name, call) in calls {
        let (message, file, _) = panicked(call);
        assert!(message.starts_with(&format!("`{name}` ")) && message.contains("ManualClock::pending"), "{message}");
        assert_eq!(file, file!());
    }
}
