//! `Try`, `Timer::try_timeout` and `Timer::try_interval`: errors in cases in which others panic.

use std::future::{pending, ready};
use std::task::Poll;

use crate::common::{HOUR, both_flavours, longest, ms, must_end, panic_message, paused, poll, poll_with, settle};
use futures::FutureExt;
use hairspring::error::{Elapsed, Error};
use hairspring::{Duration, Instant, Timer, Try, boot, wall};

/// A timer that one sleep has filled.
fn full() -> (Timer, hairspring::timer::Driver, hairspring::TrySleep) {
    let (timer, driver) = Timer::builder().capacity(1).build_with_driver().unwrap();
    let mut first = timer.try_sleep(HOUR);
    assert!(poll(&mut first).is_pending());
    (timer, driver, first)
}

#[test]
fn a_timeout_that_is_not_refused_is_a_timeout() {
    for runtime in both_flavours().into_iter().chain([paused()]) {
        runtime.block_on(async {
            let timer = Timer::builder().build().unwrap();
            assert_eq!(timer.try_timeout(HOUR, ready(1)).await, Ok(Ok(1)));
            let start = Instant::now();
            assert_eq!(timer.try_timeout(ms(5), pending::<()>()).await, Ok(Err(Elapsed::new())));
            assert!(start.elapsed() >= ms(5));
            assert_eq!(timer.try_timeout(Duration::ZERO, pending::<()>()).await, Ok(Err(Elapsed::new())));
            for endless in longest() {
                assert_eq!(timer.try_timeout(endless, hairspring::sleep(ms(1))).await, Ok(Ok(())));
            }
        });
    }
}

#[test]
fn those_with_an_instant_end_there() {
    paused().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let start = timer.now();
        for after in [ms(5), Duration::ZERO] {
            let mut limited = timer.try_timeout_at(start + after, pending::<()>());
            assert_eq!(limited.deadline(), start + after);
            assert_eq!((&mut limited).await, Ok(Err(Elapsed::new())));
            assert_eq!(start.elapsed(), ms(5));
        }
        let mut ticks = timer.try_interval_at(start + ms(20), ms(10));
        assert_eq!((ticks.tick().await, ticks.tick().await), (Ok(start + ms(20)), Ok(start + ms(30))));
        timer.shutdown();
        assert!(timer.try_timeout_at(start + HOUR, pending::<()>()).await.is_err_and(|error| error.is_shutdown()));
        assert_eq!(timer.try_timeout_at(start + HOUR, ready(1)).await, Ok(Ok(1)));
        let mut ticks = timer.try_interval_at(start + HOUR, HOUR);
        assert!(ticks.tick().await.is_err_and(|error| error.is_shutdown()));
    });
}

/// On every clock, and nothing of a sleep that was refused stays behind.
#[test]
fn any_sleep_may_return_errors() {
    paused().block_on(async {
        let timer = Timer::builder().capacity(1).install().unwrap();
        let mut first = Try::from(hairspring::sleep(HOUR));
        assert!(poll(&mut first).is_pending() && !first.is_elapsed());
        let held = std::sync::Arc::new(());
        let waker = crate::common::holding(held.clone());
        let mut on_boot = Try::from(boot::sleep(ms(5)));
        let mut on_wall = Try::from(wall::sleep_until(wall::now() + HOUR));
        for _ in 0..3 {
            assert!(matches!(poll_with(&mut on_boot, &waker), Poll::Ready(Err(error)) if error.is_at_capacity()));
            assert!(matches!(poll_with(&mut on_wall, &waker), Poll::Ready(Err(error)) if error.is_at_capacity()));
        }
        drop(waker);
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
        first.reset_at(Instant::now() + ms(5));
        assert_eq!(first.await, Ok(()));
        let start = boot::Instant::now();
        assert_eq!(on_boot.await, Ok(()), "it was due meanwhile");
        assert_eq!(start.elapsed(), Duration::ZERO);
        on_wall.reset_at(wall::now() + ms(5));
        assert_eq!((on_wall.await, start.elapsed()), (Ok(()), ms(5)));
        assert_eq!(timer.metrics().pending(), 0);
    });
}

