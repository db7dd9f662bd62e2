//! Intervals: late ticks, resets and errors. `drop_in` and `fuzz::current` compare the rest with tokio's.

use std::task::Context;

use crate::common::{HOUR, Wakes, YEAR, ms, on_both_flavours, pass, polled, settle, undriven};
use futures::FutureExt;
use hairspring::MissedTickBehavior::{Delay, Skip};
use hairspring::{Duration, Instant, Timer, boot, interval, timeout};

/// A bug that this crate had: the rounding of the timer counted as lateness, so 100 periods with `Delay` took 128.
#[tokio::test(start_paused = true)]
async fn a_tick_is_late_after_5_ms_and_all_that_its_timer_may_delay_it() {
    for (resolution, coalesce) in
        [(ms(1), ms(0)), (ms(20), ms(0)), (ms(1), ms(20)), (ms(20), ms(20)), (ms(1_000), ms(1_000))]
    {
        Timer::builder().resolution(resolution).coalesce(coalesce).install().unwrap();
        let (most, period) = ((resolution + coalesce).max(ms(5)), ms(100_000));
        macro_rules! is_late_after_most {
            ($now:expr, $interval:expr) => {
                for late in [most, most + Duration::from_nanos(1)] {
                    let start = $now;
                    let mut ticks = $interval(period);
                    ticks.reset_at(start + period);
                    ticks.set_missed_tick_behavior(Delay);
                    assert!(ticks.tick().now_or_never().is_none());
                    tokio::time::advance(period + late).await;
                    assert_eq!(ticks.tick().now_or_never(), Some(start + period));
                    let next = if late > most { start + 2 * period + late } else { start + 2 * period };
                    assert_eq!(ticks.tick().await, next, "{late:?} late, {resolution:?}, {coalesce:?}");
                }
            };
        }
        is_late_after_most!(Instant::now(), interval);
        is_late_after_most!(boot::Instant::now(), boot::interval);
    }
}

/// A bug that this crate had: on a timer with a resolution, a `boot::interval` that was left behind stayed behind.
#[test]
fn an_interval_catches_up_after_a_stall() {
    on_both_flavours(|| async {
        let period = ms(10);
        Timer::builder().resolution(period).install().unwrap();
        let mut ticks = boot::interval(period);
        ticks.tick().await;
        std::thread::sleep(30 * period);
        for _ in 0..1_000 {
            ticks.tick().await;
            // If ticks are due right after multiples of the resolution, the next is always due as well.
            if ticks.missed() <= 1 {
                return;
            }
        }
        panic!("{} ticks behind", ticks.missed());
    });
}

/// Bugs that this crate had: the next tick came at most 500 years after the last, and so at once; or never.
#[tokio::test(start_paused = true)]
async fn a_tick_that_is_centuries_late_is_followed_by_none_at_once() {
    for behavior in [Delay, Skip] {
        let start = boot::Instant::now() - 1_200 * YEAR;
        let mut ticks = boot::interval(HOUR).with_missed_tick_behavior(behavior);
        ticks.reset_at(start);
        assert_eq!(ticks.tick().await, start);
        assert!(ticks.tick().now_or_never().is_none(), "{behavior:?}");
        assert!(timeout(2 * HOUR, ticks.tick()).await.is_ok(), "{behavior:?}");
    }
}

/// tokio 5553: a tick registered the next one, and woke a task that had not polled for it.
#[tokio::test(start_paused = true)]
async fn only_a_task_that_polls_is_woken() {
    let (woken, waker) = Wakes::new();
    let mut cx = Context::from_waker(&waker);
    let mut ticks = interval(ms(10));
    assert!(ticks.poll_tick(&mut cx).is_ready());
    pass(ms(500)).await;
    assert_eq!(woken.count(), 0, "woken after a tick that was ready immediately");
    while ticks.poll_tick(&mut cx).is_ready() {}
    pass(ms(10)).await;
    assert_eq!(woken.count(), 1, "not woken although it polled");
    assert!(ticks.poll_tick(&mut cx).is_ready());
    pass(ms(500)).await;
    assert_eq!(woken.count(), 1, "woken after a tick that it waited for");
    while ticks.poll_tick(&mut cx).is_ready() {}
    ticks.reset_after(ms(20));
    pass(ms(19)).await;
    assert_eq!(woken.count(), 1, "woken before the time of the reset");
    pass(ms(1)).await;
    assert_eq!(woken.count(), 2, "not woken at the time of the reset");
}

/// tokio's `reset_immediately`. A bug that this crate had: no timer was due when the clock moved, so the tick waited
/// for a turn.
#[tokio::test(start_paused = true)]
async fn a_tick_that_is_reset_to_the_present_of_a_paused_clock_is_ready_at_once() {
    let mut ticks = interval(HOUR);
    ticks.tick().await;
    assert!(ticks.tick().now_or_never().is_none());
    tokio::time::advance(ms(100)).await;
    ticks.reset_immediately();
    assert!(ticks.tick().now_or_never().is_some());
}

#[test]
fn a_full_timer_refuses_a_tick_and_loses_none() {
    let (timer, runtime) = undriven(Timer::builder().max_pending(1));
    let first = polled(timer.try_sleep(HOUR));
    let mut ticks = timer.interval(HOUR).fallible();
    for _ in 0..3 {
        assert!(ticks.tick().now_or_never().unwrap().is_err_and(|error| error.is_at_capacity()));
    }
    drop(first);
    assert!(runtime.block_on(ticks.tick()).is_ok(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn fallible_ticks_keep_the_schedule_until_the_shutdown() {
    let timer = Timer::builder().build().unwrap();
    let mut ticks = timer.interval(ms(10)).fallible();
    let start = ticks.tick().await.unwrap();
    tokio::time::advance(ms(25)).await;
    for late in [10, 20, 30] {
        assert_eq!(ticks.tick().await, Ok(start + ms(late)));
    }
    let mut later = timer.interval_at(start + ms(50), ms(10)).fallible();
    assert_eq!((later.tick().await, later.tick().await), (Ok(start + ms(50)), Ok(start + ms(60))));
    let waiting = tokio::spawn(async move { [later.tick().await, later.tick().await] });
    settle().await;
    assert_eq!(timer.shutdown(), 1);
    assert_eq!(waiting.await.unwrap(), [Err(hairspring::error::Error::shutdown()); 2]);
}
