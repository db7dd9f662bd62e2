use std::task::Waker;

use super::*;
use crate::clock;

/// The parking of a timer whose driver is expected.
fn expected() -> Parking {
    let parking = Parking::new();
    parking.begin(Ticks(0)).is_expected = true;
    parking
}

fn noop() -> DriverWaker {
    DriverWaker { waker: Waker::noop().clone(), is_foreign: false }
}

fn end_of_a_turn_that_saw_nothing(parking: &Parking) -> Option<Tick> {
    parking.end_turn(clock::now(), Tick::MAX, WakesBy::Thread)
}

/// Both have looked when the deadline is registered. The stand-in only makes the alarm thread call again, so the driver
/// has to look for the deadline.
#[test]
fn a_deadline_that_two_turns_missed_wakes_one_of_them() {
    let parking = expected();
    assert!(parking.begin_turn_as_stand_in(Tick(1)));
    parking.begin_turn(noop());
    parking.registered(Tick(1));
    assert_eq!(end_of_a_turn_that_saw_nothing(&parking), None, "the stand-in's");
    parking.call_again();
    assert_eq!(end_of_a_turn_that_saw_nothing(&parking), None, "the driver's");
}

/// An alarm of a driver's own, which says for when it was set.
#[derive(Default)]
struct Alarm(std::sync::Mutex<Vec<Instant>>);

impl SharedAlarm for Alarm {
    fn set(&self, at: Instant) -> std::io::Result<()> {
        self.0.lock().unwrap().push(at);
        Ok(())
    }

    fn forget(&self, _: &Waker) -> std::io::Result<()> {
        Ok(())
    }
}

/// Two turns overlap. The one that ends last has looked first, and did not see what the other has parked for.
#[test]
fn a_turn_that_looked_too_early_does_not_put_off_the_alarm_of_another() {
    for by in [WakesBy::OwnAlarm, WakesBy::Thread] {
        let parking = expected();
        let alarm = Arc::new(Alarm::default());
        parking.use_alarm(alarm.clone());
        let soon = clock::now() + Ticks(3_600_000_000_000);
        parking.begin_turn_inline().unwrap();
        parking.registered(soon);
        parking.begin_turn(noop());
        assert_eq!(parking.end_turn(Tick(1), soon, WakesBy::OwnAlarm), Some(soon));
        assert_eq!(parking.end_turn(Tick(1), Tick::MAX, by), Some(soon), "{by:?}");
        assert_eq!(parking.next_wake(), soon);
        let set = alarm.0.lock().unwrap();
        assert!(by == WakesBy::Thread || set.len() == 2, "what the first has cleared is set anew");
    }
}

/// The driver has come after the stand-in was sent. Two that turn wait for each other's locks.
#[test]
fn a_stand_in_does_not_turn_beside_a_driver_that_does() {
    let parking = expected();
    parking.begin_turn(noop());
    assert!(!parking.begin_turn_as_stand_in(Tick(1)));
    assert!(!parking.unconfirmed.is_any());
    parking.interrupt_turn();
    assert!(parking.begin_turn_as_stand_in(Tick(1)), "it may be late again");
}

/// The stand-in would have seen what a turn in the driver's place missed, but was not done.
#[test]
fn a_deadline_that_an_interrupted_stand_in_left_wakes_the_driver_or_moves_the_alarm() {
    for ends_first in [false, true] {
        let parking = expected();
        parking.begin_turn(noop());
        parking.use_alarm(Arc::new(Alarm::default()));
        parking.begin_turn_inline().unwrap();
        parking.registered(Tick(1));
        assert!(parking.begin_turn_as_stand_in(Tick(1)));
        if ends_first {
            assert_eq!(end_of_a_turn_that_saw_nothing(&parking), Some(Tick::MAX));
            parking.call_again();
            // The alarm has moved, or the driver was woken.
            assert!(parking.next_wake() <= Tick(1) || parking.parker.lock().waker.is_none());
        } else {
            parking.call_again();
            assert_eq!(end_of_a_turn_that_saw_nothing(&parking), None);
        }
    }
}

/// A stand-in may be turning while a test pauses the clock. It goes by another clock, so the registration finds it out.
#[tokio::test(start_paused = true)]
async fn a_registration_during_a_turn_finds_that_the_clock_is_paused() {
    let parking = expected();
    assert!(parking.registered(Tick(1)));
}

/// Records that the alarm thread has called.
#[cfg(not(hairspring_loom))]
struct Notes(AtomicBool);

#[cfg(not(hairspring_loom))]
impl Booker for Notes {
    fn alarm(&'static self, _: &'static crate::core::stand_ins::StandIns) {
        self.0.store(true, SeqCst);
    }
}

/// It slept without a deadline, so nothing was booked. If it never turned, later registrations would not fire.
#[cfg(not(hairspring_loom))]
#[test]
fn a_driver_that_is_woken_though_nothing_waits_is_watched() {
    thread::start();
    let booker: &'static Notes = Box::leak(Box::new(Notes(AtomicBool::new(false))));
    let parking = Parking::new();
    parking.set_booker(booker);
    parking.open(Ticks(0));
    parking.begin_turn(noop());
    assert_eq!(end_of_a_turn_that_saw_nothing(&parking), Some(Tick::MAX));
    assert_eq!(parking.booked(), None);
    booker.0.store(false, SeqCst);
    parking.wake_driver();
    let start = Instant::now();
    while !booker.0.load(SeqCst) {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody sees whether it comes");
        std::thread::yield_now();
    }
}
