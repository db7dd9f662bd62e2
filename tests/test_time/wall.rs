//! `wall` in virtual time: what a test clock does to its timers, and what happens when the clock is set.

use std::future::pending;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{HOUR, Wakes, YEAR, in_virtual_time, longest, ms, paused, poll, poll_with};
use hairspring::test_util::{ManualClock, set_wall, suspend};
use hairspring::{Duration, Instant, Timer, sleep, wall};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// A day in 2024, at a time after midnight in UTC.
fn at(time: Duration) -> SystemTime {
    UNIX_EPOCH + 19_800 * DAY + time
}

#[test]
fn a_phase_may_change_between_ticks() {
    in_virtual_time(|| async {
        set_wall(at(ms(1)));
        let mut ticks = wall::interval_aligned(MINUTE);
        assert_eq!(ticks.tick().await, at(MINUTE));
        let mut ticks = ticks.with_phase(MINUTE / 4);
        assert_eq!(ticks.tick().await, at(MINUTE + MINUTE / 4));
        assert_eq!(ticks.tick().await, at(2 * MINUTE + MINUTE / 4));
    });
}

#[test]
fn it_follows_a_paused_clock_from_where_it_was_set() {
    in_virtual_time(|| async {
        let before = SystemTime::now();
        assert!(wall::now() <= before + HOUR && before <= wall::now() + HOUR, "the true time at first");
        set_wall(at(HOUR));
        assert_eq!(wall::now(), at(HOUR));
        std::thread::sleep(ms(2));
        assert_eq!(wall::now(), at(HOUR), "it stands still");
        sleep(MINUTE).await;
        assert!(wall::now() >= at(HOUR + MINUTE));
        let deadline = at(3 * HOUR);
        wall::sleep_until(deadline).await;
        let now = wall::now();
        assert!((deadline..deadline + ms(10)).contains(&now), "{now:?}");
        suspend(HOUR);
        assert_eq!(wall::now(), now + HOUR);
    });
}

#[test]
fn what_waits_is_looked_at_again_when_the_clock_is_set() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        let uptime = Instant::now();
        let mut alarm = wall::sleep_until(at(3 * HOUR));
        assert!(futures::poll!(&mut alarm).is_pending());
        set_wall(at(Duration::ZERO));
        sleep(2 * HOUR + MINUTE).await;
        assert!(futures::poll!(&mut alarm).is_pending(), "it was set back by an hour");
        let alarm = tokio::spawn(alarm);
        sleep(ms(5)).await;
        let set = uptime.elapsed();
        set_wall(at(3 * HOUR));
        alarm.await.unwrap();
        assert_eq!(uptime.elapsed(), set, "it was set forward to the very time");
    });
}

#[test]
fn one_that_waits_ends_at_its_time_however_often_the_clock_is_set() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        let alarm = tokio::spawn(async {
            wall::sleep_until(at(5 * HOUR)).await;
            wall::now()
        });
        for hour in [4, 2, 0, 4, 3] {
            sleep(MINUTE).await;
            set_wall(at(hour * HOUR));
        }
        let (set, ended) = (Instant::now(), alarm.await.unwrap());
        assert!((at(5 * HOUR)..at(5 * HOUR) + ms(10)).contains(&ended), "{ended:?}");
        assert!((2 * HOUR..2 * HOUR + ms(10)).contains(&set.elapsed()), "{:?}", set.elapsed());
    });
}

#[test]
fn a_limit_ends_when_the_clock_shows_its_time() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        assert_eq!(wall::timeout_at(at(Duration::ZERO), async { 1 }).await, Ok(1), "what is ready wins");
        assert!(wall::timeout_at(at(Duration::ZERO), pending::<()>()).await.is_err());
        assert!(wall::timeout_at(at(2 * HOUR), pending::<()>()).await.is_err());
        assert!((at(2 * HOUR)..at(2 * HOUR) + ms(10)).contains(&wall::now()), "{:?}", wall::now());

        let uptime = Instant::now();
        let mut limited = Box::pin(wall::timeout_at(at(9 * HOUR), pending::<()>()));
        assert!(futures::poll!(&mut limited).is_pending());
        set_wall(at(5 * HOUR));
        limited.reset_at(at(6 * HOUR));
        assert_eq!(limited.deadline(), at(6 * HOUR));
        assert!(limited.await.is_err());
        assert!((HOUR..HOUR + ms(10)).contains(&uptime.elapsed()), "{:?}", uptime.elapsed());
    });
}

#[test]
fn an_aligned_interval_ticks_at_full_minutes_and_at_its_phase() {
    in_virtual_time(|| async {
        set_wall(at(Duration::from_millis(90_500)));
        let mut minutes = wall::interval_aligned(MINUTE);
        for minute in 2..6 {
            assert_eq!(minutes.tick().await, at(minute * MINUTE));
            assert!(wall::now() >= at(minute * MINUTE) && minutes.missed() == 0);
        }
        let mut nightly = wall::interval_aligned(DAY).with_phase(3 * HOUR);
        assert_eq!(nightly.tick().await, at(3 * HOUR));
        assert_eq!(nightly.tick().await, at(DAY + 3 * HOUR));
        // A boundary that is just now counts.
        set_wall(at(4 * HOUR));
        assert_eq!(wall::interval_aligned(HOUR).tick().await, at(4 * HOUR));
    });
}

