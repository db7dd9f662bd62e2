//! `boot` in virtual time: its timers on a test clock, and during a suspension.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::common::{
    HOUR, Wakes, YEAR, current_thread, in_virtual_time, ms, must_end_on, on_wake, paused, poll, poll_with, polled,
    spend_the_budget,
};
use hairspring::test_util::{ManualClock, set_wall, suspend};
use hairspring::{Duration, Instant, MissedTickBehavior, Timer, boot, interval, sleep, timeout, wall};

/// This holds for the sleeps of all clocks.
#[test]
fn a_sleep_has_fired_even_if_its_task_has_spent_its_budget() {
    macro_rules! try_it {
        ($sleep:expr) => {
            let mut sleep = polled($sleep);
            hairspring::advance(ms(2)).await;
            spend_the_budget();
            assert!(poll(&mut sleep).is_pending() && sleep.is_elapsed());
            tokio::task::yield_now().await;
            assert!(poll(&mut sleep).is_ready());
        };
    }
    paused().block_on(async {
        tokio::spawn(async {
            try_it!(sleep(ms(1)));
            try_it!(boot::sleep(ms(1)));
            try_it!(wall::sleep_until(wall::now() + ms(1)));
        })
        .await
        .unwrap();
    });
}

#[test]
fn a_suspension_counts_only_for_boot_timers() {
    in_virtual_time(|| async {
        let (start, uptime) = (boot::Instant::now(), Instant::now());
        let sleeps = tokio::spawn(async move {
            boot::sleep_until(start + 2 * HOUR).await;
            (start.elapsed(), uptime.elapsed())
        });
        let limited = tokio::spawn(boot::timeout(2 * HOUR, pending::<()>()));
        let ordinary = tokio::spawn(timeout(HOUR, pending::<()>()));
        sleep(ms(10)).await;
        suspend(3 * HOUR);
        let (elapsed, up) = sleeps.await.unwrap();
        assert!(elapsed >= 3 * HOUR && up < ms(20), "{elapsed:?} {up:?}");
        assert!(limited.await.unwrap().is_err());
        assert!(uptime.elapsed() < ms(20), "{:?}", uptime.elapsed());
        assert!(ordinary.await.unwrap().is_err());
        assert!(uptime.elapsed() >= HOUR);

        let (start, uptime) = (boot::Instant::now(), Instant::now());
        let sleep = polled(boot::sleep(HOUR));
        suspend(ms(3_599_900));
        assert!(!sleep.is_elapsed(), "the suspension was too short");
        sleep.await;
        assert!(start.elapsed() >= HOUR);
        assert!((ms(100)..ms(110)).contains(&uptime.elapsed()), "{:?}", uptime.elapsed());
    });
}

#[test]
fn an_interval_counts_suspended_time() {
    in_virtual_time(|| async {
        for (behavior, pauses) in [
            // The machine wakes 215 s after the first tick. These are the ticks after the late tick.
            (MissedTickBehavior::Burst, [100, 150, 200, 250]),
            (MissedTickBehavior::Skip, [250, 300, 350, 400]),
            (MissedTickBehavior::Delay, [265, 315, 365, 415]),
        ] {
            let mut ticks = boot::interval(Duration::from_secs(50));
            ticks.set_missed_tick_behavior(behavior);
            let start = ticks.tick().await;
            assert_eq!(ticks.missed(), 0);
            suspend(Duration::from_secs(215));
            let second = |tick: boot::Instant| (tick - start).as_secs();
            assert_eq!(second(ticks.tick().await), 50);
            assert_eq!(ticks.missed(), 3, "those of 100, 150 and 200");
            for pause in pauses {
                assert_eq!(second(ticks.tick().await), pause, "{behavior:?}");
            }
            assert_eq!(ticks.missed(), 0);
        }
        let begin = boot::Instant::now() + HOUR;
        let mut later = boot::interval_at(begin, HOUR);
        assert_eq!([later.tick().await, later.tick().await], [begin, begin + HOUR]);
    });
}

#[test]
fn a_timeout_and_an_interval_wait_on_the_timer_that_they_are_given() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).build().unwrap();
    let mut limits = [boot::timeout(HOUR, pending::<()>()), boot::timeout(2 * HOUR, pending())]
        .map(|limited| limited.with_timer(&timer));
    let mut closes = wall::timeout_at(wall::now() + HOUR, pending::<()>()).with_timer(&timer);
    let mut ticks = boot::interval(HOUR).with_missed_tick_behavior(MissedTickBehavior::Skip).with_timer(&timer);
    // The system's clock, from which the deadlines were counted, is a little ahead.
    for (hours, over) in [(0, [false; 4]), (1, [true, false, true, true]), (1, [true; 4])] {
        clock.advance(hours * (HOUR + ms(1_000)));
        let [one, two] = limits.each_mut().map(|limited| poll(limited).is_ready());
        assert_eq!([one, two, poll(&mut closes).is_ready(), poll(&mut Box::pin(ticks.tick())).is_ready()], over);
    }
    assert_eq!(ticks.missed_tick_behavior(), MissedTickBehavior::Skip);
}

/// A bug that this crate had: each overdue tick waited for a turn of its own, at the next multiple of the resolution, so
/// the interval fell behind for ever.
#[test]
fn an_interval_that_is_behind_catches_up_at_once() {
    macro_rules! ticks_in_10_s {
        ($ticks:expr) => {{
            let (start, mut ticks, mut count) = (Instant::now(), $ticks, 0);
            while start.elapsed() < Duration::from_secs(10) {
                let late = ticks.tick().await.elapsed();
                assert!(late < ms(55), "{late:?}");
                count += 1;
            }
            count
        }};
    }
    in_virtual_time(|| async {
        let period = ms(20);
        Timer::builder().resolution(ms(50)).install().unwrap();
        let ordinary = ticks_in_10_s!(interval(period));
        let boot = ticks_in_10_s!(boot::interval(period));
        let (start, mut ticks, mut wall) = (Instant::now(), wall::interval_aligned(period), 0);
        while start.elapsed() < Duration::from_secs(10) {
            ticks.tick().await;
            wall += 1 + ticks.missed();
        }
        for count in [ordinary, boot, wall] {
            assert!((495..=505).contains(&count), "{ordinary} {boot} {wall}");
        }
    });
}

