//! Clocks that a test moves by hand, and the clock of a paused runtime.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{current_thread, inside, ms, multi_thread, must_end, panic_message, paused, poll, poll_with};
use hairspring::test_util::ManualClock;
use hairspring::{Instant, MissedTickBehavior, Timer, advance, pause, resume, sleep};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, task};

const DAY: Duration = Duration::from_secs(86_400);

fn timer_on(clock: &ManualClock) -> Timer {
    Timer::builder().clock(clock).build().unwrap()
}

#[test]
fn a_sleep_fires_at_its_deadline_to_the_nanosecond_with_no_runtime_anywhere() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let mut nap = task::spawn(timer.sleep(Duration::from_nanos(1_234_567)));
    assert_pending!(nap.poll());
    clock.advance(Duration::from_nanos(1_234_566));
    assert!(!nap.is_woken());
    assert_pending!(nap.poll());
    clock.advance(Duration::from_nanos(1));
    assert!(nap.is_woken());
    assert_ready!(nap.poll());
    assert_eq!((clock.pending(), clock.now()), (0, nap.deadline()));
}

#[test]
fn timers_fire_in_order_each_at_its_own_deadline() {
    let clock = ManualClock::new();
    // Two timers, of several shards: the order is the clock's.
    let timers = [timer_on(&clock), Timer::builder().clock(&clock).shards(3).build().unwrap()];
    let fired = Arc::new(Mutex::new(Vec::new()));
    let mut sleeps = Vec::new();
    for n in (0..200_u64).rev() {
        let (clock, fired) = (clock.clone(), fired.clone());
        let mut nap = timers[usize::from(n % 3 == 0)].sleep(Duration::from_nanos(n * n * 7_919 + 1));
        let deadline = nap.deadline();
        let waker = crate::common::on_wake(move || fired.lock().unwrap().push((n, deadline, clock.now())));
        assert!(poll_with(&mut nap, &waker).is_pending());
        sleeps.push(nap);
    }
    assert_eq!(clock.pending(), 200);
    clock.advance(DAY);
    let fired = fired.lock().unwrap();
    assert!(fired.iter().map(|(n, ..)| *n).eq(0..200));
    assert!(fired.iter().all(|(_, deadline, now)| deadline == now), "the clock shows each one's deadline");
}

#[test]
fn clocks_do_not_touch_each_other_nor_the_runtimes() {
    multi_thread(2).block_on(async {
        let clocks = [ManualClock::new(), ManualClock::new()];
        let timers = clocks.each_ref().map(timer_on);
        let mut sleeps = timers.each_ref().map(|timer| timer.sleep(DAY));
        assert!(sleeps.iter_mut().all(|nap| poll(nap).is_pending()));
        let real = std::time::Instant::now();
        clocks[0].advance(2 * DAY);
        assert!(poll(&mut sleeps[0]).is_ready() && poll(&mut sleeps[1]).is_pending());
        sleep(ms(2)).await;
        assert!(real.elapsed() < DAY);
        assert_eq!((clocks[0].pending(), clocks[1].pending()), (0, 1));
    });
}

#[test]
fn a_timer_on_a_manual_clock_runs_on_every_runtime() {
    for runtime in [current_thread(), multi_thread(2), paused()] {
        let clock = ManualClock::new();
        let timer = timer_on(&clock);
        let waits = runtime.spawn(timer.timeout(DAY, std::future::pending::<()>()));
        runtime.block_on(async {
            while clock.pending() == 0 {
                tokio::task::yield_now().await;
            }
            assert!(!waits.is_finished());
            clock.advance(DAY);
            assert!(waits.await.unwrap().is_err());
        });
    }
}

#[test]
fn the_next_deadline_is_found_past_cancelled_and_far_ones() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    assert_eq!(clock.advance_to_next(), None);
    let start = clock.now();
    let mut cancelled = timer.sleep(ms(1));
    assert!(poll(&mut cancelled).is_pending());
    drop(cancelled);
    assert_eq!((clock.advance_to_next(), clock.now()), (None, start), "nothing waits, and the clock stands");
    let mut sleeps: Vec<_> = (1..100_u32).rev().map(|n| timer.sleep(n * DAY)).collect();
    assert!(sleeps.iter_mut().all(|nap| poll(nap).is_pending()));
    for n in 1..100_u32 {
        assert_eq!(clock.advance_to_next(), Some(start + n * DAY));
    }
    assert_eq!(clock.advance_to_next(), None);
}

