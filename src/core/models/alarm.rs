//! Models of the alarm thread: it misses no booking, and a driver that sleeps has one.
//!
//! On real threads, the process's alarm thread makes the calls.

use std::sync::Arc;
use std::task::Wake;

use super::{Task, Woken, World, check, far, near, race, race_three, wait_until};
use crate::clock;
use crate::core::alarm::thread::{self, AlarmHandler, BookingId, modelled::booked};
use crate::core::engine::Runner;
use crate::util::sync::keep;
use crate::wheel::Tick;

/// Calls the due handlers as the alarm thread would.
fn call() {
    #[cfg(hairspring_loom)]
    thread::modelled::call_due();
}

/// Lets the time pass in which a woken driver has to turn.
fn late() {
    #[cfg(hairspring_loom)]
    crate::util::sync::pass(std::time::Duration::from_millis(2));
}

struct Counts(Arc<Woken>);

impl AlarmHandler for Counts {
    fn alarm(&'static self) {
        self.0.wake_by_ref();
    }
}

impl Counts {
    fn new() -> &'static Counts {
        keep!(Counts, Counts(Woken::new()))
    }

    fn book(&'static self, id: BookingId, at: Tick) {
        thread::book(id, clock::instant_of(at).into_std(), self);
    }
}

fn id(number: u64) -> BookingId {
    BookingId((1 << 63) + number)
}

fn call_both(one: &Woken, other: &Woken) {
    let both = || one.is_woken() && other.is_woken();
    #[cfg(hairspring_loom)]
    thread::modelled::run_until(both);
    #[cfg(not(hairspring_loom))]
    {
        thread::start().unwrap();
        wait_until("both are called", both);
    }
}

/// The thread misses no booking, not even one that moves an earlier booking forward.
#[test]
fn booking_against_the_thread_going_to_sleep() {
    check("booking against the thread going to sleep", || {
        let (one, other) = (Counts::new(), Counts::new());
        other.book(id(2), far(1));
        race_three(
            move || one.book(id(1), near(1)),
            move || other.book(id(2), near(2)),
            move || call_both(&one.0, &other.0),
        );
        assert_eq!((one.0.take(), other.0.take()), (1, 1), "each is called once");
        assert_eq!((booked(id(1)), booked(id(2))), (None, None));
    });
}

#[test]
fn cancelling_against_the_alarm() {
    check("cancelling against the alarm", || {
        let counts = Counts::new();
        counts.book(id(3), near(1));
        race(
            move || {
                thread::cancel(id(3));
                counts.book(id(3), far(1));
                thread::cancel(id(3));
            },
            call,
        );
        assert!(counts.0.take() <= 1, "it is called once at most");
        assert_eq!(booked(id(3)), None);
    });
}

#[test]
fn registering_against_the_alarm() {
    check("registering against the alarm", || {
        let world = World::with_alarm();
        world.register(far(1));
        let task = Task::new(world).run();
        world.has_reached_nothing();
        let wake_and_run = move || {
            world.timer.engine().wake_driver();
            task.run()
        };
        let (task, (), woken) = race_three(wake_and_run, call, move || world.register(near(1)));
        let task = task.settle(|| woken.is_woken());
        assert_eq!(woken.take(), 1);
        let _task = task.settle(|| world.timer.engine().next_wake() == far(1));
        world.assert_sleeps_until(far(1));
    });
}

#[test]
fn the_alarm_thread_looks_against_the_driver() {
    check("the alarm thread looks against the driver", || {
        let world = World::with_alarm();
        let due = world.register(near(1));
        let task = Task::new(world);
        late();
        let (task, (), later) = race_three(move || task.run(), call, move || world.register(far(1)));
        let task = task.settle(|| due.is_woken());
        assert_eq!(due.take(), 1, "it is fired once");
        let _task = task.settle(|| world.timer.engine().next_wake() == far(1));
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), later.take()), (1, 1));
    });
}

#[test]
fn the_alarm_thread_looks_for_nothing_against_the_driver() {
    check("the alarm thread looks for nothing against the driver", || {
        let world = World::with_alarm();
        let task = Task::new(world);
        late();
        let come_twice = move || {
            let task = task.run();
            world.timer.engine().wake_driver();
            task.run()
        };
        let (task, (), later) = race_three(come_twice, call, move || world.register(far(1)));
        let _task = task.settle(|| world.timer.engine().next_wake() == far(1));
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), later.take()), (1, 1));
    });
}

/// A turn ends early, and the alarm may have gone off during it. The next turn fires the rest.
#[test]
fn an_interrupted_turn_against_the_alarm() {
    check("an interrupted turn against the alarm", || {
        let world = World::with_alarm();
        let task = Task::new(world).run();
        world.has_reached_nothing();
        let due = world.register(near(1));
        task.waits_for_its_pass(world);
        late();
        let engine = world.timer.engine();
        let begin_and_interrupt = move || {
            if engine.begin_turn(Runner::IoDriver).is_some() {
                engine.interrupt_turn(Runner::IoDriver);
            }
        };
        race(begin_and_interrupt, call);
        let _task = task.settle(|| due.is_woken());
        assert_eq!(due.take(), 1, "the driver's turn fires it");
    });
}

/// A bug that this crate had: the model failed about once in 80 runs on real threads, because it did not wait for the
/// alarm thread, which still held the driver's waker.
#[test]
fn shutdown_against_the_alarm() {
    check("shutdown against the alarm", || {
        let world = World::with_alarm();
        let mut task = Task::new(world).run();
        world.has_reached_nothing();
        let woken = world.register(near(1));
        let (pending, ()) = race(move || world.timer.close(), call);
        assert!(pending.is_some());
        wait_until("the driver sees it", || task.completes());
        wait_until("no waker is left", || !woken.is_held());
        assert_eq!(woken.take(), 1, "fired or shut down, once");
        assert_eq!(world.timer.engine().booked(), None);
    });
}
