//! Clocks that move to the end of time and beyond.

use std::thread;
use std::time::Duration;

use crate::common::{HOUR, YEAR, current_thread, ms, multi_thread, must_end, paused, poll};
use hairspring::test_util::ManualClock;
use hairspring::{Instant, Timer, advance, pause, resume, sleep, sleep_until, timeout};
use tokio::runtime::Runtime;

/// Sets of durations to wait for while time moves to its end and stops there.
fn waiting() -> [&'static [Duration]; 4] {
    const NEAR: &[Duration] = &[HOUR];
    [&[], NEAR, &[Duration::MAX], &[HOUR, Duration::MAX, YEAR, Duration::MAX]]
}

fn runtimes() -> [Runtime; 3] {
    [paused(), current_thread(), multi_thread(2)]
}

/// Pauses the clock unless it is already paused.
fn pause_here(runtime: usize) {
    if runtime > 0 {
        pause();
    }
}

/// A bug that this crate had: a second `advance(Duration::MAX)` never returned, and after `resume` time went back: sums
/// wrapped, and a loop could end only after the end of time.
#[test]
fn advancing_again_and_again_by_all_there_is_comes_to_an_end() {
    for durations in waiting() {
        for (number, runtime) in runtimes().into_iter().enumerate() {
            must_end(move || {
                runtime.block_on(async {
                    pause_here(number);
                    let mut last = Instant::now();
                    let mut tasks: Vec<_> = durations.iter().map(|&after| tokio::spawn(sleep(after))).collect();
                    tasks.push(tokio::spawn(sleep_until(Instant::now() + Duration::MAX)));
                    crate::common::settle().await;
                    for step in [Duration::MAX, Duration::MAX, ms(1), Duration::MAX, Duration::ZERO] {
                        advance(step).await;
                        let now = Instant::now();
                        assert!(now >= last, "time goes back after {step:?}");
                        last = now;
                    }
                    let never = tasks.pop().unwrap();
                    for task in tasks {
                        task.await.unwrap();
                    }
                    assert!(!never.is_finished(), "that is not an instant that comes");
                });
            });
        }
    }
}

#[test]
fn a_manual_clock_comes_to_its_end_and_stays_there() {
    for durations in waiting() {
        must_end(move || {
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).build().unwrap();
            let mut sleeps: Vec<_> = durations.iter().map(|&after| timer.sleep(after)).collect();
            let mut never = timer.sleep_until(clock.now() + Duration::MAX);
            assert!(sleeps.iter_mut().chain([&mut never]).all(|sleep| poll(sleep).is_pending()));
            clock.advance(Duration::MAX);
            assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
            clock.advance(Duration::MAX);
            let end = clock.now();
            // Where time has ended nothing is later.
            let mut late: Vec<_> = (0..40).map(|n| timer.sleep(ms(40 - n))).collect();
            assert!(late.iter_mut().chain([&mut never]).all(|sleep| poll(sleep).is_pending()));
            clock.advance(Duration::MAX);
            assert_eq!((clock.advance_to_next(), clock.now()), (None, end));
            assert_eq!(clock.pending(), 41);
        });
    }
}

/// A clock that was resumed at the end of time, or behind the system's clock.
#[test]
fn time_that_runs_again_never_goes_back() {
    must_end(|| {
        multi_thread(2).block_on(async {
            let mut last = Instant::now();
            let mut goes_on = || {
                let now = Instant::now();
                assert!(now >= last, "by {:?}", last - now);
                last = now;
            };
            for step in [Duration::ZERO, ms(1), HOUR, Duration::MAX, Duration::MAX, ms(1)] {
                pause();
                goes_on();
                advance(step).await;
                goes_on();
                thread::sleep(ms(2));
                goes_on();
                resume();
                for _ in 0..100 {
                    goes_on();
                }
                thread::sleep(ms(1));
                goes_on();
            }
        });
    });
}

/// After 500 years there is still time left.
#[test]
fn timers_fire_after_a_leap_of_all_there_is() {
    for (number, runtime) in runtimes().into_iter().enumerate() {
        must_end(move || {
            runtime.block_on(async {
                pause_here(number);
                advance(Duration::MAX).await;
                let start = Instant::now();
                sleep(HOUR).await;
                assert!((HOUR..HOUR + ms(2)).contains(&start.elapsed()));
                assert!(timeout(HOUR, std::future::pending::<()>()).await.is_err());
                if number > 0 {
                    resume();
                    let real = std::time::Instant::now();
                    sleep(ms(5)).await;
                    assert!((ms(5)..HOUR).contains(&real.elapsed()));
                }
            });
        });
    }
}

/// A runtime's timer follows the runtime's clock: for the timer, too, time has ended or continues from there.
#[test]
fn timers_of_a_clock_that_was_resumed_at_the_end_of_time_do_not_spin_or_panic() {
    must_end(|| {
        multi_thread(2).block_on(async {
            let waits = tokio::spawn(sleep(HOUR));
            pause();
            advance(Duration::MAX).await;
            advance(Duration::MAX).await;
            waits.await.unwrap();
            resume();
            let end = Instant::now();
            let never = tokio::spawn(sleep(ms(1)));
            let turns = Timer::current().metrics().turns();
            thread::sleep(ms(20));
            assert!(Timer::current().metrics().turns() - turns < 1_000);
            assert!(Instant::now() >= end && !never.is_finished());
            pause();
            assert!(Instant::now() >= end);
            advance(Duration::MAX).await;
        });
    });
}