#[test]
fn timeouts_and_intervals_go_by_their_timers_clock() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let start = clock.now();
    assert_eq!(timer.now(), start);
    let mut limited = task::spawn(timer.timeout(ms(10), std::future::pending::<()>()));
    assert_pending!(limited.poll());
    clock.advance(ms(10));
    assert_ready_err!(limited.poll());

    let mut ticks = timer.interval(ms(100));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next = || poll_tick(&mut ticks);
    assert_eq!(next(), Some(start + ms(10)));
    assert_eq!(next(), None);
    clock.advance(ms(250));
    assert_eq!(next(), Some(start + ms(110)));
    clock.advance(ms(99));
    assert_eq!(next(), None, "a full period after the late tick");
    clock.advance(ms(1));
    assert_eq!(next(), Some(start + ms(360)));
}

fn poll_tick(ticks: &mut hairspring::Interval) -> Option<Instant> {
    match ticks.poll_tick(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(at) => Some(at),
        std::task::Poll::Pending => None,
    }
}

/// A waker that uses the clock and the timer in the middle of an advance.
#[test]
fn a_waker_may_register_and_advance() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let armed = Arc::new(Mutex::new(None));
    let (inner, within, on) = (clock.clone(), armed.clone(), timer.clone());
    let waker = crate::common::on_wake(move || {
        let mut another = on.sleep(ms(1));
        assert!(poll(&mut another).is_pending());
        *within.lock().unwrap() = Some(another);
        inner.advance(ms(5));
    });
    let mut nap = timer.sleep(ms(1));
    assert!(poll_with(&mut nap, &waker).is_pending());
    let start = clock.now();
    clock.advance(ms(2));
    assert_eq!(clock.now(), start + ms(6), "time never goes back");
    assert!(poll(armed.lock().unwrap().as_mut().unwrap()).is_ready());
}

#[test]
fn when_a_clock_goes_its_timers_end() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let mut nap = timer.sleep(DAY);
    let (woken, waker) = crate::common::Wakes::new();
    assert!(poll_with(&mut nap, &waker).is_pending());
    drop(clock);
    assert_eq!(woken.count(), 1);
    assert!(panic_message(|| poll(&mut nap)).contains("shut down"));
}

/// A builder may hold the last reference to a clock.
#[test]
fn a_timer_whose_clock_goes_while_it_is_built_has_ended() {
    let last_of_its_clock = || Timer::builder().clock(&ManualClock::new()).shards(20);
    let builders = [last_of_its_clock(), last_of_its_clock()];
    let [first, second] = builders;
    for timer in [first.build().unwrap(), second.build_with_driver().unwrap().0] {
        assert!(panic_message(|| poll(&mut timer.sleep(DAY))).contains("shut down"));
    }
    let clock = ManualClock::new();
    let others: Vec<_> = (0..4).map(|_| Timer::builder().clock(&clock).shards(20).build().unwrap()).collect();
    for (number, timer) in others.iter().enumerate() {
        assert!(!others[..number].contains(timer), "one timer's place in memory was given to two");
    }
}

/// The next timer may have a different clock, which may show any time.
#[test]
fn a_sleep_whose_timer_has_gone_does_not_go_by_the_clock_of_the_next() {
    let (timer, driver) = Timer::builder().shards(40).build_with_driver().unwrap();
    let (mut polled, mut idle) = (timer.try_sleep(DAY), timer.try_sleep(DAY));
    assert!(poll(&mut polled).is_pending());
    drop((timer, driver));
    let clock = ManualClock::new();
    let _next = Timer::builder().clock(&clock).shards(40).build().unwrap();
    clock.advance(2 * DAY);
    for sleep in [&mut polled, &mut idle] {
        assert!(assert_ready_err!(poll(sleep)).is_shutdown(), "it ends early");
    }
}

