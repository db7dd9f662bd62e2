//! Models of what timers share: hubs that one uses after the other, and the stand-ins.

use std::sync::Arc;
use std::task::Waker;
#[cfg(hairspring_loom)]
use std::time::Duration;

use super::{Woken, check, far, near, race, race_three, wait_until};
use crate::clock;
#[cfg(hairspring_loom)]
use crate::core::alarm::thread;
use crate::core::hub::{Hub, HubLease, Wanted};
use crate::core::shard::Refused;
#[cfg(hairspring_loom)]
use crate::util::sync;
use crate::wheel::Tick;

const WANTED: Wanted = Wanted { shards: 1, grain: 0, capacity: None };

fn close(HubLease { hub, epoch }: HubLease) {
    hub.close(epoch).expect("nobody else ends it");
}

/// Two timers in one hub would count, and end, each other's sleeps.
#[test]
fn a_handle_of_an_ended_timer_against_two_new_ones() {
    check("a handle of an ended timer against two new ones", || {
        let gone = Hub::open(WANTED);
        close(gone);
        let hold_twice = move || (0..2).for_each(|_| assert!(gone.try_hold().is_none(), "it has ended"));
        let ((), one, other) = race_three(hold_twice, || Hub::open(WANTED), || Hub::open(WANTED));
        assert!(!std::ptr::eq(one.hub, other.hub));
        close(one);
        close(other);
    });
}

/// Whoever got hold of it in time reads what it has counted, and not what another counts.
#[test]
fn a_handle_against_the_end_of_its_timer_and_a_new_one() {
    check("a handle against the end of its timer and a new one", || {
        let ends = Hub::open(WANTED);
        let end_and_open = move || {
            close(ends);
            Hub::open(WANTED)
        };
        let (held, one, other) = race_three(move || ends.try_hold(), end_and_open, || Hub::open(WANTED));
        assert!(!std::ptr::eq(one.hub, other.hub));
        let kept = held.is_some();
        assert!(!kept || ![one.hub, other.hub].iter().any(|hub| std::ptr::eq(*hub, ends.hub)), "it is kept");
        drop(held);
        close(one);
        close(other);
    });
}

/// A timer without a driver, as the process's own is.
fn driverless() -> HubLease {
    Hub::open_driverless(WANTED)
}

fn arm(timer: HubLease, deadline: Tick) -> Arc<Woken> {
    let woken = Woken::new();
    let waker = Waker::from(woken.clone());
    match timer.hub.shard(0).insert(timer.epoch, deadline, waker.clone()) {
        Ok(_) => {}
        // A turn has gone by it, so it is ready at once.
        Err(Refused::Past) => waker.wake(),
        Err(refused) => panic!("{refused:?}"),
    }
    woken
}

/// Does the alarm thread's work, and that of the stand-in which it calls.
fn ring() {
    #[cfg(hairspring_loom)]
    thread::ring_due();
}

/// Does all of it, with time for timers to gather.
fn settle() {
    #[cfg(hairspring_loom)]
    while {
        sync::pass(Duration::from_secs(1));
        thread::ring_due()
    } {}
}

/// Two have booked, or one has and the stand-in has looked too early: what came between is seen.
#[test]
fn arming_against_the_turns_of_stand_ins() {
    check("arming against the turns of stand-ins", || {
        let timer = driverless();
        let first = arm(timer, near(2));
        let (second, (), ()) = race_three(move || arm(timer, near(1)), ring, ring);
        settle();
        wait_until("both fire", || first.is_woken() && second.is_woken());
        assert_eq!((first.take(), second.take()), (1, 1));
        let later = arm(timer, far(1));
        let by = clock::instant_of(far(1)).into_std();
        let signal = timer.hub.signal;
        wait_until("the alarm thread rings for what is far", || {
            signal.armed() == far(1) && signal.booked().is_some_and(|at| at <= by)
        });
        assert!(!later.is_woken());
        close(timer);
    });
}

/// A timer ends while a stand-in turns for it, and the next one takes its hub.
#[test]
fn the_turn_of_a_stand_in_against_the_end_of_its_timer() {
    check("the turn of a stand-in against the end of its timer", || {
        let timer = driverless();
        let woken = arm(timer, near(1));
        let end_and_open = move || {
            close(timer);
            let next = Hub::open(WANTED);
            (next, arm(next, far(1)))
        };
        let ((next, far), ()) = race(end_and_open, ring);
        wait_until("it is fired or shut down", || woken.is_woken());
        assert_eq!((woken.take(), far.is_woken()), (1, false));
        close(next);
    });
}

#[cfg(hairspring_loom)]
mod stand_ins {
    use super::*;
    use crate::core::stand_ins::StandIns;
    use crate::util::sync::keep;

    /// What is left to an idle thread, that thread does; else whoever sends it does.
    #[test]
    fn sending_work_against_a_thread_that_goes_idle() {
        check("sending work against a thread that goes idle", || {
            let (one, other) = (Woken::new(), Woken::new());
            let stand_ins: &'static StandIns = keep!(StandIns, StandIns::new());
            let (first, second) = (one.clone(), other.clone());
            let send = move || {
                stand_ins.send_in_a_model(Box::new(move || Waker::from(first).wake()));
                stand_ins.send_in_a_model(Box::new(move || Waker::from(second).wake()));
                stand_ins.look_again();
            };
            let (all, each) = ((one.clone(), other.clone()), (one, other));
            race(send, move || stand_ins.serve_until(|| all.0.is_woken() && all.1.is_woken()));
            assert_eq!((each.0.take(), each.1.take()), (1, 1));
        });
    }
}
