//! Models of what timers share: reused memory and the helper thread.

#[cfg(hairspring_loom)]
use std::time::Duration;

use super::{check, far, near, race, race_three, register, wait_until};
use crate::clock;
#[cfg(hairspring_loom)]
use crate::core::alarm::thread;
use crate::core::memory::TimerLease;
use crate::core::settings::Settings;
#[cfg(hairspring_loom)]
use crate::util::sync;
use crate::wheel::Ticks;

fn settings() -> Settings {
    Settings { coalesce: Ticks(0), ..Settings::with_shards(1) }
}

fn open() -> TimerLease {
    TimerLease::open(false, &settings())
}

fn shares_memory(one: TimerLease, other: TimerLease) -> bool {
    one.engine().id == other.engine().id
}

fn close(timer: TimerLease) {
    timer.close().expect("nobody else ends it");
}

/// Two timers in the same memory would count, and end, each other's sleeps.
#[test]
fn a_handle_of_an_ended_timer_against_two_new_ones() {
    check("a handle of an ended timer against two new ones", || {
        let gone = open();
        close(gone);
        let hold_twice = move || (0..2).for_each(|_| assert!(gone.try_guard().is_none(), "it has ended"));
        let ((), one, other) = race_three(hold_twice, open, open);
        assert!(!shares_memory(one, other));
        close(one);
        close(other);
    });
}

#[test]
fn a_handle_against_the_end_of_its_timer_and_a_new_one() {
    check("a handle against the end of its timer and a new one", || {
        let ends = open();
        let end_and_open = move || {
            close(ends);
            open()
        };
        let (held, one, other) = race_three(move || ends.try_guard(), end_and_open, open);
        assert!(!shares_memory(one, other));
        let kept = held.is_some();
        assert!(!kept || ![one, other].iter().any(|&timer| shares_memory(timer, ends)), "it is kept");
        drop(held);
        close(one);
        close(other);
    });
}

/// Whoever counts holds the memory, also of a timer that has ended.
#[test]
fn counting_against_a_new_timer() {
    check("counting against a new timer", || {
        let ends = open();
        let held = ends.guard();
        close(ends);
        let full = || TimerLease::open(false, &Settings { capacity: Some(1), ..settings() });
        let count = move || (held.lease().snapshot(), held);
        let ((counts, held), new) = race(count, full);
        assert_eq!((counts.refused, counts.capacity), (0, None));
        assert!(!shares_memory(held.lease(), new));
        close(new);
    });
}

fn driverless() -> TimerLease {
    TimerLease::open(true, &settings())
}

/// Does the work of the alarm thread, and of the helper thread that it sends.
fn call() {
    #[cfg(hairspring_loom)]
    thread::modelled::call_due();
}

/// Does all that work, and lets the time for coalescing pass.
fn settle() {
    #[cfg(hairspring_loom)]
    while {
        sync::pass(Duration::from_secs(1));
        thread::modelled::call_due()
    } {}
}

/// Either two deadlines were booked, or one was and the helper's scan came too early for the other. Both fire.
#[test]
fn registering_against_the_turns_of_helpers() {
    check("registering against the turns of helper threads", || {
        let timer = driverless();
        let first = register(timer, 0, near(2));
        let (second, (), ()) = race_three(move || register(timer, 0, near(1)), call, call);
        settle();
        wait_until("both fire", || first.is_woken() && second.is_woken());
        assert_eq!((first.take(), second.take()), (1, 1));
        let later = register(timer, 0, far(1));
        let by = clock::instant_of(far(1)).into_std();
        let engine = timer.engine();
        wait_until("the alarm thread calls for far deadlines", || {
            engine.next_wake() == far(1) && engine.booked().is_some_and(|at| at <= by)
        });
        assert!(!later.is_woken());
        close(timer);
    });
}

#[test]
fn the_turn_of_a_helper_against_the_end_of_its_timer() {
    check("the turn of a helper thread against the end of its timer", || {
        let timer = driverless();
        let woken = register(timer, 0, near(1));
        let end_and_open = move || {
            close(timer);
            let next = open();
            (next, register(next, 0, far(1)))
        };
        let ((next, far), ()) = race(end_and_open, call);
        wait_until("it is fired or shut down", || woken.is_woken());
        assert_eq!((woken.take(), far.is_woken()), (1, false));
        close(next);
    });
}

#[cfg(hairspring_loom)]
mod helpers {
    use std::task::Waker;

    use super::*;
    use crate::core::helpers::Helper;
    use crate::core::models::Woken;
    use crate::util::sync::keep;

    #[test]
    fn sending_work_against_a_thread_that_goes_idle() {
        check("sending work against a thread that goes idle", || {
            let (one, other) = (Woken::new(), Woken::new());
            let helper: &'static Helper = keep!(Helper, Helper::new());
            let (first, second) = (one.clone(), other.clone());
            let send = move || {
                helper.send(Box::new(move || Waker::from(first).wake()));
                helper.send(Box::new(move || Waker::from(second).wake()));
                helper.recheck();
            };
            let (all, each) = ((one.clone(), other.clone()), (one, other));
            race(send, move || helper.serve(|| all.0.is_woken() && all.1.is_woken()));
            assert_eq!((each.0.take(), each.1.take()), (1, 1));
        });
    }
}
