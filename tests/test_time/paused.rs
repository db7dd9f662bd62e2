//! A paused clock moves from deadline to deadline whenever nothing else can happen. The fuzzer tests with random programs
//! that it is exact: see `tests/it/fuzz`. The cases here are rare in such programs.

use std::sync::{Arc, Mutex};

use crate::common::{
    HOUR, Random, current_thread, inside, ms, multi_thread, must_end_on, on_wake, panicked, poll_with, polled, until,
};
use crate::kinds::{DAY, Kind, MICRO, TOKIOS, WORKERS, maybe_in_a_task, on_each};
use hairspring::test_util::{self, advance_and_settle, settle};
use hairspring::{Duration, Instant, Timer, advance, pause, resume, sleep, sleep_until};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

const NOT_PAUSED: &str = "time is not frozen: call `pause` first";

/// Sleeps of random lengths, and a clock that is moved past them step by step.
async fn advances(with_tokio: bool) {
    let (start, tokios, _held) = (Instant::now(), tokio::time::Instant::now(), test_util::hold());
    let fired = Arc::new(Mutex::new(Vec::new()));
    let (mut sleeps, mut random) = (Vec::new(), Random::new(1));
    for _ in 0..100 {
        let (mut nap, fired) = (sleep(random.duration(2 * HOUR)), fired.clone());
        let deadline = nap.deadline();
        let waker = on_wake(move || fired.lock().unwrap().push((deadline, Instant::now())));
        assert!(poll_with(&mut nap, &waker).is_pending());
        sleeps.push(nap);
    }
    let (mut moved, mut due) = (Duration::ZERO, 0);
    for step in [1, 999, 1_000_001, 51_592_000, 123_456_789_012, 3_600_000_000_000, 1 << 60] {
        advance(Duration::from_nanos(step)).await;
        moved += Duration::from_nanos(step);
        assert_eq!(start.elapsed(), moved);
        let fired = std::mem::take(&mut *fired.lock().unwrap());
        // tokio's clock moves before timers fire, ours to each deadline.
        let at = |deadline| if with_tokio { start + moved } else { deadline };
        assert!(fired.is_sorted() && fired.iter().all(|&(deadline, now)| now == at(deadline)), "{fired:?}");
        due += fired.len();
        assert_eq!(due, sleeps.iter().filter(|nap| nap.deadline() <= start + moved).count());
    }
    assert_eq!(tokios.elapsed() == moved, with_tokio);
}

/// tokio 3710, 3837: `advance` overshot. tokio 7841: woken tasks had not run when it returned. Ours moves both crates'
/// clocks exactly, and has woken the tasks in order when it returns.
#[test]
fn advance_fires_in_order_and_moves_exactly() {
    on_each(&TOKIOS, || advances(true));
    on_each(&WORKERS, || advances(false));
}

/// As with tokio's, a task sees what was sent before an `advance` no later than the end of its wait. Tests of
/// google-cloud-pubsub rely on it.
#[test]
fn what_was_sent_before_an_advance_is_seen_before_the_end_of_a_wait() {
    on_each(&TOKIOS, || async {
        let (sender, mut messages) = mpsc::unbounded_channel();
        let batch = tokio::spawn(async move {
            let (mut end, mut batch) = (sleep(HOUR), Vec::new());
            loop {
                tokio::select! {
                    biased;
                    () = &mut end => return batch,
                    Some(message) = messages.recv() => batch.push(message),
                }
            }
        });
        tokio::task::yield_now().await;
        (0..3).for_each(|message| sender.send(message).unwrap());
        advance(2 * HOUR).await;
        assert_eq!(batch.await.unwrap(), [0, 1, 2]);
    });
}

#[test]
fn a_timer_that_waits_at_a_resume_fires_in_real_time() {
    on_each(&TOKIOS, || async {
        sleep(DAY).await;
        let waits = tokio::spawn(sleep(ms(20)));
        tokio::task::yield_now().await;
        let (start, real) = (Instant::now(), std::time::Instant::now());
        resume();
        waits.await.unwrap();
        assert!(real.elapsed() >= ms(20) && start.elapsed() < HOUR);
    });
}

/// A bug that this crate had: after dense sleeps, the next timers were coalesced, which made them late on a paused
/// clock.
#[test]
fn sleeps_end_when_tokios_do_after_dense_sleeps() {
    for _ in 0..10 {
        must_end_on(current_thread(), async || {
            let start = std::time::Instant::now();
            while start.elapsed() < ms(10) {
                tokio::join!(sleep(20 * MICRO), sleep(30 * MICRO));
            }
            tokio::time::pause();
            let now = Instant::now();
            let later = tokio::spawn(sleep_until(now + 500 * MICRO));
            let tokios = tokio::spawn(async move {
                tokio::time::sleep_until((now + 100 * MICRO).into()).await;
                now.elapsed()
            });
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            sleep_until(now + 100 * MICRO).await;
            assert_eq!(now.elapsed(), tokios.await.unwrap());
            later.await.unwrap();
        });
    }
}

/// A bug that this crate had: after an advance and a resume, the alarm of a new timer was late by the advance.
#[test]
fn timers_that_are_made_after_a_resume_fire_in_real_time() {
    let timers: [fn() -> Timer; 2] = [|| Timer::builder().build().unwrap(), || Timer::builder().install().unwrap()];
    for make in timers {
        must_end_on(current_thread(), move || async move {
            pause();
            advance(HOUR).await;
            resume();
            let (timer, start) = (make(), std::time::Instant::now());
            timer.sleep(ms(2)).await;
            sleep(ms(2)).await;
            assert!(start.elapsed() >= ms(4));
        });
    }
}

