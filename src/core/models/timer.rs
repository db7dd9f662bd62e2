//! Models of a timer: its shards, turns, driver and sleeps.

use std::panic::Location;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::{Task, Woken, World, check, far, near, poll, poll_elapsed, race, race_three, using};
use crate::core::alarm::TurnAlarm;
use crate::core::capacity::Capacity;
use crate::core::engine::Runner;
use crate::core::memory::TimerLease;
use crate::future::Sleep;
#[cfg(hairspring_loom)]
use crate::util::sync::atomic::Ordering::SeqCst;
#[cfg(hairspring_loom)]
use crate::wheel::Tick;

#[test]
fn registering_against_going_to_sleep() {
    check("registering against going to sleep", || {
        let world = World::new();
        let task = Task::new(world);
        let (task, woken) = race(move || task.run(), move || world.register(far(1)));
        let task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), woken.take(), task.done), (1, 1, false));
    });
}

#[test]
fn registering_against_going_back_to_sleep() {
    check("registering against going back to sleep", || {
        let world = World::new();
        let later = world.register(far(2));
        let task = Task::new(world).run();
        let wake_and_run = move || {
            world.timer.engine().wake_driver();
            task.run()
        };
        let (task, earlier) = race(wake_and_run, move || world.register(far(1)));
        let _task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), earlier.take(), later.take()), (1, 1, 0));
        assert_eq!((world.fire(far(2)), earlier.take(), later.take()), (1, 0, 1));
    });
}

#[test]
fn registering_against_a_turn_out_of_turn() {
    check("registering against a turn out of turn", || {
        let world = World::new();
        let task = Task::new(world).run();
        world.has_reached_nothing();
        let due = world.register(near(1));
        let poll_and_run = move || {
            task.wake();
            task.run()
        };
        let (task, later) = race(poll_and_run, move || world.register(far(1)));
        let _task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((due.take(), world.fire(far(1)), later.take()), (1, 1, 1));
    });
}

/// They use different shards: only the order of what they publish decides.
#[test]
fn registering_beside_a_turn() {
    check("registering beside a turn", || {
        let world = World::new();
        let task = Task::new(world).run();
        world.has_reached_nothing();
        let due = world.register(near(1));
        let poll_and_run = move || {
            task.wake();
            task.run()
        };
        let (task, later) = race(poll_and_run, move || world.register_in(1, far(1)));
        let _task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((due.take(), world.fire(far(1)), later.take()), (1, 1, 1));
    });
}

#[test]
fn an_earlier_reset_against_going_to_sleep() {
    check("an earlier reset against going to sleep", || {
        let world = World::new();
        let (sleep, woken) = world.sleeping(far(2));
        let task = Task::new(world);
        let (task, _sleep) = race(move || task.run(), using(sleep, move |sleep| sleep.reset_at_tick(far(1))));
        let _task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), woken.take()), (1, 1));
    });
}

#[test]
fn two_register_in_one_shard() {
    check("two register in one shard", || {
        let world = World::new();
        let task = Task::new(world).run();
        let (earlier, later) = race(move || world.register(far(1)), move || world.register(far(2)));
        let task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(1)), earlier.take(), later.take()), (1, 1, 0));
        world.timer.engine().wake_driver();
        let _task = task.run();
        world.assert_sleeps_until(far(2));
        assert_eq!((world.fire(far(2)), earlier.take(), later.take()), (1, 0, 1));
    });
}

#[test]
fn two_register_in_one_shard_against_going_to_sleep() {
    check("two register in one shard against going to sleep", || {
        let world = World::new();
        let task = Task::new(world);
        let (task, earlier, later) =
            race_three(move || task.run(), move || world.register(far(1)), move || world.register(far(2)));
        let _task = task.run();
        world.assert_sleeps_until(far(1));
        assert_eq!((world.fire(far(2)), earlier.take(), later.take()), (2, 1, 1));
    });
}

