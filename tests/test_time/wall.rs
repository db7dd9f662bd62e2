//! `wall` in virtual time. Its timers follow the test clock, and notice when the wall clock is set.

use std::future::pending;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::common::{HOUR, YEAR, in_virtual_time, ms, poll, polled};
use crate::kinds::{DAY, MINUTE};
use hairspring::test_util::{set_wall, suspend};
use hairspring::{Duration, Instant, sleep, wall};

/// A day in 2024, at a time after midnight in UTC.
fn at(time: Duration) -> SystemTime {
    UNIX_EPOCH + 19_800 * DAY + time
}

#[test]
fn a_sleep_follows_every_change_of_the_clock() {
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

        let (alarm, uptime) = (tokio::spawn(wall::sleep_until(at(9 * HOUR))), Instant::now());
        sleep(ms(5)).await;
        set_wall(at(9 * HOUR));
        alarm.await.unwrap();
        assert_eq!(uptime.elapsed(), ms(5), "the clock was set to the sleep's deadline");
    });
}

#[test]
fn a_limit_ends_when_the_clock_shows_its_time() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        assert_eq!(wall::timeout_at(at(Duration::ZERO), async { 1 }).await, Ok(1), "a ready future wins");
        assert!(wall::timeout_at(at(Duration::ZERO), pending::<()>()).await.is_err());
        assert!(wall::timeout_at(at(2 * HOUR), pending::<()>()).await.is_err());
        assert!((at(2 * HOUR)..at(2 * HOUR) + ms(10)).contains(&wall::now()), "{:?}", wall::now());

        let mut limited = polled(Box::pin(wall::timeout_at(at(9 * HOUR), pending::<()>())));
        limited.reset_at(at(6 * HOUR));
        assert_eq!(limited.deadline(), at(6 * HOUR));
        set_wall(at(6 * HOUR));
        assert!(limited.await.is_err());
    });
}

#[test]
fn an_aligned_interval_ticks_at_its_phase() {
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
        let mut quarters = minutes.with_phase(MINUTE / 4);
        assert_eq!(quarters.tick().await, at(DAY + 3 * HOUR + MINUTE / 4), "a new phase");
        // A boundary at exactly this instant counts.
        set_wall(at(4 * HOUR));
        assert_eq!(wall::interval_aligned(HOUR).tick().await, at(4 * HOUR));
    });
}

#[test]
fn an_aligned_interval_skips_ticks_the_clock_passed() {
    in_virtual_time(|| async {
        set_wall(at(HOUR));
        let mut hours = wall::interval_aligned(HOUR);
        assert_eq!(hours.tick().await, at(HOUR));
        set_wall(at(4 * HOUR + MINUTE));
        assert_eq!(hours.tick().await, at(2 * HOUR), "late");
        assert_eq!((hours.missed(), wall::now()), (2, at(4 * HOUR + MINUTE)));
        assert_eq!(hours.tick().await, at(5 * HOUR));
        suspend(3 * HOUR);
        assert_eq!(hours.tick().await, at(6 * HOUR));
        assert_eq!(hours.missed(), 2);
    });
}

#[test]
fn a_small_step_back_repeats_no_aligned_tick() {
    in_virtual_time(|| async {
        set_wall(at(4 * HOUR + 59 * MINUTE));
        let mut hours = wall::interval_aligned(HOUR);
        assert_eq!(hours.tick().await, at(5 * HOUR));
        set_wall(at(4 * HOUR + 59 * MINUTE));
        assert_eq!(hours.tick().await, at(6 * HOUR), "the tick for five o'clock is not repeated");
        let waits = tokio::spawn(async move { hours.tick().await });
        sleep(MINUTE).await;
        set_wall(at(2 * HOUR + MINUTE));
        assert_eq!(waits.await.unwrap(), at(3 * HOUR), "a waiting interval follows the clock too");
    });
}

#[tokio::test(start_paused = true)]
async fn any_time_is_accepted() {
    let before = UNIX_EPOCH - YEAR;
    assert!(poll(&mut wall::sleep_until(before)).is_ready());
    assert_eq!(wall::sleep_until(before).deadline(), before);
    // Finds the last time that the system can represent, bit by bit.
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
}

#[tokio::test(start_paused = true)]
async fn leaps_of_years_end() {
    set_wall(at(Duration::ZERO));
    let mut days = wall::interval_aligned(DAY);
    assert_eq!(days.tick().await, at(Duration::ZERO));
    set_wall(at(800 * YEAR));
    assert_eq!((days.tick().await, days.missed()), (at(DAY), 800 * 365 - 1));
    set_wall(at(Duration::ZERO) - 40 * YEAR);
    assert_eq!(days.tick().await, at(Duration::ZERO) - 40 * YEAR);
}