/// Its clock ends with the bubble.
#[test]
fn a_timer_of_a_bubble_with_workers_ends_with_it() {
    let (timer, mut waits) = Kind::Workers(1).run(|| async {
        let timer = Timer::builder().build().unwrap();
        let waits = polled(timer.try_sleep(HOUR));
        (timer, waits)
    });
    must_end_on(current_thread(), async move || {
        (&mut waits).await.unwrap_err();
        assert!(timer.is_shutdown());
    });
}

/// Bugs that this crate had: they ran before `advance` returned in `block_on`, and after it in a task.
#[test]
fn tasks_that_an_advance_wakes_run_when_they_do_with_tokio() {
    macro_rules! has_run {
        ($($time:ident)::+) => {{
            let task = tokio::spawn($($time)::+::sleep(HOUR));
            tokio::task::yield_now().await;
            $($time)::+::advance(2 * HOUR).await;
            let has_run = task.is_finished();
            task.await.unwrap();
            has_run
        }};
    }
    for in_a_task in [false, true] {
        let same = move || async move { assert_eq!([has_run!(tokio::time), has_run!(hairspring)], [in_a_task; 2]) };
        on_each(&TOKIOS, move || maybe_in_a_task(in_a_task, same));
    }
}

/// A bug that this crate had: the driver of a replaced timer did not end on a paused clock, on which drivers do
/// nothing.
#[test]
fn a_replaced_timer_ends_after_its_last_sleep() {
    on_each(&[Kind::StartPaused, Kind::Workers(2)], || async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        tokio::spawn(sleep(ms(1))).await.unwrap();
        let before = tasks();
        let waits = tokio::spawn(sleep(HOUR));
        tokio::task::yield_now().await;
        Timer::builder().install().unwrap();
        tokio::spawn(sleep(ms(1))).await.unwrap();
        waits.await.unwrap();
        until(|| tasks() <= before).await;
    });
}

#[test]
fn misuse_panics_with_the_callers_line() {
    let called_by = |why: &str, name, line| format!("{why} (`{name}` was called at {}:{line}:", file!());
    let runtime = current_thread();
    // The second round checks that messages do not depend on whether a clock of the process was ever paused.
    for _ in 0..2 {
        let (message, file, line) = panicked(|| runtime.block_on(async { resume() }));
        assert_eq!((message.as_str(), file.as_str(), line), ("time is not frozen", file!(), line!() - 1));
        let (message, ..) = panicked(|| runtime.block_on(advance(ms(1))));
        assert!(message.starts_with(&called_by(NOT_PAUSED, "advance", line!() - 1)), "{message}");
        let (message, ..) = panicked(|| runtime.block_on(async { advance_and_settle(ms(1)).await }));
        assert!(message.starts_with(&called_by(NOT_PAUSED, "advance_and_settle", line!() - 1)), "{message}");
        // As in tokio, the clock need not be paused before the first poll.
        runtime.block_on(async {
            let (start, moves) = (Instant::now(), advance(HOUR));
            drop(advance(HOUR));
            pause();
            moves.await;
            assert!(start.elapsed() >= HOUR);
            resume();
        });
    }
    let outside = "time cannot be frozen from outside the Tokio runtime";
    let (message, ..) = panicked(|| futures::executor::block_on(advance(ms(1))));
    assert!(message.starts_with(outside), "{message}");
    assert_eq!(panicked(resume).0, outside);
    assert_eq!(panicked(pause).0, outside);
}

/// Where no test controls the clock, and tokio cannot pause it.
#[test]
fn elsewhere_the_way_out_is_named() {
    let runtime = multi_thread(2);
    let ways: [fn(); 4] = [
        pause,
        resume,
        || drop(polled(Box::pin(advance(ms(1))))),
        || {
            drop(polled(Box::pin(advance_and_settle(ms(1)))));
        },
    ];
    for way in ways {
        let message = inside(&runtime, || panicked(way).0);
        assert!(message.contains("test_util::Bubble::workers"), "{message}");
    }
    let needs_a_bubble: [fn(); 2] = [|| drop(test_util::hold()), || drop(polled(Box::pin(settle())))];
    for way in needs_a_bubble {
        for runtime in [current_thread(), multi_thread(1)] {
            let message = inside(&runtime, || panicked(way).0);
            assert!(message.contains("works in a bubble") && message.contains("Bubble::workers"), "{message}");
        }
    }
}

#[test]
fn a_bubbles_own_clock_is_always_paused() {
    Kind::Workers(2).run(|| async {
        assert!(panicked(pause).0.starts_with("time is already frozen"));
        assert!(panicked(resume).0.starts_with("the clock of a bubble with workers or a grace cannot run"));
        advance(HOUR).await;
    });
}

/// A bug that this crate had: a timer that opened on a paused clock took the clock's time for what tokio's timers had
/// processed, and the first tick came a second earlier than tokio's.
#[test]
fn the_first_timer_after_an_advance_begins_where_tokios_timers_are() {
    macro_rules! first_tick {
        ($time:path) => {
            async {
                use $time as time;
                let start = time::Instant::now();
                let tick = tokio::spawn(async move {
                    time::interval(HOUR).tick().await;
                    start.elapsed()
                });
                time::advance(ms(1_000)).await;
                time::advance(ms(1_000)).await;
                tick.await.unwrap()
            }
        };
    }
    let tokios = must_end_on(crate::common::paused(), async || first_tick!(tokio::time).await);
    let ours = must_end_on(crate::common::paused(), async || first_tick!(hairspring).await);
    assert_eq!(ours, tokios);
}
