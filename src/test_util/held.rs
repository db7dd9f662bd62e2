//! Timers whose clock a test controls: they show its time, fire when it moves, and return to the system's clock.
//!
//! Registering with such a timer wakes nobody.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::task::Waker;

use tokio::runtime::{self, Handle};

use crate::clock::source::{BEGIN, Offset, RUNS, system_now};
use crate::core::alarm::thread::BookingId;
use crate::core::lease::{TimerHold, TimerLease};
use crate::core::registry;
use crate::core::shard::Shard;
use crate::core::turns::Turns;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::util::sync::{per_process, unpoisoned};
use crate::wheel::{Tick, Ticks, Wheel};

/// A timer, and the runtime on which this crate has spawned its driver.
#[derive(Clone, Copy)]
struct Opened {
    timer: TimerLease,
    runtime: Option<runtime::Id>,
}

per_process! {
    /// All timers, including those that have ended.
    fn all_timers() -> &'static Mutex<BTreeMap<BookingId, Opened>> = |_| Mutex::default();
}

pub(super) fn opens(timer: TimerLease) {
    timer.leave_nothing_to_chance();
    unpoisoned(all_timers().lock()).insert(timer.turns().id, Opened { timer, runtime: None });
}

pub(super) fn spawns_driver(runtime: runtime::Id, timer: TimerLease) {
    let mut all = unpoisoned(all_timers().lock());
    if let Some(opened) = all.get_mut(&timer.turns().id).filter(|opened| opened.timer == timer) {
        opened.runtime = Some(runtime);
    }
}

fn timers(wanted: impl Fn(&Opened) -> bool) -> Vec<TimerLease> {
    let all = unpoisoned(all_timers().lock());
    all.values().filter(|opened| wanted(opened)).map(|opened| opened.timer).collect()
}

/// The timers whose drivers this crate has spawned on a runtime.
pub(super) fn timers_on(runtime: runtime::Id) -> Vec<TimerLease> {
    timers(|opened| opened.runtime == Some(runtime))
}

/// A runtime's timer, if it already has one. Held, because the runtime may end while one of our threads uses it.
pub(super) fn existing(runtime: runtime::Id) -> Option<TimerHold> {
    registry::existing(runtime)?.timer().try_hold()
}

/// Wakes the drivers that may run on a runtime, to check their clocks. It skips the timers of other runtimes: waking
/// those would change the order of tasks in other tests.
pub(super) fn wake_drivers_on(runtime: &Handle) {
    let id = runtime.id();
    for timer in timers(|opened| opened.runtime.is_none_or(|on| on == id)) {
        let turns = timer.turns();
        if turns.parker.lock().runtime.as_ref().is_none_or(|on| on.id() == id) {
            turns.wake_driver();
        }
    }
}

impl Offset {
    pub(crate) fn from(now: Tick) -> Offset {
        let begin = *BEGIN;
        Offset(Tick(now.0.saturating_sub((system_now() - begin).0)))
    }
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

    /// From now on the clock runs. Let the driver [turn](Self::turn_again) then: this wakes nobody.
    pub(crate) fn run(&self, offset: Offset) {
        let plan = self.parker.lock();
        if !plan.is_closed() {
            self.clock.offset.store(offset.0.0, SeqCst);
            self.clock.shown.store(RUNS, SeqCst);
        }
    }

    pub(crate) fn turn_again(&self) {
        let mut plan = self.parker.lock();
        // Not if it has ended, or a test has paused the clock again.
        if !plan.is_closed() && !self.clock.is_shown() && !plan.call_after_scan() {
            self.call(plan);
        }
    }
}

impl Shard {
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Wheel<Waker>) -> T) -> T {
        read(&self.lock().wheel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::source::LAST;
    use crate::wheel::Ticks;

    #[test]
    fn an_offset_clock_never_goes_back_and_ends_where_time_does() {
        let system = system_now();
        let behind = Tick(system.0 - 1_000_000_000);
        for from in [behind, system, system + Ticks(1), Tick(u64::MAX / 2), Tick(LAST.0 - 1), LAST] {
            let offset = Offset::from(from);
            let (mut last, before) = (from, system_now());
            for _ in 0..1_000 {
                let now = offset.now();
                assert!(last <= now && now <= LAST, "{now:?} after {last:?}, from {from:?}");
                last = now;
            }
            let system = offset.system_tick(last);
            assert!(before <= system_now() && system <= system_now(), "{system:?}");
        }
    }
}
