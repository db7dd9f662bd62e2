//! Manual clocks: moved by hand, running at a rate, and at the end of time.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::common::{
    HOUR, Wakes, YEAR, current_thread, inside, joined, ms, must_end, on_wake, panic_message, paused, poll, poll_with,
    polled_with, step, watched,
};
use crate::kinds::{DAY, Kind, NANO, on_each};
use hairspring::test_util::{ManualClock, settle};
use hairspring::{Duration, Instant, Timer, advance, boot, sleep, sleep_until, wall};

fn timer_on(clock: &ManualClock) -> Timer {
    Timer::builder().clock(clock).build().unwrap()
}

/// A bug that this crate had: of more than 64 sleeps with one deadline, the first had not elapsed when they were woken.
#[test]
fn each_of_many_sleeps_with_one_deadline_has_elapsed_when_it_is_woken() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let sleeps: Arc<Vec<_>> = Arc::new((0..200).map(|_| Mutex::new(timer.sleep(HOUR))).collect());
    let elapsed = Arc::new(Mutex::new(Vec::new()));
    for (number, sleep) in sleeps.iter().enumerate() {
        let (all, elapsed) = (sleeps.clone(), elapsed.clone());
        let waker = on_wake(move || elapsed.lock().unwrap().push(all[number].lock().unwrap().is_elapsed()));
        assert!(poll_with(&mut *sleep.lock().unwrap(), &waker).is_pending());
    }
    clock.advance(HOUR);
    assert_eq!(*elapsed.lock().unwrap(), [true; 200]);
}

#[test]
fn timers_fire_in_order_each_at_its_deadline() {
    let clock = ManualClock::new();
    // The clock decides the order across two timers and their shards.
    let timers = [timer_on(&clock), Timer::builder().clock(&clock).shards(3).build().unwrap()];
    let fired = Arc::new(Mutex::new(Vec::new()));
    let mut sleeps = Vec::new();
    for n in (0..200_u64).rev() {
        let (clock, fired) = (clock.clone(), fired.clone());
        let mut nap = timers[usize::from(n % 3 == 0)].sleep(Duration::from_nanos(n * n * 7_919 + 1));
        let deadline = nap.deadline();
        let waker = on_wake(move || fired.lock().unwrap().push((n, deadline, clock.now())));
        assert!(poll_with(&mut nap, &waker).is_pending());
        sleeps.push(nap);
    }
    assert_eq!(clock.pending(), 200);
    clock.advance(DAY);
    let fired = fired.lock().unwrap();
    assert!(fired.iter().map(|(n, ..)| *n).eq(0..200));
    assert!(fired.iter().all(|(_, deadline, now)| deadline == now), "the clock shows the deadline of each as it fires");
}

/// A bug that this crate had: two that moved a clock at the same time could move it by the longer duration only.
#[test]
fn advances_add_up_if_one_begins_during_another() {
    let clock = ManualClock::new();
    let begin = clock.now();
    let mut nap = timer_on(&clock).sleep(ms(3));
    let advancing = clock.clone();
    assert!(poll_with(&mut nap, &on_wake(move || advancing.advance(ms(2)))).is_pending());
    clock.advance(ms(10));
    assert_eq!(clock.now() - begin, ms(12));
}

/// A bug that this crate had: a timer of the same instant then fired late, and after a later one.
#[test]
fn a_waker_that_advances_the_clock_waits_for_its_instant_to_end() {
    let clock = ManualClock::new();
    let (start, timer) = (clock.now(), timer_on(&clock));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let _sleeps = [1, 1, 5].map(|due| {
        let (clock, seen) = (clock.clone(), seen.clone());
        polled_with(
            timer.sleep(ms(due)),
            &on_wake(move || {
                seen.lock().unwrap().push((due, clock.now() - start));
                clock.advance(ms(10));
            }),
        )
    });
    clock.advance(ms(2));
    assert_eq!(*seen.lock().unwrap(), [(1, ms(1)), (1, ms(1)), (5, ms(5))]);
    assert_eq!(clock.now() - start, ms(32));
}

#[test]
fn advances_of_several_threads_add_up() {
    const EACH: u64 = 10_000;
    let clock = ManualClock::new();
    let start = clock.now();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..EACH).for_each(|_| clock.advance(NANO)));
        }
    });
    assert_eq!(clock.now() - start, Duration::from_nanos(3 * EACH));
    on_each(&[Kind::Workers(2)], || async {
        let (_hold, start) = (hairspring::test_util::hold(), Instant::now());
        let advance = || async {
            for _ in 0..300 {
                advance(ms(1)).await;
            }
        };
        joined((0..4).map(|_| tokio::spawn(advance()))).await;
        assert_eq!(start.elapsed(), ms(1_200));
    });
}

/// A bug that this crate had: it returned while another thread had taken the timers out, and had not yet woken the tasks.
#[test]
fn an_advance_returns_once_all_due_tasks_are_woken() {
    for _ in 0..200 {
        step();
        let clock = ManualClock::new();
        let timer = timer_on(&clock);
        let (woken, waker) = Wakes::new();
        let _sleeps: Vec<_> = (0..50).map(|_| polled_with(timer.sleep(ms(1_000)), &waker)).collect();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    clock.advance(Duration::from_secs(60));
                    assert_eq!(woken.count(), 50);
                });
            }
        });
    }
}

