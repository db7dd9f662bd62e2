//! Models of the alarm thread: who books is heard, and a driver that sleeps has a booking by then.
//!
//! On real threads it is the process's alarm thread that rings.

use std::sync::Arc;
use std::task::Wake;

use super::{Task, Woken, World, check, far, near, race, race_three, wait_until};
use crate::clock;
use crate::core::alarm::thread::{self, Bell, BellId, booked};
use crate::core::signal::WakesBy;
use crate::core::stand_ins::StandIns;
use crate::util::sync::keep;
use crate::wheel::{Tick, Ticks};

/// Rings what is due, in the place of the alarm thread.
fn ring() {
    #[cfg(hairspring_loom)]
    thread::ring_due();
}

/// A bell that says that it was rung.
struct Chime(Arc<Woken>);

impl Bell for Chime {
    fn ring(&'static self, _: &'static StandIns) {
        self.0.wake_by_ref();
    }
}

impl Chime {
    fn new() -> &'static Chime {
        keep!(Chime, Chime(Woken::new()))
    }

    fn book(&'static self, id: BellId, at: Tick) {
        thread::book(id, clock::instant_of(at).into_std(), self);
    }
}

/// Names that no timer has.
fn id(number: u64) -> BellId {
    BellId((1 << 63) + number)
}

/// Does the thread's work until both bells have rung.
fn ring_both(one: &Woken, other: &Woken) {
    let both = || one.is_woken() && other.is_woken();
    #[cfg(hairspring_loom)]
    thread::run_until(both);
    #[cfg(not(hairspring_loom))]
    {
        thread::start();
        wait_until("both bells ring", both);
    }
}

/// The thread hears of each booking, also of one that moves another forward, and sleeps through none.
#[test]
fn booking_against_the_thread_going_to_sleep() {
    check("booking against the thread going to sleep", || {
        let (one, other) = (Chime::new(), Chime::new());
        other.book(id(2), far(1));
        race_three(
            move || one.book(id(1), near(1)),
            move || other.book(id(2), near(2)),
            move || ring_both(&one.0, &other.0),
        );
        assert_eq!((one.0.take(), other.0.take()), (1, 1), "each rings once");
        assert_eq!((booked(id(1)), booked(id(2))), (None, None));
    });
}

#[test]
fn cancelling_against_ringing() {
    check("cancelling against ringing", || {
        let chime = Chime::new();
        chime.book(id(3), near(1));
        race(
            move || {
                thread::cancel(id(3));
                chime.book(id(3), far(1));
                thread::cancel(id(3));
            },
            ring,
        );
        assert!(chime.0.take() <= 1, "it rings once at most");
        assert_eq!(booked(id(3)), None);
    });
}

/// A timer that is due at once, armed while the driver goes to sleep and the alarm rings.
#[test]
fn arming_against_ringing() {
    check("arming against ringing", || {
        let world = World::with_alarm();
        world.arm(far(1));
        let task = Task::new(world).run();
        let wake_and_run = move || {
            world.hub.signal.wake_driver();
            task.run()
        };
        let (task, (), woken) = race_three(wake_and_run, ring, move || world.arm(near(1)));
        let task = task.settle(|| woken.is_woken());
        assert_eq!(woken.take(), 1);
        let _task = task.settle(|| world.hub.signal.armed() == far(1));
        world.assert_sleeps_until(far(1));
    });
}

/// A driver that has not come, and the alarm thread in its place: asleep until `tick`, with nobody to wake.
fn stood_in_until(world: World, tick: Tick) {
    let signal = world.hub.signal;
    assert!(signal.begin_turn_as_stand_in(tick));
    assert_eq!(signal.end_turn(Tick::ZERO, tick, Ticks(0), WakesBy::Thread), Some(tick));
}

/// The alarm thread turns again as the driver comes round.
#[test]
fn the_thread_turns_while_the_driver_does() {
    check("the thread turns while the driver does", || {
        let world = World::with_alarm();
        let due = world.arm(near(1));
        stood_in_until(world, near(1));
        let task = Task::new(world);
        let (task, (), later) = race_three(move || task.run(), ring, move || world.arm(far(1)));
        let task = task.settle(|| due.is_woken());
        assert_eq!(due.take(), 1, "one of them fires it");
        let _task = task.settle(|| world.hub.signal.armed() == far(1));
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), later.take()), (1, 1));
    });
}

/// The same where there is nothing to fire any more.
#[test]
fn the_thread_turns_for_nothing_while_the_driver_does() {
    check("the thread turns for nothing while the driver does", || {
        let world = World::with_alarm();
        stood_in_until(world, near(1));
        let task = Task::new(world);
        let (task, (), later) = race_three(move || task.run(), ring, move || world.arm(far(1)));
        let _task = task.settle(|| world.hub.signal.armed() == far(1));
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), later.take()), (1, 1));
    });
}

#[test]
fn shutdown_against_ringing() {
    check("shutdown against ringing", || {
        let world = World::with_alarm();
        let mut task = Task::new(world).run();
        let woken = world.arm(near(1));
        let (pending, ()) = race(move || world.hub.close(world.epoch()), ring);
        assert!(pending.is_some());
        wait_until("the driver sees it", || task.completes());
        wait_until("no waker is left", || !woken.is_held());
        assert_eq!(woken.take(), 1, "fired or told, once");
        assert_eq!(world.hub.signal.booked(), None);
    });
}
