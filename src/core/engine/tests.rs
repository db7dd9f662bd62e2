#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::alarm::{Due, LONGEST_PATIENCE, PATIENCE};
use super::*;
use crate::clock;
#[cfg(target_os = "linux")]
use crate::core::alarm::TimerfdAlarm;

/// The driver is polled, and a turn follows its runtime's pass.
fn comes(engine: &'static Engine) -> bool {
    engine.driver_came(Waker::noop().clone());
    engine.begin_turn(Runner::Task).is_some()
}

fn helper_comes(engine: &'static Engine) -> bool {
    engine.begin_turn(Runner::Helper).is_some()
}

fn set_alarm(engine: &'static Engine, alarm: TurnAlarm) {
    engine.parker.lock().alarm = alarm;
}

/// An engine for which the alarm thread does nothing: the tests do.
fn opened(is_driverless: bool) -> &'static Engine {
    let engine = Engine::new();
    engine.ignores_alarm.store(true, Relaxed);
    engine.open(is_driverless, Ticks(0));
    engine
}

/// The engine of a timer whose driver was polled once, and sleeps.
fn parked() -> &'static Engine {
    let engine = opened(false);
    assert!(comes(engine));
    assert_eq!(engine.end_turn(clock::now(), 0, Tick::MAX), Some(Tick::MAX));
    engine
}