#[test]
fn a_timer_ends_with_its_clock() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let (mut nap, woken) = watched(timer.sleep(DAY));
    drop(clock);
    assert_eq!(woken.count(), 1);
    assert!(panic_message(|| poll(&mut nap)).contains("shut down"));

    // A builder may own the last reference to a clock.
    let timer = Timer::builder().clock(&ManualClock::new()).shards(20).build().unwrap();
    assert!(panic_message(|| poll(&mut timer.sleep(DAY))).contains("shut down"));
    let clock = ManualClock::new();
    let others: Vec<_> = (0..4).map(|_| Timer::builder().clock(&clock).shards(20).build().unwrap()).collect();
    for (number, timer) in others.iter().enumerate() {
        assert!(!others[..number].contains(timer), "two timers share memory");
    }
}

/// The next timer in the same memory may have another clock.
#[test]
fn a_dropped_timer_ignores_the_next_ones_clock() {
    const SHARDS: usize = 100; // No other timer in this program has as many shards, so none takes this memory.
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
    });
}

#[test]
fn a_clock_runs_at_its_rate() {
    must_end(|| {
        let real = std::time::Instant::now();
        let (slow, fast) = (ManualClock::new(), ManualClock::new());
        slow.set_rate(1.0);
        let starts = [slow.now(), fast.now()];
        fast.set_rate(100.0);
        futures::executor::block_on(timer_on(&fast).sleep(Duration::from_secs(3)));
        assert!(fast.now() - starts[1] >= Duration::from_secs(3));
        assert!(real.elapsed() * 100 >= Duration::from_secs(3), "the clock is too fast");
        assert!(slow.now() - starts[0] <= real.elapsed());
        fast.set_rate(0.0);
        let stopped = fast.now();
        thread::sleep(ms(20));
        assert_eq!(fast.now(), stopped, "the clock moved again");
    });
    for (rate, named) in [(-1.0, "not -1"), (f64::NAN, "not NaN"), (f64::INFINITY, "not inf")] {
        let message = panic_message(|| ManualClock::new().set_rate(rate));
        assert!(message.ends_with(named), "{message}");
    }
}

/// Sequences of waits that reach the end of time.
const WAITING: [&[Duration]; 4] = [&[], &[HOUR], &[LONGEST], &[HOUR, LONGEST, YEAR, LONGEST]];
/// More would never end.
const LONGEST: Duration = Duration::from_secs(500 * YEAR.as_secs());
const KINDS: [Kind; 3] = [Kind::StartPaused, Kind::PausedLater, Kind::Workers(2)];

/// Bugs that this crate had: sums wrapped, a second `advance(Duration::MAX)` never returned, and `resume` moved time
/// back.
#[test]
fn paused_clocks_reach_the_end_of_time() {
    for durations in WAITING {
        on_each(&KINDS, move || async {
            let mut last = Instant::now();
            let tasks: Vec<_> = durations.iter().map(|&after| tokio::spawn(sleep(after))).collect();
            let never = tokio::spawn(sleep_until(Instant::now() + Duration::MAX));
            settle().await;
            for step in [Duration::MAX, Duration::MAX, ms(1), Duration::MAX, Duration::ZERO] {
                advance(step).await;
                let now = Instant::now();
                assert!(now >= last, "time went back after {step:?}");
                last = now;
            }
            joined(tasks).await;
            assert!(!never.is_finished(), "that instant never comes");
            never.abort();
        });
    }
    // After 500 years, some time is left.
    on_each(&KINDS, || async {
        advance(Duration::MAX).await;
        let start = Instant::now();
        sleep(HOUR).await;
        assert!((HOUR..HOUR + ms(2)).contains(&start.elapsed()));
    });
}

#[test]
fn a_timer_for_boot_and_wall_runs_by_its_own_clock() {
    let clock = ManualClock::new();
    let timer = timer_on(&clock);
    let mut slept = boot::sleep(HOUR).with_timer(&timer);
    assert!(poll(&mut slept).is_pending());
    clock.advance(2 * HOUR);
    assert!(poll(&mut slept).is_ready());
    let mut hours = wall::interval_aligned(HOUR).with_timer(&timer);
    assert!(poll(&mut pin!(hours.tick())).is_pending(), "no hour has passed since");
    clock.advance(HOUR);
    assert!(poll(&mut pin!(hours.tick())).is_ready());
    assert_eq!(hours.missed(), 0);
}

/// A bug that this crate had: such a timer fired by either clock.
#[test]
fn each_clock_has_its_own_time_beside_a_paused_one() {
    on_each(&[Kind::StartPaused, Kind::Workers(2)], || async {
        let clocks = [ManualClock::new(), ManualClock::new()];
        let starts = clocks.each_ref().map(ManualClock::now);
        let installed = Timer::builder().clock(&clocks[0]).install().unwrap();
        let built = timer_on(&clocks[1]);
        let naps = [installed, built].map(|timer| tokio::spawn(timer.sleep(HOUR)));
        advance(2 * HOUR).await;
        settle().await;
        assert!(clocks.each_ref().map(ManualClock::now) == starts && naps.iter().all(|nap| !nap.is_finished()));
        let paused = Instant::now();
        clocks[0].advance(HOUR.saturating_sub(NANO));
        settle().await;
        assert!(!naps[0].is_finished());
        clocks[0].advance(NANO);
        settle().await;
        assert_eq!(naps.each_ref().map(tokio::task::JoinHandle::is_finished), [true, false]);
        assert_eq!((clocks[0].pending(), clocks[1].pending()), (0, 1));
        assert_eq!(Instant::now(), paused);
        clocks[1].advance(HOUR);
        joined(naps).await;
    });
}