/// A poll of the driver on a paused clock, until it goes to sleep. Returns the count of what wakes the driver again.
fn look_on_a_paused_clock(world: World) -> Arc<Woken> {
    let (woken, engine) = (Woken::new(), world.timer.engine());
    engine.driver_came(Waker::from(woken.clone()));
    engine.parker.lock().alarm = TurnAlarm::Paused;
    let next = world.timer.run_turn(Runner::TaskOnPausedClock, engine.reached(), TimerLease::earliest);
    assert!(next.is_some());
    woken
}

/// The driver must not leave an alarm for a cancelled sleep: the clock would jump to it. If it has seen that sleep, it
/// is woken to scan again.
#[test]
fn cancel_against_going_to_sleep_on_a_paused_clock() {
    check("cancel against going to sleep on a paused clock", || {
        let world = World::new();
        world.timer.publish_removals();
        let (sleep, _) = world.sleeping(far(1));
        let _later = world.register_in(1, far(2));
        let (woken, ()) = race(move || look_on_a_paused_clock(world), move || drop(sleep));
        if woken.take() > 0 {
            look_on_a_paused_clock(world);
        }
        assert_eq!((world.timer.engine().next_wake(), world.timer.earliest()), (far(2), far(2)));
    });
}

#[test]
fn cancel_and_register_against_going_to_sleep_on_a_paused_clock() {
    check("cancel and register against going to sleep on a paused clock", || {
        let world = World::new();
        world.timer.publish_removals();
        let (sleep, _) = world.sleeping(far(1));
        let (woken, _registered, _sleep) = race_three(
            move || look_on_a_paused_clock(world),
            move || world.register(far(2)),
            using(sleep, move |sleep| sleep.reset_at_tick(far(3))),
        );
        if woken.take() > 0 {
            look_on_a_paused_clock(world);
        }
        assert_eq!((world.timer.engine().next_wake(), world.timer.earliest()), (far(2), far(2)));
    });
}

/// A bug that this crate had: the thread read the time before it published its deadline, and the move of the clock read
/// the shard's earliest deadline in between.
#[cfg(hairspring_loom)] // Otherwise it would hold a clock for all other tests of the process.
#[test]
fn registering_against_a_test_that_moves_the_clock() {
    check("registering against a test that moves the clock", || {
        let world = World::new();
        let shows = move |tick: Tick| world.timer.engine().clock.shown.store(tick.0, SeqCst);
        shows(far(1));
        let woken = Woken::new();
        let waker = Waker::from(woken.clone());
        let (registered, ()) = race(
            move || world.lease.insert(far(2), waker),
            move || {
                shows(far(3));
                world.fire(far(3));
            },
        );
        assert_eq!(registered.is_ok(), woken.is_woken(), "a sleep that waits is woken: {registered:?}");
    });
}

/// Two threads fire, and a third cancels. One of the three gets the entry. tokio 8252: a cancelled entry stays in the
/// wheel.
#[test]
fn cancel_against_fire() {
    check("cancel against fire", || {
        let world = World::new();
        let (sleep, woken) = world.sleeping(far(1));
        let (one, other, ()) = race_three(move || world.fire(far(1)), move || world.fire(far(1)), move || drop(sleep));
        assert_eq!(one + other, woken.take(), "the thread that fires it wakes it");
        let counts = world.timer.snapshot();
        assert_eq!((counts.registered, counts.pending), (1, 0));
        assert!(one + other <= 1 && counts.lateness.count() == (one + other) as u64, "it fires once at most");
        assert!(!woken.is_held(), "no waker is left");
    });
}

#[test]
fn reset_against_fire() {
    check("reset against fire", || {
        let world = World::new();
        let (sleep, woken) = world.sleeping(far(1));
        let (fired, mut sleep) =
            race(move || world.fire(far(1)), using(sleep, move |sleep| sleep.reset_at_tick(far(2))));
        assert_eq!(fired, woken.take());
        if fired > 0 {
            assert!(poll(&mut sleep, &woken).is_pending(), "its time has not come");
        }
        assert!(world.timer.earliest() <= far(2));
        assert_eq!((world.fire(far(2)), woken.take()), (1, 1), "at the new deadline");
        assert!(poll(&mut sleep, &woken).is_ready());
        drop(sleep);
        assert!(!woken.is_held(), "no waker is left");
    });
}