#[test]
fn an_aligned_interval_leaves_out_what_the_clock_was_set_past() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        let mut hours = wall::interval_aligned(HOUR);
        assert_eq!(hours.tick().await, at(HOUR));
        set_wall(at(4 * HOUR + MINUTE));
        assert_eq!(hours.tick().await, at(2 * HOUR), "at once");
        assert_eq!((hours.missed(), wall::now()), (2, at(4 * HOUR + MINUTE)));
        assert_eq!(hours.tick().await, at(5 * HOUR));
        suspend(3 * HOUR);
        assert_eq!(hours.tick().await, at(6 * HOUR));
        assert_eq!(hours.missed(), 2);
    });
}

#[test]
fn an_aligned_interval_repeats_no_tick_for_a_small_step_back_and_follows_a_large_one() {
    in_virtual_time(|| async {
        set_wall(at(4 * HOUR + 59 * MINUTE));
        let mut hours = wall::interval_aligned(HOUR);
        assert_eq!(hours.tick().await, at(5 * HOUR));
        set_wall(at(4 * HOUR + 59 * MINUTE));
        assert_eq!(hours.tick().await, at(6 * HOUR), "five o'clock has had its tick");
        let waits = tokio::spawn(async move { hours.tick().await });
        sleep(MINUTE).await;
        set_wall(at(2 * HOUR + MINUTE));
        assert_eq!(waits.await.unwrap(), at(3 * HOUR), "one that waits follows too");
    });
}

#[test]
fn on_a_manual_clock_it_follows_that() {
    let runtime = crate::common::current_thread();
    let _guard = runtime.enter();
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).install().unwrap();
    let deadline = wall::now() + HOUR;
    let mut alarm = wall::sleep_until(deadline);
    let (woken, waker) = Wakes::new();
    assert!(poll_with(&mut alarm, &waker).is_pending());
    clock.advance(59 * MINUTE);
    assert_eq!(woken.count(), 0);
    clock.advance(2 * MINUTE);
    assert_eq!(woken.count(), 1);
    assert!(poll(&mut alarm).is_ready());

    let mut alarm = wall::sleep_until(deadline + YEAR);
    assert!(poll_with(&mut alarm, &waker).is_pending());
    set_wall(deadline + YEAR + HOUR);
    assert_eq!(woken.count(), 2, "it has been told to look");
    assert!(poll(&mut alarm).is_ready());
    assert_eq!(timer.metrics().pending(), 0);
}

#[test]
fn times_before_the_epoch_have_passed_and_those_out_of_reach_wait() {
    paused().block_on(async {
        let before = UNIX_EPOCH - YEAR;
        assert!(poll(&mut wall::sleep_until(before)).is_ready());
        assert_eq!(wall::sleep_until(before).deadline(), before);
        // The last time that the system can represent, bit by bit.
        let bits = (0..64).rev().map(|bit| Duration::from_secs(1 << bit));
        let last = bits.fold(UNIX_EPOCH, |time, bit| time.checked_add(bit).unwrap_or(time));
        let mut never = wall::sleep_until(last);
        assert!(poll(&mut never).is_pending() && !never.is_elapsed());
        assert_eq!(never.deadline(), last);

        set_wall(before);
        assert_eq!(wall::now(), before);
        let tick = wall::interval_aligned(DAY).tick().await;
        assert!(tick < UNIX_EPOCH && tick >= before, "{tick:?}");
        set_wall(last);
        assert_eq!(wall::now(), last);
        assert!(poll(&mut never).is_ready());
        sleep(MINUTE).await;
        assert!(wall::now() >= last, "saturates");
        assert!(poll(&mut wall::sleep_until(last)).is_ready());
    });
}

#[test]
fn a_clock_set_by_years_and_the_longest_period_are_well() {
    paused().block_on(async {
        set_wall(at(Duration::ZERO));
        for period in longest() {
            let mut ticks = wall::interval_aligned(period).with_phase(period);
            assert!(futures::poll!(std::pin::pin!(ticks.tick())).is_ready() || ticks.missed() == 0);
        }
        let mut days = wall::interval_aligned(DAY);
        assert_eq!(days.tick().await, at(Duration::ZERO));
        set_wall(at(800 * YEAR));
        assert_eq!((days.tick().await, days.missed()), (at(DAY), 800 * 365 - 1));
        set_wall(at(Duration::ZERO) - 40 * YEAR);
        assert_eq!(days.tick().await, at(Duration::ZERO) - 40 * YEAR);
    });
}
