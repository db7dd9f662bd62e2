use super::*;

/// An alarm may go off late, or for nothing, while the driver is awake and its next wake-up is not known.
#[test]
fn an_alarm_that_goes_off_out_of_turn_does_not_put_the_next_one_off() {
    let signal = Signal::new();
    signal.lock().phase = Phase::Awake { again: false, expected: true };
    let now = clock::now();
    let (soon, pause) = (now + Ticks(1_000_000), Ticks(500_000));
    signal.went_off(now);
    assert_eq!(signal.end_turn(now, soon, pause, WakesBy::Watched), Some(soon));
    signal.went_off(now);
    signal.begin_turn(noop());
    assert_eq!(signal.end_turn(now, soon, pause, WakesBy::Watched), Some(soon));
}

fn noop() -> DriverWaker {
    DriverWaker { waker: Waker::noop().clone(), is_foreign: false }
}

fn end_of_a_turn_that_saw_nothing(signal: &Signal) -> Option<Tick> {
    signal.end_turn(clock::now(), Tick::MAX, Ticks(0), WakesBy::Thread)
}

/// Both had looked when it was armed. The stand-in only has the alarm thread ring again, and what it leaves to the
/// driver, the driver has to look for.
#[test]
fn what_two_turns_have_missed_neither_sleeps_through() {
    let signal = Signal::new();
    signal.lock().phase = Phase::Awake { again: false, expected: true };
    assert!(signal.begin_turn_as_stand_in(Tick(1)));
    signal.begin_turn(noop());
    signal.inserted(Tick(1));
    assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None, "the stand-in's");
    signal.ring_again();
    assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None, "the driver's");
}

/// The stand-in would have seen what the driver missed, but was not through.
#[test]
fn what_a_stand_in_leaves_undone_nobody_sleeps_through() {
    for ends_first in [false, true] {
        let signal = Signal::new();
        signal.lock().phase = Phase::Awake { again: false, expected: true };
        signal.begin_turn(noop());
        signal.inserted(Tick(1));
        assert!(signal.begin_turn_as_stand_in(Tick(1)));
        if ends_first {
            assert_eq!(end_of_a_turn_that_saw_nothing(&signal), Some(Tick::MAX));
            signal.ring_again();
            // The alarm is moved, or the driver woken.
            assert!(signal.armed() <= Tick(1) || signal.lock().waker.is_none());
        } else {
            signal.ring_again();
            assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None);
        }
    }
}

/// A stand-in may be turning as a test pauses the clock: whoever arms then finds it out, as the stand-in goes by another.
#[cfg(not(feature = "test-util"))]
#[tokio::test(start_paused = true)]
async fn a_clock_is_found_paused_by_whoever_arms_during_a_turn() {
    let signal = Signal::new();
    signal.lock().phase = Phase::Awake { again: false, expected: true };
    assert!(signal.inserted(Tick(1)));
}
