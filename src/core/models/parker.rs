//! Models of the parker: a sleeper misses no registered deadline.

use std::sync::Arc;
use std::task::Waker;

use super::{Woken, check, far, race, race_three};
use crate::core::parker::Next;
use crate::core::parker::{Parker, Phase};
use crate::util::sync::keep;
use crate::wheel::Tick;

/// A parker with its sleeper's waker, and two wheels without contention for their locks.
struct Place {
    parker: Parker<Option<Waker>>,
    wheels: [Next; 2],
}

impl Place {
    fn new() -> &'static Place {
        keep!(Place, Place { parker: Parker::new(None), wheels: [Next::never(), Next::never()] })
    }

    /// Registers a deadline in a wheel that has no earlier one.
    fn register(&self, wheel: usize, deadline: Tick) {
        assert!(self.wheels[wheel].lower_to(deadline));
        if self.parker.is_too_late_for(deadline) {
            let mut locked = self.parker.lock();
            if locked.note(deadline) {
                let waker = locked.take();
                locked.leave();
                drop(locked);
                waker.expect("the sleeper has left its waker").wake();
            }
        }
    }

    fn earliest(&self) -> Tick {
        self.wheels.iter().map(Next::get).min().expect("there are two")
    }

    /// Returns `false` if another thread scans.
    fn begin_to_scan(&self, woken: &Arc<Woken>) -> bool {
        let mut locked = self.parker.lock();
        let scans = locked.claim();
        *locked = Some(Waker::from(woken.clone()));
        scans
    }

    /// Scans until it can sleep, unless another thread scans.
    fn sleep(&self, woken: &Arc<Woken>) {
        if self.begin_to_scan(woken) {
            while !self.park_for(self.earliest()) {}
        }
    }

    /// Returns `false` if the scan has to repeat.
    fn park_for(&self, earliest: Tick) -> bool {
        self.parker.lock().park(earliest)
    }

    /// Asserts that a sleeper was woken, or wakes by itself for `deadline`.
    fn assert_wakes_by(&self, deadline: Tick, woken: &[&Arc<Woken>]) {
        let by_itself = self.parker.lock().phase() == Phase::Idle && self.parker.next_wake() <= deadline;
        assert!(by_itself || woken.iter().any(|woken| woken.is_woken()), "it sleeps through {deadline:?}");
    }
}

#[test]
fn registering_against_going_idle() {
    check("registering against going idle", || {
        let (place, woken) = (Place::new(), Woken::new());
        let sleeper = woken.clone();
        race(move || place.sleep(&sleeper), || place.register(0, far(1)));
        place.assert_wakes_by(far(1), &[&woken]);
    });
}

#[test]
fn two_register_against_going_idle_again() {
    check("two register against going idle again", || {
        let (place, woken) = (Place::new(), Woken::new());
        place.register(0, far(3));
        place.sleep(&woken);
        let sleeper = woken.clone();
        race_three(move || place.sleep(&sleeper), || place.register(0, far(2)), || place.register(1, far(1)));
        place.assert_wakes_by(far(1), &[&woken]);
    });
}

#[test]
fn two_that_look_at_the_same_time_against_registering() {
    check("two that look at the same time against registering", || {
        let (place, one, other) = (Place::new(), Woken::new(), Woken::new());
        let sleepers = (one.clone(), other.clone());
        race_three(move || place.sleep(&sleepers.0), move || place.sleep(&sleepers.1), || place.register(0, far(1)));
        place.assert_wakes_by(far(1), &[&one, &other]);
    });
}

#[test]
fn leaving_against_registering() {
    check("leaving against registering", || {
        let (place, woken) = (Place::new(), Woken::new());
        assert!(place.begin_to_scan(&woken));
        let leave = || {
            let mut locked = place.parker.lock();
            let waker = locked.take();
            locked.leave();
            drop(locked);
            drop(waker);
        };
        race(leave, || place.register(0, far(1)));
        assert_eq!((place.parker.next_wake(), woken.take()), (Tick::ZERO, 0));
        assert!(!woken.is_held(), "no waker is left");
        place.sleep(&woken);
        assert_eq!(place.parker.next_wake(), far(1), "a deadline registered in between is found");
    });
}