/// As above: it showed the time of the next timer's clock.
#[test]
fn a_handle_on_a_timer_that_has_gone_shows_the_current_runtimes_time() {
    const SHARDS: usize = 100; // No other timer here is as large, or takes its memory.
    let runtime = current_thread();
    let gone = inside(&runtime, || Timer::builder().shards(SHARDS).install().unwrap());
    drop(runtime);
    let clock = ManualClock::new();
    let next = Timer::builder().clock(&clock).shards(SHARDS).build().unwrap();
    clock.advance(100 * DAY);
    assert_eq!(next.now(), clock.now());
    let before = Instant::now();
    let shown = gone.now();
    assert!(before <= shown && shown <= Instant::now());
    paused().block_on(async {
        advance(DAY).await;
        assert_eq!(gone.now(), Instant::now());
        assert_eq!(gone.sleep(DAY).deadline(), Instant::now() + DAY);
        assert_eq!(gone.metrics().elapsed(), Timer::current().metrics().elapsed());
    });
}

#[test]
fn a_driver_of_a_manual_clock_ends_with_the_timer_and_ends_it() {
    current_thread().block_on(async {
        let clock = ManualClock::new();
        let (timer, driver) = Timer::builder().clock(&clock).build_with_driver().unwrap();
        let driver = tokio::spawn(driver);
        tokio::task::yield_now().await;
        assert!(!driver.is_finished());
        timer.shutdown();
        driver.await.unwrap();

        let (timer, driver) = Timer::builder().clock(&clock).build_with_driver().unwrap();
        drop(driver);
        assert!(panic_message(|| poll(&mut timer.sleep(DAY))).contains("shut down"));
    });
}

/// tokio 3710, 3837
#[test]
fn advance_moves_both_clocks_by_exactly_what_is_asked() {
    paused().block_on(async {
        for nanos in [1, 999, 1_000_001, 51_592_000, 123_456_789_012_345] {
            let (ours, tokios) = (Instant::now(), tokio::time::Instant::now());
            advance(Duration::from_nanos(nanos)).await;
            assert_eq!(ours.elapsed(), Duration::from_nanos(nanos));
            assert_eq!(tokios.elapsed(), Duration::from_nanos(nanos));
        }
    });
}

#[test]
fn advance_fires_on_the_way_in_order_and_each_at_its_deadline() {
    paused().block_on(async {
        let fired = Arc::new(Mutex::new(Vec::new()));
        let mut sleeps = Vec::new();
        for n in (1..100_u64).rev() {
            let mut nap = sleep(Duration::from_nanos(n * 1_234_567));
            let (deadline, fired) = (nap.deadline(), fired.clone());
            let waker = crate::common::on_wake(move || fired.lock().unwrap().push((n, deadline, Instant::now())));
            assert!(poll_with(&mut nap, &waker).is_pending());
            sleeps.push(nap);
        }
        advance(DAY).await;
        let fired = fired.lock().unwrap();
        assert!(fired.iter().map(|(n, ..)| *n).eq(1..100));
        assert!(fired.iter().all(|(_, deadline, now)| deadline == now));
    });
}

/// tokio 7841: what has run and what has not when `advance` returns.
#[test]
fn when_advance_returns_tasks_have_been_woken() {
    paused().block_on(async {
        let mut nap = task::spawn(sleep(ms(5)));
        assert_pending!(nap.poll());
        advance(ms(5)).await;
        assert!(nap.is_woken());
        assert_ready!(nap.poll());
    });
}

#[test]
fn pause_and_resume_are_followed_with_timers_standing() {
    current_thread().block_on(async {
        let standing = tokio::spawn(sleep(DAY));
        sleep(ms(1)).await;
        pause();
        let start = Instant::now();
        sleep(2 * DAY).await;
        assert!(start.elapsed() >= 2 * DAY && standing.is_finished());
        resume();
        let real = std::time::Instant::now();
        sleep(ms(3)).await;
        assert!(real.elapsed() >= ms(3));
    });
}

#[test]
fn a_hundred_thousand_virtual_sleeps_end() {
    paused().block_on(async {
        let start = Instant::now();
        for n in 0..100_000_u64 {
            sleep(ms(n % 50)).await;
        }
        assert!(start.elapsed() >= ms(2_450_000));
    });
}