#[test]
fn of_the_ticks_of_a_suspension_only_the_first_waits_for_a_turn() {
    // On a bubble's own clock, a turn has always reached the time that it shows.
    must_end_on(paused(), async || {
        for resolution in [ms(1), ms(50)] {
            Timer::builder().resolution(resolution).install().unwrap();
            let mut ticks = boot::interval(Duration::from_secs(1));
            ticks.tick().await;
            sleep(ms(10)).await;
            suspend(Duration::from_secs(600));
            assert!(poll(&mut pin!(ticks.tick())).is_pending(), "the runtime looks at its sockets first");
            ticks.tick().await;
            let start = Instant::now();
            for _ in 1..600 {
                ticks.tick().await;
            }
            assert_eq!(start.elapsed(), Duration::ZERO);
        }
    });
}

#[test]
fn boot_and_wall_follow_a_manual_clock() {
    macro_rules! follows {
        ($now:expr, $sleep_until:expr, $jump:expr) => {
            let runtime = current_thread();
            let _guard = runtime.enter();
            let clock = ManualClock::new();
            let timer = Timer::builder().clock(&clock).install().unwrap();
            let deadline = $now + HOUR;
            let mut sleep = $sleep_until(deadline);
            let (woken, waker) = Wakes::new();
            assert!(poll(&mut sleep).is_pending());
            assert!(poll_with(&mut sleep, &waker).is_pending(), "the last waker is woken");
            clock.advance(HOUR - ms(1_000));
            assert_eq!(woken.count(), 0);
            // A bit more may have passed, because `now` was read before the clock was created.
            clock.advance(ms(60_000));
            assert_eq!(woken.count(), 1);
            assert!(poll(&mut sleep).is_ready());
            let mut sleep = polled($sleep_until(deadline + YEAR));
            assert!(poll_with(&mut sleep, &waker).is_pending(), "the last waker is woken");
            assert_eq!(timer.metrics().pending(), 1);
            $jump(deadline + YEAR);
            assert_eq!(woken.count(), 2);
            assert!(poll(&mut sleep).is_ready());
            assert_eq!(timer.metrics().pending(), 0, "a sleep that is ready leaves nothing behind");
        };
    }
    follows!(boot::Instant::now(), boot::sleep_until, |_| suspend(YEAR));
    follows!(wall::now(), wall::sleep_until, |deadline| set_wall(deadline + HOUR));
}

#[test]
fn a_suspension_reaches_no_other_runtime() {
    let [one, other] = [paused(), paused()];
    let (woken, waker) = Wakes::new();
    let mut sleep = boot::sleep(HOUR);
    let start = other.block_on(async {
        assert!(poll_with(&mut sleep, &waker).is_pending());
        boot::Instant::now()
    });
    one.block_on(async { suspend(HOUR) });
    assert_eq!(other.block_on(async { start.elapsed() }), Duration::ZERO);
    assert_eq!(woken.count(), 0);
    assert!(start.elapsed() < HOUR / 2, "outside both runtimes");
    drop(one);
    for _ in 0..10 {
        assert!(paused().block_on(async { start.elapsed() }) < HOUR / 2, "a later runtime, perhaps with the same id");
    }
}

#[test]
fn time_goes_on_through_pause_and_resume() {
    must_end_on(current_thread(), async || {
        let mut last = boot::Instant::now();
        let mut goes_on = |least| {
            let now = boot::Instant::now();
            assert!(now >= last + least, "{now:?} after {last:?}");
            assert!(now < last + least + HOUR, "{now:?} after {last:?}");
            last = now;
        };
        for _ in 0..3 {
            hairspring::pause();
            goes_on(Duration::ZERO);
            hairspring::advance(2 * HOUR).await;
            goes_on(2 * HOUR);
            suspend(3 * HOUR);
            goes_on(3 * HOUR);
            hairspring::resume();
            goes_on(Duration::ZERO);
            boot::sleep(ms(2)).await;
            goes_on(ms(2));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_woken_completely_and_leaves_nothing_behind() {
    let (woken, held) = (Arc::<AtomicUsize>::default(), Arc::new(()));
    let mut sleeps: Vec<_> = (0..1_000).map(|_| boot::sleep(HOUR)).collect();
    for (number, sleep) in sleeps.iter_mut().enumerate() {
        let (counts, held) = (woken.clone(), held.clone());
        let waker = on_wake(move || {
            assert!(number != 500 && Arc::strong_count(&held) > 1, "on purpose");
            counts.fetch_add(1, SeqCst);
        });
        assert!(poll_with(sleep, &waker).is_pending());
    }
    suspend(ms(1));
    assert_eq!(woken.load(SeqCst), 999, "a waker that panics stops no other");
    suspend(ms(1));
    assert_eq!(woken.load(SeqCst), 999, "each is woken once per poll");
    let mut ready = sleeps.pop().unwrap();
    drop(sleeps);
    suspend(Duration::MAX);
    suspend(Duration::MAX);
    assert!(poll(&mut ready).is_ready());
    assert!(boot::sleep(YEAR).deadline() > boot::Instant::now(), "the clock saturates");
    assert_eq!(Arc::strong_count(&held), 1);
    assert_eq!(Timer::current().metrics().pending(), 0);
}
