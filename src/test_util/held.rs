//! Timers whose clock a test controls: they show its time, and fire when it moves.
//!
//! Registering with such a timer wakes nobody.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::runtime::{self, Handle};

use crate::core::alarm::thread::BookingId;
use crate::core::memory::{TimerGuard, TimerLease};
use crate::core::registry;
use crate::core::tasks;
use crate::test_util::chance;
use crate::util::sync::{per_process, unpoisoned};

per_process! {
    /// All timers, including those that have ended.
    fn all_timers() -> &'static Mutex<BTreeMap<BookingId, TimerLease>> = |_| Mutex::default();
}

pub(super) fn opens(timer: TimerLease) {
    chance::leave_nothing_to_chance(timer);
    unpoisoned(all_timers().lock()).insert(timer.engine().id, timer);
}

/// A runtime's timer, if it already has one. Held, because the runtime may end while one of our threads uses it.
pub(super) fn existing(runtime: runtime::Id) -> Option<TimerGuard> {
    registry::existing(runtime)?.timer().try_guard()
}

/// The timers whose drivers run on a current-thread runtime, and that follow its clock. Held, because they may end
/// meanwhile.
pub(super) fn timers_on(runtime: &Handle) -> Vec<TimerGuard> {
    let all: Vec<_> = unpoisoned(all_timers().lock()).values().copied().collect();
    let is_there = |timer: &TimerLease| {
        let on = timer.engine().parker.lock().runtime.as_ref().map(Handle::id);
        on == Some(runtime.id()) && !timer.engine().clock.is_shown()
    };
    all.into_iter().filter(is_there).filter_map(TimerLease::try_guard).collect()
}

/// Wakes the drivers that run on a current-thread runtime, to check its clock. Waking those of other runtimes would change
/// the order of tasks in other tests.
pub(super) fn wake_drivers_on(runtime: &Handle) {
    for held in timers_on(runtime) {
        held.lease().publish_removals();
        held.lease().engine().wake_driver();
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
    tasks::spawn(runtime, "hairspring clock", async move {
        let _ends = ends;
        std::future::pending::<()>().await;
    });
}