#[test]
fn a_timer_ten_hours_away_takes_two_turns_at_most() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let mut nap = timer.sleep(Duration::from_secs(36_000));
    assert!(poll(&mut nap).is_pending());
    assert_eq!(clock.advance_to_next(), Some(nap.deadline()));
    assert!(timer.metrics().turns() <= 2, "{} turns", timer.metrics().turns());
}

/// As tokio 2290. The wheel had nothing to fire, lagged behind its clock, and treated the past as the future.
#[test]
fn a_reset_into_the_past_wakes_at_once_while_the_clock_stands() {
    for shards in [1, 4] {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).shards(shards).build().unwrap();
        clock.advance(DAY);
        let mut nap = task::spawn(timer.sleep(DAY));
        assert_pending!(nap.poll());
        nap.reset_at(clock.now() - ms(1));
        assert!(nap.is_woken());
        assert_eq!(clock.pending(), 0);
        assert_ready!(nap.poll());
    }
}

/// The last tick means "never". A clock that reached it made its timers read the system's time.
#[test]
fn at_the_end_of_time_a_clock_stands() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    clock.advance(Duration::MAX);
    let end = clock.now();
    assert_eq!(timer.now(), end);
    clock.advance(Duration::MAX);
    assert_eq!((clock.now(), timer.now()), (end, end));
    assert!(poll(&mut timer.sleep_until(end)).is_ready());
    assert_pending!(task::spawn(timer.sleep(DAY)).poll());
}

/// The last multiple of a resolution is before the last deadline, but was used as the last deadline.
#[test]
fn a_coarse_timer_is_not_early_at_the_end_of_time() {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).resolution(Duration::from_secs(1)).build().unwrap();
    let mut nap = task::spawn(timer.sleep_until(clock.now() + Duration::MAX));
    assert_pending!(nap.poll());
    let left = nap.deadline() - clock.now();
    clock.advance(left.saturating_sub(ms(1)));
    assert!(clock.now() < nap.deadline() && !nap.is_woken());
    assert_pending!(nap.poll());
}

/// If the waker panicked, a reset into the past was incomplete: the sleep still had its old deadline, and was ready.
#[test]
fn where_a_waker_panics_in_a_reset_the_sleep_is_reset() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    clock.advance(DAY);
    // Turns the wheel.
    let mut other = timer.sleep(ms(1));
    assert!(poll(&mut other).is_pending());
    clock.advance(ms(1));

    let mut nap = timer.sleep(DAY);
    assert!(poll_with(&mut nap, &crate::common::on_wake(|| panic!("on purpose"))).is_pending());
    let past = clock.now() - ms(1);
    nap.reset_at(past);
    assert_eq!(nap.deadline(), past);
    nap.reset_at(clock.now() + DAY);
    assert!(poll(&mut nap).is_pending(), "a day early");
}

/// Waits until a clock stands still, if a step has begun.
fn stands_still(clock: &ManualClock) -> Instant {
    loop {
        let before = clock.now();
        std::thread::sleep(ms(20));
        if clock.now() == before {
            return before;
        }
    }
}

#[test]
fn a_clock_runs_at_its_rate_until_it_gets_another() {
    must_end(|| {
        let (slow, fast) = (ManualClock::new(), ManualClock::new());
        let (starts, real) = ([slow.now(), fast.now()], std::time::Instant::now());
        slow.rate(1.0);
        fast.rate(100.0);
        let timer = Timer::builder().clock(&fast).build().unwrap();
        futures::executor::block_on(timer.sleep(Duration::from_secs(3)));
        assert!(fast.now() - starts[1] >= Duration::from_secs(3));
        assert!(real.elapsed() * 100 >= Duration::from_secs(3), "no faster than that");
        assert!(slow.now() - starts[0] <= real.elapsed());

        let hold = fast.hold();
        let stopped = stands_still(&fast);
        fast.rate(0.0);
        drop(hold);
        assert_eq!(stands_still(&fast), stopped, "it does not move again");
    });
}

#[test]
fn a_rate_that_no_clock_has_is_refused_by_its_value() {
    for (rate, named) in [(-1.0, "not -1"), (f64::NAN, "not NaN"), (f64::INFINITY, "not inf")] {
        let message = panic_message(|| ManualClock::new().rate(rate));
        assert!(message.ends_with(named), "{message}");
    }
}