/// A thread that arrives during a turn leaves immediately, and the turn has to scan again.
#[test]
fn a_turn_looks_again_for_each_that_came_meanwhile() {
    let engine = parked();
    let comes: [fn(&'static Engine); 3] = [
        |engine| _ = engine.after_insert(Tick(1)),
        |engine| engine.after_removal(Tick(1)),
        |engine| assert!(!helper_comes(engine)),
    ];
    assert!(helper_comes(engine));
    for come in comes {
        come(engine);
        assert_eq!(engine.end_turn(Tick(1), 0, Tick::MAX), None);
    }
    assert_eq!(engine.end_turn(Tick(1), 0, Tick::MAX), Some(Tick::MAX));
}

#[test]
fn a_driver_that_is_wanted_during_the_turn_of_another_is_called_at_its_end() {
    let is_called = |engine: &'static Engine| {
        engine.end_turn(Tick(1), 0, Tick(5)).unwrap();
        engine.next_wake() == Tick::ZERO && matches!(engine.due(), Due::Wake(_))
    };
    let looks = |engine: &'static Engine| {
        engine.driver_came(Waker::noop().clone());
        assert!(engine.begin_turn(Runner::TaskOnPausedClock).is_none());
    };
    let wants: [fn(&'static Engine); 2] = [looks, Engine::wake_driver];
    for want in wants {
        let engine = parked();
        assert!(helper_comes(engine));
        want(engine);
        assert!(is_called(engine));
        assert!(comes(engine));
        assert!(!is_called(engine), "once");
    }
    let engine = parked();
    set_alarm(engine, TurnAlarm::Paused);
    assert!(engine.begin_turn(Runner::TokioTimers).is_some());
    engine.end_turn(Tick(1), 0, Tick(5)).unwrap();
    assert!(engine.parker.lock().driver.is_none(), "nobody else sets it");
}

/// The waker would keep the task, and with it the runtime and its files, and the next timer would wake it.
#[test]
fn a_timer_that_has_ended_keeps_no_waker() {
    let engine = parked();
    engine.close();
    assert!(!comes(engine));
    assert!(engine.parker.lock().driver.is_none());
}

#[test]
fn a_turn_that_outlives_its_timer_ends_and_sets_no_alarm() {
    let engine = parked();
    assert!(comes(engine));
    engine.close();
    assert_eq!(engine.end_turn(Tick(1), 0, Tick(5)), Some(Tick::MAX));
    assert_eq!((comes(engine), engine.booked()), (false, None));
}

/// A `timerfd` in a runtime.
#[cfg(target_os = "linux")]
fn timerfd() -> (tokio::runtime::Runtime, Arc<TimerfdAlarm>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let alarm =
        runtime.block_on(async { TimerfdAlarm::new(Waker::noop(), true, Some(PATIENCE_WITH_TIMERFD)).unwrap() });
    (runtime, Arc::new(alarm))
}

#[cfg(target_os = "linux")]
fn parked_on_a_timerfd() -> (&'static Engine, tokio::runtime::Runtime) {
    let (engine, (runtime, alarm)) = (parked(), timerfd());
    set_alarm(engine, TurnAlarm::Timerfd(alarm));
    (engine, runtime)
}

#[cfg(target_os = "linux")]
#[test]
fn a_timerfd_is_moved_to_an_earlier_deadline() {
    const HOUR: Ticks = Ticks(3_600_000_000_000);
    let engine = parked();
    let (_runtime, alarm) = timerfd();
    let at = [3, 2].map(|hours| clock::now() + Ticks(hours * HOUR.0));
    let instant = |tick| clock::instant_of(tick).into_std();
    assert!(comes(engine));
    set_alarm(engine, TurnAlarm::Timerfd(alarm.clone()));
    assert_eq!(engine.end_turn(Tick(1), 0, at[0]), Some(at[0]));
    assert!(engine.booked() > Some(instant(at[0])), "the thread checks once the driver is late");
    engine.after_insert(at[1]);
    assert_eq!(alarm.remaining().as_secs().div_ceil(3_600), 2);
    assert_eq!(engine.next_wake(), at[1]);
}

#[cfg(target_os = "linux")]
#[test]
fn while_a_timerfd_is_in_time_turns_put_the_alarm_threads_check_off() {
    let (engine, _runtime) = parked_on_a_timerfd();
    let turn = || {
        assert!(comes(engine));
        engine.end_turn(Tick(1), 1, clock::now() + Ticks(1_000_000)).unwrap();
        engine.parker.lock().checks_at
    };
    let first = turn();
    assert!(turn() > first);
}

/// A worker that polls the driver may block before its pass. Another polls it then, again and again, and nobody turns
/// for it.
#[test]
fn a_driver_that_brings_no_turn_is_woken_again_without_end() {
    let engine = parked();
    engine.after_insert(Tick(1));
    assert!(matches!(engine.due(), Due::Wake(_)));
    assert!(matches!(engine.due(), Due::Nothing), "it was woken and not polled yet");
    for ago in [Duration::ZERO, Duration::from_millis(20), LONGEST_PATIENCE, LONGEST_PATIENCE * 9] {
        engine.driver_came(Waker::noop().clone());
        let now = Instant::now();
        engine.parker.lock().called = now.checked_sub(ago);
        assert!(!engine.set_off(), "the task turns after a pass");
        let (at, after) = (engine.parker.lock().checks_at.unwrap(), Instant::now());
        assert!(at >= now + ago.clamp(PATIENCE, LONGEST_PATIENCE), "{ago:?}");
        assert!(at <= after + (after - now + ago).clamp(PATIENCE, LONGEST_PATIENCE), "{ago:?}");
        assert!(matches!(engine.due(), Due::Wake(_)));
    }
    assert!(comes(engine));
    engine.end_turn(Tick(1), 1, Tick::MAX).unwrap();
    assert!(matches!(engine.due(), Due::Nothing), "a turn has come");
}

/// tokio would keep the task for the worker that wakes it, which may compute. The alarm thread wakes it.
#[test]
fn what_is_due_already_does_not_wake_the_driver_from_the_thread_that_registers_it() {
    let engine = parked();
    engine.driver_came(Waker::noop().clone());
    engine.after_insert(Tick(1));
    assert!(engine.parker.lock().driver.is_some() && engine.booked() <= Some(Instant::now()));
}

/// If a helper blocks after it has ended a turn early, another has to come soon.
#[test]
fn without_a_driver_each_turn_that_ends_early_is_followed_up_soon() {
    let engine = opened(true);
    let mut last = None;
    for _ in 0..3 {
        assert!(helper_comes(engine));
        engine.interrupt_turn(Runner::Helper);
        let check = engine.parker.lock().checks_at;
        assert!(check.is_some_and(|at| at <= Instant::now() + PATIENCE), "at {check:?}");
        assert!(last.is_none() || check == last, "no turn postpones it");
        last = check;
    }
}

/// A worker that blocks after it took an event from the I/O driver keeps the alarm from being noticed.
#[cfg(target_os = "linux")]
#[test]
fn a_timerfd_that_was_late_is_checked_after_a_millisecond() {
    let (engine, _runtime) = parked_on_a_timerfd();
    let checks_after = || {
        let deadline = clock::now() + Ticks(1 << 44);
        engine.end_turn(Tick(1), 1, deadline).unwrap();
        engine.booked().unwrap() - clock::instant_of(deadline).into_std()
    };
    assert!(comes(engine));
    assert_eq!(checks_after(), PATIENCE_WITH_TIMERFD);
    assert!(comes(engine));
    engine.end_turn(Tick(1), 1, Tick(1)).unwrap();
    assert!(matches!(engine.due(), Due::Wake(_)), "the alarm did not go off at tick 1");
    assert!(comes(engine));
    assert_eq!(checks_after(), PATIENCE);
}

/// Nobody else could look at the sockets.
#[cfg(target_os = "linux")]
#[test]
fn with_one_worker_a_timerfd_is_not_checked() {
    let (engine, runtime) = parked_on_a_timerfd();
    let alone = runtime.block_on(async { TimerfdAlarm::new(Waker::noop(), true, None) });
    set_alarm(engine, TurnAlarm::Timerfd(Arc::new(alone.unwrap())));
    assert!(comes(engine));
    engine.end_turn(Tick(1), 1, clock::now()).unwrap();
    assert_eq!(engine.booked(), None);
}
