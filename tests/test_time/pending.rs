//! `test_util::pending` says what waits, and where it was made.

use std::future::{self, Future};
use std::panic::Location;

use crate::common::{HOUR, current_thread, ms, multi_thread, panic_message, paused, threads_are_seen};
use futures::StreamExt;
use hairspring::test_util::{self, Pending, TimerKind, assert_no_timers_left, pending, settle};
use hairspring::{DeadlineMap, DelayQueue, FutureExt, Instant, Timer, advance, pause, sleep, sleep_until, timeout};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

#[track_caller]
fn here() -> &'static Location<'static> {
    Location::caller()
}

/// On a runtime of each kind whose clock is paused. If that clock does not see the thread in `block_on`, the test is a
/// task.
fn on_paused_runtimes<F: Future<Output = ()> + Send + 'static>(test: fn() -> F) {
    paused().block_on(test());
    let later = |runtime: Runtime| {
        runtime.block_on(async {
            pause();
            if threads_are_seen() {
                test().await;
            } else {
                tokio::spawn(test()).await.unwrap();
            }
        });
    };
    later(current_thread());
    later(multi_thread(2));
}

/// Spawns it, and returns what then waits besides what did before.
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
fn assert_made(timer: &Pending, at: &Location<'_>, kind: TimerKind) {
    assert_eq!((timer.location().file(), timer.location().line()), (at.file(), at.line()), "{timer}");
    assert_eq!(timer.kind(), kind);
}

#[test]
fn each_kind_of_timer_is_found_with_its_place_and_deadline() {
    on_paused_runtimes(|| async {
        let end = Instant::now() + HOUR;
        let (at, made) = (here(), sleep(HOUR));
        let found = waits(made).await;
        assert_made(&found, at, TimerKind::Sleep);
        assert_eq!((found.deadline(), found.remaining()), (end, HOUR));
        let (at, made) = (here(), sleep_until(end));
        assert_made(&waits(made).await, at, TimerKind::Sleep);
        let (at, made) = (here(), timeout(HOUR, future::pending::<()>()));
        assert_made(&waits(made).await, at, TimerKind::Timeout);
        let (at, made) = (here(), future::pending::<()>().timeout_at(end));
        assert_made(&waits(made).await, at, TimerKind::Timeout);
        let (at, mut made) = (here(), hairspring::interval_at(end, ms(1)));
        assert_made(&waits(async move { made.tick().await }).await, at, TimerKind::Interval);
        let (at, made) = (here(), Timer::current().timeout(HOUR, future::pending::<()>()));
        assert_made(&waits(made).await, at, TimerKind::Timeout);
        let (at, mut made) = (here(), DelayQueue::new());
        made.insert((), HOUR);
        assert_made(&waits(async move { made.next().await.is_some() }).await, at, TimerKind::DelayQueue);
        let (at, (map, mut made)) = (here(), DeadlineMap::new());
        map.insert(1, 2, HOUR);
        assert_made(&waits(async move { made.recv().await }).await, at, TimerKind::DeadlineMap);
    });
}

#[test]
fn a_timer_keeps_its_place_when_it_is_reset_or_ticks_on() {
    on_paused_runtimes(|| async {
        let (at, mut ticks) = (here(), hairspring::interval(ms(1)));
        for _ in 0..3 {
            ticks.tick().await;
        }
        assert_made(&waits(async move { ticks.tick().await }).await, at, TimerKind::Interval);
        let (at, mut again) = (here(), sleep(ms(1)));
        (&mut again).await;
        again.reset_at(Instant::now() + HOUR);
        let found = waits(again).await;
        assert_made(&found, at, TimerKind::Sleep);
        assert_eq!(found.remaining(), HOUR);
    });
}

#[test]
fn they_are_sorted_and_those_that_fired_are_gone() {
    on_paused_runtimes(|| async {
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
fn a_clock_that_runs_shows_them_too_from_the_first_time_on() {
    for runtime in crate::common::both_flavours() {
        runtime.block_on(async {
            assert!(pending().is_empty());
            let (at, made) = (here(), sleep(HOUR));
            let found = waits(made).await;
            assert_made(&found, at, TimerKind::Sleep);
            assert!(found.remaining() <= HOUR);
        });
    }
}

/// A timer that fired while it was being listed had none.
#[test]
fn each_has_its_place_while_thousands_fire() {
    multi_thread(2).block_on(async {
        pause();
        let _still = test_util::hold();
        for _ in 0..20 {
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
            for task in tasks {
                task.await.unwrap();
            }
            lists.await.unwrap();
        }
    });
}

#[test]
fn a_test_that_leaves_timers_fails_with_their_list() {
    for make in [paused as fn() -> Runtime, current_thread, || multi_thread(2)] {
        let line = line!() + 5;
        let message = panic_message(|| {
            make().block_on(async {
                let _all_end = assert_no_timers_left();
                sleep(ms(1)).await;
                tokio::spawn(timeout(HOUR, future::pending::<()>()));
                settle().await;
            });
        });
        let named = format!("Timeout created at {}:{line}:", file!());
        assert!(message.starts_with("timers still waiting: 1\n") && message.contains(&named), "{message}");
        make().block_on(async {
            let _all_end = assert_no_timers_left();
            let task = tokio::spawn(sleep(HOUR));
            settle().await;
            task.abort();
            settle().await;
        });
    }
}

#[test]
fn a_long_list_is_cut() {
    let message = panic_message(|| {
        paused().block_on(async {
            let _all_end = assert_no_timers_left();
            (0..30).for_each(|_| drop(tokio::spawn(sleep(HOUR))));
            settle().await;
        });
    });
    assert_eq!(message.lines().count(), 22, "{message}");
    assert!(message.ends_with("and 10 more\n"), "{message}");
}

/// The guard does not hide the test's own failure.
#[test]
fn a_test_that_fails_by_itself_fails_with_its_own_message() {
    let message = panic_message(|| {
        paused().block_on(async {
            let _all_end = assert_no_timers_left();
            tokio::spawn(sleep(HOUR));
            settle().await;
            panic!("its own");
        });
    });
    assert_eq!(message, "its own");
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn there_is_a_runtime_or_it_panics() {
    let _ = pending();
}