/// So one that tries again and again lets those run that would make room.
#[test]
fn a_refusal_spends_the_budget_on_every_clock() {
    must_end(|| {
        both_flavours()[0].block_on(async {
            let timer = Timer::builder().capacity(1).install().unwrap();
            for clock in 0..3 {
                let mut first = timer.try_sleep(HOUR);
                assert!(poll(&mut first).is_pending());
                let makes_room = tokio::spawn(async move { drop(first) });
                let mut refused = 0;
                let tries_again = async {
                    while let Err(error) = match clock {
                        0 => Try::from(hairspring::sleep(HOUR)).await,
                        1 => Try::from(boot::sleep(HOUR)).await,
                        _ => Try::from(wall::sleep_until(wall::now() + HOUR)).await,
                    } {
                        assert!(error.is_at_capacity());
                        refused += 1;
                    }
                };
                tokio::select! {
                    biased;
                    () = tries_again => unreachable!("it waits for an hour"),
                    made = makes_room => made.unwrap(),
                }
                assert!(refused > 0);
            }
        });
    });
}

#[test]
fn a_full_timer_refuses_a_timeout_that_has_to_wait_and_keeps_its_future() {
    let (timer, _driver, first) = full();
    assert_eq!(timer.try_timeout(HOUR, ready(1)).now_or_never(), Some(Ok(Ok(1))), "it needs no place");
    let mut limited = timer.try_timeout(HOUR, pending::<()>());
    for _ in 0..3 {
        let Poll::Ready(Err(error)) = poll(&mut limited) else { panic!("a full timer took a timeout") };
        assert!(error.is_at_capacity());
    }
    drop(first);
    assert!(poll(&mut limited).is_pending(), "there is room again");
    assert!(timer.try_sleep(HOUR).now_or_never().is_some(), "and this took it");
    drop(limited.into_inner());
    assert!(timer.try_sleep(HOUR).now_or_never().is_none());
}

#[test]
fn a_full_timer_refuses_ticks_and_takes_none() {
    let (timer, _driver, first) = full();
    let mut ticks = timer.try_interval(HOUR);
    let start = ticks.tick().now_or_never().expect("the first is due").unwrap();
    for _ in 0..3 {
        assert!(ticks.tick().now_or_never().unwrap().is_err_and(|error| error.is_at_capacity()));
    }
    drop(first);
    assert!(ticks.tick().now_or_never().is_none(), "there is room again");
    ticks.reset_at(start);
    assert_eq!(ticks.tick().now_or_never(), Some(Ok(start)), "none was lost");
}

#[test]
fn a_shutdown_ends_those_that_wait_with_an_error() {
    for runtime in both_flavours() {
        runtime.block_on(async {
            let timer = Timer::builder().build().unwrap();
            let mut ticks = timer.try_interval(HOUR);
            assert!(ticks.tick().await.is_ok());
            let limited = tokio::spawn(timer.try_timeout(HOUR, pending::<()>()));
            let ticking = tokio::spawn(async move { (ticks.tick().await, ticks.tick().await) });
            while timer.metrics().pending() < 2 {
                settle().await;
            }
            assert_eq!(timer.shutdown(), 2);
            assert_eq!(limited.await.unwrap(), Err(Error::shutdown()));
            assert_eq!(ticking.await.unwrap(), (Err(Error::shutdown()), Err(Error::shutdown())));
            assert_eq!(timer.try_timeout(HOUR, pending::<()>()).await, Err(Error::shutdown()));
            assert_eq!(timer.try_timeout(HOUR, ready(1)).await, Ok(Ok(1)));
        });
    }
}

#[test]
fn ticks_keep_to_their_schedule() {
    paused().block_on(async {
        let timer = Timer::builder().build().unwrap();
        let mut ticks = timer.try_interval(ms(10));
        let start = ticks.tick().await.unwrap();
        hairspring::sleep(ms(25)).await;
        for late in [10, 20, 30] {
            assert_eq!(ticks.tick().await, Ok(start + ms(late)));
        }
    });
}

#[test]
fn a_period_of_zero_is_refused() {
    let (timer, _driver) = Timer::builder().build_with_driver().unwrap();
    assert_eq!(panic_message(|| timer.try_interval(Duration::ZERO)), "`period` must be non-zero.");
}
