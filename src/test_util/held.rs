//! Timers whose clock a test controls: they show its time, and fire when it moves.
//!
//! Registering with such a timer wakes nobody.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::Waker;

use tokio::runtime::{self, Handle};

use crate::core::alarm::thread::BookingId;
use crate::core::lease::{TimerHold, TimerLease};
use crate::core::registry;
use crate::core::shard::Shard;
use crate::core::turns::Turns;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::util::sync::{per_process, unpoisoned};
use crate::wheel::{Tick, Ticks, Wheel};

per_process! {
    /// All timers, including those that have ended.
    fn all_timers() -> &'static Mutex<BTreeMap<BookingId, TimerLease>> = |_| Mutex::default();
}

pub(super) fn opens(timer: TimerLease) {
    timer.leave_nothing_to_chance();
    unpoisoned(all_timers().lock()).insert(timer.turns().id, timer);
}

/// A runtime's timer, if it already has one. Held, because the runtime may end while one of our threads uses it.
pub(super) fn existing(runtime: runtime::Id) -> Option<TimerHold> {
    registry::existing(runtime)?.timer().try_hold()
}

/// Wakes the drivers that run on a current-thread runtime, to check its clock. Waking those of other runtimes would change
/// the order of tasks in other tests.
pub(super) fn wake_drivers_on(runtime: &Handle) {
    let timers: Vec<_> = unpoisoned(all_timers().lock()).values().copied().collect();
    for timer in timers {
        if timer.turns().parker.lock().runtime.as_ref().is_some_and(|on| on.id() == runtime.id()) {
            timer.publish_removals();
            timer.turns().wake_driver();
        }
    }
}

/// Calls `code` when a runtime is shut down.
pub(super) fn when_it_ends(runtime: &Handle, code: impl Fn() + Send + 'static) {
    struct Ends<F: Fn()>(F);
    impl<F: Fn()> Drop for Ends<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let ends = Ends(code);
    registry::spawn(runtime, "hairspring clock", async move {
        let _ends = ends;
        std::future::pending::<()>().await;
    });
}

impl Turns {
    /// Opens a timer whose time a test controls, starting at `now`.
    pub(crate) fn open_shown(&self, now: Tick) {
        self.clock.shown.store(now.0, SeqCst);
        drop(self.begin(false, Ticks(0)));
        self.reach(now);
    }

    /// From now on a test controls the time. Returns `false` if the timer has ended.
    pub(crate) fn show(&self, now: Tick) -> bool {
        let mut plan = self.parker.lock();
        if !plan.is_closed() {
            self.clock.shown.store(now.0, SeqCst);
            self.stop(&mut plan);
            self.reach(now);
        }
        !plan.is_closed()
    }
}

impl Shard {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Wheel<Waker>) -> T) -> T {
        read(&self.lock().wheel)
    }
}
