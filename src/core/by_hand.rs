//! Timers whose clock a test holds: the test shows their time, and fires what is due when it moves that time.
//!
//! A registration with such a timer wakes nobody.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::task::Waker;

use tokio::runtime;

use crate::clock::held;
use crate::clock::source::{self, Course};
use crate::core::alarm::thread::BookerId;
use crate::core::hook::{ADOPT, Adopt};
use crate::core::order::Order;
use crate::core::parking::Parking;
use crate::core::registry;
use crate::core::shard::Shard;
use crate::core::shards::{Shards, TimerLease, parkings};
use crate::wheel::{Tick, Ticks, Wheel};

/// From now on `now` says what the current runtime's clock shows, and `adopt` is called for each timer on a runtime.
pub(crate) fn install_hook(now: fn() -> Option<std::time::Instant>, adopt: Adopt) {
    held::let_show(now);
    ADOPT.get_or_init(|| adopt);
    source::one_is_held();
}

/// A runtime's timer, if it has one already.
pub(crate) fn existing(runtime: runtime::Id) -> Option<TimerLease> {
    registry::live(&registry::timers(), runtime).map(|owner| owner.timer())
}

/// Wakes the drivers that may run on any runtime, to look at their clocks: all but those of the runtimes' own timers. To
/// wake these would change the order of tasks in other tests.
pub(crate) fn wake_free_drivers() {
    let own: HashSet<BookerId> = registry::timers()
        .values()
        .map(|owner| owner.timer())
        .filter(|timer| timer.serves())
        .map(|timer| timer.parking.id)
        .collect();
    let all = parkings().lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().filter(|parking| !own.contains(&parking.id)).for_each(|parking| parking.wake_driver());
}

impl Parking {
    /// Begins a timer whose time a test shows, at first `now`.
    pub(crate) fn open_shown(&self, now: Tick) {
        self.clock.begin_to_show(now);
        drop(self.begin(false, Ticks(0)));
    }

    /// From now on a test shows the time. Returns `false` if the timer has ended.
    pub(crate) fn show(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        if plan.is_open {
            self.clock.begin_to_show(now);
            self.stop(&mut plan);
        }
        plan.is_open
    }

    /// From now on the clock runs.
    pub(crate) fn run(&self, course: Course) {
        let mut plan = self.parker.lock();
        if plan.is_open {
            self.clock.run(course);
            if !plan.look_again() {
                self.call(plan, false);
            }
        }
    }
}

impl Shards {
    /// From now on timers of one instant fire in an order that comes from a seed.
    pub(crate) fn leave_order_to_chance(&self, seed: u64) {
        for (number, shard) in (0..).zip(self.all()) {
            shard.lock().order = Order::by_chance(shard.address(), seed.wrapping_add(number));
        }
    }
}

impl Shard {
    /// Reads the wheel.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Wheel<Waker>) -> T) -> T {
        read(&self.lock().wheel)
    }
}