#[test]
fn reset_to_the_past_against_fire() {
    check("reset to the past against fire", || {
        let world = World::new();
        let (sleep, woken) = world.sleeping(far(2));
        let (_, mut sleep) = race(move || world.fire(far(2)), using(sleep, move |sleep| sleep.reset_at_tick(far(1))));
        world.fire(far(2));
        assert_eq!(woken.take(), 1);
        assert!(poll(&mut sleep, &woken).is_ready());
        drop(sleep);
        assert!(!woken.is_held(), "no waker is left");
    });
}

#[test]
fn drop_against_shutdown() {
    check("drop against shutdown", || {
        let world = World::new();
        let task = Task::new(world).run();
        let (sleep, woken) = world.sleeping(far(1));
        let (pending, ()) = race(move || world.timer.close(), move || drop(sleep));
        assert_eq!(pending, Some(woken.take()), "what was pending is woken");
        assert!(!woken.is_held(), "no waker is left");
        assert!(task.run().done, "the driver has seen it");
    });
}

#[test]
fn shutdown_against_the_drop_of_the_driver() {
    check("shutdown against the drop of the driver", || {
        let world = World::new();
        let task = Task::new(world).run();
        let woken = world.register(far(1));
        let (pending, ()) = race(move || world.timer.close(), move || drop(task));
        assert!(matches!(pending, None | Some(1)));
        assert_eq!(woken.take(), 1);
        assert!(!woken.is_held(), "no waker is left");
    });
}

/// tokio 8252: a cancelled entry stays in the wheel.
#[test]
fn first_poll_against_shutdown() {
    check("first poll against shutdown", || {
        let world = World::new();
        let mut sleep = Sleep::on(world.lease, far(1), Location::caller());
        let woken = Woken::new();
        let task = Task::new(world);
        let waker = woken.clone();
        let (pending, task, (mut sleep, polled)) = race_three(
            move || world.timer.close(),
            move || task.run(),
            move || {
                let polled = poll_elapsed(&mut sleep, &waker);
                (sleep, polled)
            },
        );
        assert!(task.run().done, "the driver has seen it");
        let waited = usize::from(polled.is_pending());
        assert_eq!((pending, woken.take()), (Some(waited), waited), "one that waits is woken");
        assert!(matches!(poll_elapsed(&mut sleep, &woken), Poll::Ready(Err(error)) if error.is_shutdown()));
        assert!(!woken.is_held(), "no waker is left");
    });
}

#[test]
fn waker_replaced_against_fire() {
    check("waker replaced against fire", || {
        let world = World::new();
        let (mut sleep, first) = world.sleeping(far(1));
        let second = Woken::new();
        let waker = second.clone();
        let (fired, (mut sleep, polled)) = race(
            move || world.fire(far(1)),
            move || {
                let polled = poll(&mut sleep, &waker);
                (sleep, polled)
            },
        );
        assert_eq!(fired, 1);
        let (first_woken, second_woken) = (first.take(), second.take());
        assert_eq!(first_woken + second_woken, 1, "one is woken");
        assert!(polled.is_ready() || second_woken == 1, "the last that polled is woken, or has seen it");
        assert!(polled.is_ready() || poll(&mut sleep, &second).is_ready());
        drop(sleep);
        assert!(!first.is_held() && !second.is_held(), "no waker is left");
    });
}

/// A bug that this crate had: a reset took its room twice for a moment, and another sleep was refused.
#[test]
fn a_reset_against_the_last_sleep_that_there_is_room_for() {
    check("a reset against the last sleep that there is room for", || {
        let capacity = Arc::new(Capacity::new());
        capacity.open(Some(2));
        assert_eq!(capacity.take(1), Ok(()));
        let resets = capacity.clone();
        let ((), taken) = race(move || resets.change(1, 1), move || capacity.take(1));
        assert_eq!(taken, Ok(()));
    });
}
