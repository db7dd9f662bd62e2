//! A paused clock moves from deadline to deadline whenever nothing else can happen. The fuzzer tests with random programs
//! that it is exact: see `tests/it/fuzz`. The cases here are rare in such programs.

use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    HOUR, Random, Wakes, block_a_worker, both_flavours, current_thread, ms, multi_thread, must_end, must_end_on,
    on_both_flavours, on_wake, panicked, poll, poll_with, polled, until, wait_until, watched,
};
use crate::kinds::{BUBBLES, DAY, MICRO, TOKIOS, WORKERS, maybe_in_a_task, on_each, on_each_and_in_a_task};
use crate::threads::inside::holds_time;
use hairspring::test_util::{self, advance_and_settle};
use hairspring::timer::Alarm;
use hairspring::{Duration, Instant, Sleep, Timer, advance, pause, resume, sleep, sleep_until};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

const NOT_PAUSED: &str = "time is not frozen: call `pause` first";

#[test]
fn time_stands_while_code_blocks_between_awaits() {
    on_each_and_in_a_task(&[WORKERS.as_slice(), &BUBBLES].concat(), holds_time);
}

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
    on_each(&[TOKIOS.as_slice(), &WORKERS].concat(), || async {
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
    let timers: [fn() -> Timer; 3] = [
        || Timer::builder().build().unwrap(),
        || Timer::builder().install().unwrap(),
        || {
            let (timer, driver) = Timer::builder().build_with_driver().unwrap();
            drop(tokio::spawn(driver));
            timer
        },
    ];
    for make in timers {
        for runtime in [multi_thread(2), current_thread()] {
            must_end_on(runtime, move || async move {
                test_util::pause_with_grace(Duration::from_nanos(1));
                advance(HOUR).await;
                resume();
                let (timer, start) = (make(), std::time::Instant::now());
                timer.sleep(ms(2)).await;
                sleep(ms(2)).await;
                assert!(start.elapsed() >= ms(4));
            });
        }
    }
}

/// A bug that this crate had: the timer ended with the runtime, although its driver did not.
#[test]
fn a_driver_may_leave_a_paused_runtime_that_ends() {
    for is_polled in [false, true] {
        must_end(move || {
            let paused = multi_thread(1);
            let (timer, driver) = paused.block_on(async {
                pause();
                let (timer, mut driver) = Timer::builder().build_with_driver().unwrap();
                if is_polled {
                    assert!(poll(&mut driver).is_pending());
                }
                (timer, driver)
            });
            drop(paused);
            multi_thread(1).block_on(async {
                let (driver, start) = (tokio::spawn(driver), std::time::Instant::now());
                timer.sleep(ms(2)).await;
                assert!(start.elapsed() >= ms(2));
                timer.shutdown();
                driver.await.unwrap();
            });
        });
    }
}

/// Bugs that this crate had: a helper fired the timers of a late driver, as time passed on the system's clock.
#[test]
fn a_timer_follows_before_its_driver_has_run() {
    must_end(|| {
        let runtime = multi_thread(1);
        let blocked = runtime.spawn(async {
            let before = Timer::builder().build().unwrap();
            before.sleep(MICRO).await;
            pause();
            let (with_driver, driver) = Timer::builder().build_with_driver().unwrap();
            drop(tokio::spawn(driver));
            let timers = [before, with_driver, Timer::builder().build().unwrap(), Timer::builder().install().unwrap()];
            let mut naps = timers.map(|timer| polled(timer.sleep(MICRO)));
            thread::sleep(ms(20));
            assert_eq!([0, 1, 2, 3].map(|n| poll(&mut naps[n]).is_pending()), [true; 4], "the drivers come later");
            for nap in naps {
                nap.await;
            }
        });
        runtime.block_on(blocked).unwrap();
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
    on_both_flavours(|| async {
        pause();
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

/// A bug that this crate had: such a timer fired only once the clock moved, so `settle` did not wait for its task.
#[test]
fn a_timer_that_is_due_fires_at_the_pause() {
    // A short sleep might have ended before its first poll.
    fn soon(nap: Sleep) -> (Sleep, Arc<Wakes>) {
        let (mut nap, woken) = watched(nap);
        nap.reset_at(Instant::now() + ms(10));
        (nap, woken)
    }

    must_end_on(multi_thread(1), async || {
        // While the only worker blocks, nobody fires this timer.
        Timer::builder().alarm(Alarm::Tokio).install().unwrap();
        let (nap, woken) = soon(sleep(HOUR));
        let _release = block_a_worker(&Handle::current());
        wait_until(|| Instant::now() >= nap.deadline());
        pause();
        assert_eq!(woken.count(), 1);
    });
    // If the program runs the driver, at the driver's next poll.
    must_end_on(current_thread(), async || {
        let (timer, driver) = Timer::builder().alarm(Alarm::Tokio).build_with_driver().unwrap();
        tokio::spawn(driver);
        let (nap, woken) = soon(timer.sleep(HOUR));
        tokio::task::yield_now().await;
        while Instant::now() < nap.deadline() {}
        test_util::pause_with_grace(ms(1));
        let _hold = test_util::hold();
        until(|| woken.count() > 0).await;
    });
}

#[test]
fn misuse_panics_with_the_callers_line() {
    let here = |message: &str, line| (message.to_owned(), file!().to_owned(), line);
    let called_by = |name, line| format!("{NOT_PAUSED} (`{name}` was called at {}:{line}:", file!());
    for runtime in both_flavours() {
        // The second round checks that messages do not depend on whether a clock of the process was ever paused.
        for _ in 0..2 {
            assert_eq!(panicked(|| runtime.block_on(async { resume() })), here(NOT_PAUSED, line!()));
            let (message, ..) = panicked(|| runtime.block_on(advance(ms(1))));
            assert!(message.starts_with(&called_by("advance", line!() - 1)), "{message}");
            let (message, ..) = panicked(|| runtime.block_on(async { advance_and_settle(ms(1)).await }));
            assert!(message.starts_with(&called_by("advance_and_settle", line!() - 1)), "{message}");
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
    }
    multi_thread(2).block_on(async {
        assert_eq!(panicked(test_util::hold).0, NOT_PAUSED);
        pause();
        assert_eq!(panicked(pause).0, "time is already frozen");
    });
    let outside = "time cannot be frozen from outside the Tokio runtime";
    let (message, ..) = panicked(|| futures::executor::block_on(advance(ms(1))));
    assert!(message.starts_with(outside), "{message}");
    assert_eq!(panicked(resume).0, outside);
    assert_eq!(panicked(pause).0, outside);
}
