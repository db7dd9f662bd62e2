//! The clocks of multi-thread runtimes that a test has paused: tokio can pause only that of a current-thread runtime.
//!
//! The timers of a paused runtime follow a manual clock, which advances when the runtime is idle, and `Instant::now`
//! shows its time there. After a resume they follow the system's clock again, with the difference that the two then
//! had.
//
// Invariants
// 1. A runtime's time never goes back.
// 2. A timer is given to a runtime's clock, or taken from it, only while that clock cannot change.

use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle, RuntimeFlavor};

use crate::clock::source::{Course, any_is_held, system_now};
use crate::clock::{self, instant};
use crate::core::lease::TimerLease;
use crate::test_util::auto_advance;
use crate::test_util::idle::{Time, Watch};
use crate::test_util::manual::ManualClock;

/// The current runtime, unless tokio can pause its clock.
pub(crate) fn here() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

/// What the current runtime's clock shows, if it was paused once.
pub(crate) fn now() -> Option<Instant> {
    let watch = Watch::existing();
    let time = watch.as_deref().map(Watch::time);
    let now = match time.as_deref() {
        Some(Some(Time::Paused(clock))) => {
            Watch::note_this_thread(watch.as_deref());
            clock.tick()
        }
        Some(Some(Time::Runs(course))) => course.now(),
        _ => {
            Watch::note_this_thread(None);
            return None;
        }
    };
    Some(clock::instant_of(now).into_std())
}

/// The clock of the current runtime, if that is paused, and not tokio's.
pub(crate) fn clock_here() -> Option<ManualClock> {
    Watch::existing()?.clock()
}

/// Whether the clock of the current runtime is paused.
pub(crate) fn is_paused() -> bool {
    if here().is_some() { clock_here().is_some() } else { instant::is_paused() }
}

/// Makes a runtime's timer follow the runtime's clock, if that is paused.
pub(crate) fn adopt(runtime: runtime::Id, timer: TimerLease) {
    if let Some(watch) = Watch::find(runtime) {
        if let Some(Time::Paused(clock)) = &*watch.time() {
            clock.adopt(timer);
        }
    }
}

/// Called for each timer that is made on a runtime.
pub(crate) fn timer_made(runtime: runtime::Id, timer: TimerLease) {
    if any_is_held() {
        adopt(runtime, timer);
    }
}

/// Called for each timer whose driver runs on the current runtime, if there is one.
pub(crate) fn timer_here(timer: TimerLease) {
    if let Ok(runtime) = Handle::try_current() {
        adopt(runtime.id(), timer);
    }
}

/// Pauses the clock of a runtime, which from then on moves by itself after a `grace`. Returns `false` if it is paused
/// already. Its timers follow when their drivers next turn.
pub(crate) fn pause(runtime: &Handle, grace: Duration) -> bool {
    // Made before the lock is taken: it reads the time.
    let (clock, watch) = (ManualClock::new(), Watch::of(runtime));
    let mut time = watch.time_to_change();
    if let Some(Time::Paused(_)) = *time {
        return false;
    }
    auto_advance::start(&clock, watch.clone(), grace);
    clock.start_at(match *time {
        Some(Time::Runs(course)) => course.now(),
        _ => system_now(),
    });
    *time = Some(Time::Paused(clock));
    true
}

/// Lets the clock of the current runtime run again, unless that is for tokio to do: then it returns `false`.
pub(crate) fn resume() -> bool {
    let Some(watch) = Watch::existing() else { return false };
    let mut time = watch.time_to_change();
    let Some(Time::Paused(clock)) = &*time else {
        // No thread of ours moves it any more.
        time.take_if(|time| matches!(time, Time::Tokios { .. }));
        return false;
    };
    let (now, timers) = clock.release();
    let course = Course::from(now);
    let before = time.replace(Time::Runs(course));
    drop(time);
    drop(before);
    for held in timers {
        held.lease().schedule.run(course);
    }
    true
}
