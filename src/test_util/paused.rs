//! The clocks of multi-thread runtimes that a test has paused: tokio can pause only that of a current-thread runtime.
//!
//! The timers of a paused runtime follow a manual clock, which advances when the runtime is idle, and `Instant::now`
//! shows its time there. After a resume they follow the system's clock again, with the difference that the two then
//! had.
//
// Invariants
// 1. A runtime's time never goes back.
// 2. A timer is given to a runtime's clock, or taken from it, only while that clock cannot change.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle, RuntimeFlavor};

use crate::clock::{
    self,
    source::{self, Course},
};
use crate::core::lease::TimerLease;
use crate::test_util::auto_advance;
use crate::test_util::held::at_end_of;
use crate::test_util::idle::Watch;
use crate::test_util::manual::ManualClock;
use crate::test_util::when_idle::Running;
use crate::wheel::Tick;

static RUNTIMES: RwLock<Vec<Known>> = RwLock::new(Vec::new());

/// A runtime whose clock was paused at least once.
struct Known {
    runtime: runtime::Id,
    time: Time,
}

enum Time {
    Paused {
        clock: ManualClock,
        auto_advance: Running,
        watch: Arc<Watch>,
    },
    /// Runs with the system's clock.
    Runs(Course),
}

impl Time {
    fn now(&self) -> Tick {
        match self {
            Time::Paused { clock, .. } => clock.tick(),
            Time::Runs(course) => course.now(),
        }
    }
}

/// Calls `code` with the time of a runtime that was paused once. It cannot change meanwhile.
fn with_time<T>(runtime: runtime::Id, code: impl FnOnce(&Time) -> T) -> Option<T> {
    let runtimes = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner);
    let paused = runtimes.iter().find(|known| known.runtime == runtime)?;
    Some(code(&paused.time))
}

/// The current runtime, unless tokio can pause its clock.
pub(crate) fn here() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

/// What the current runtime's clock shows, if it was paused once.
pub(crate) fn now() -> Option<Instant> {
    let here = Handle::try_current().ok();
    let now = here.and_then(|runtime| {
        with_time(runtime.id(), |time| {
            if let Time::Paused { watch, .. } = time {
                Watch::note_this_thread(Some(watch));
            }
            time.now()
        })
    });
    if now.is_none() {
        Watch::note_this_thread(None);
    }
    now.map(|now| clock::instant_of(now).into_std())
}

/// The clock of a runtime that is paused.
pub(crate) fn clock(runtime: &Handle) -> Option<ManualClock> {
    with_time(runtime.id(), |time| match time {
        Time::Paused { clock, .. } => Some(clock.clone()),
        Time::Runs(_) => None,
    })?
}

/// Makes a runtime's timer follow the runtime's clock, if that is paused.
pub(crate) fn adopt(runtime: runtime::Id, timer: TimerLease) {
    with_time(runtime, |time| {
        if let Time::Paused { clock, .. } = time {
            clock.adopt(timer);
        }
    });
}

/// Called for each timer that is made on a runtime.
pub(crate) fn timer_made(runtime: runtime::Id, timer: TimerLease) {
    if source::any_is_held() {
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
    let id = runtime.id();
    // Made before the lock is taken: this is slow, and others read the time meanwhile.
    let (clock, watch) = (ManualClock::new(), Watch::of(runtime));
    let auto_advance = auto_advance::start(&clock, watch.clone(), grace);
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let known = runtimes.iter().position(|known| known.runtime == id);
    let shows = match known.map(|at| &runtimes[at].time) {
        Some(Time::Paused { .. }) => {
            auto_advance.stop();
            return false;
        }
        Some(Time::Runs(course)) => course.now(),
        None => source::system_now(),
    };
    clock.start_at(shows);
    let time = Time::Paused { clock, auto_advance, watch };
    if let Some(known) = known {
        runtimes[known].time = time;
    } else {
        runtimes.push(Known { runtime: id, time });
    }
    drop(runtimes);
    if known.is_none() {
        at_end_of(runtime, move || forget(id));
    }
    source::one_is_held();
    true
}

/// Lets the clock of a runtime run again. Returns `false` if it is not paused.
pub(crate) fn resume(runtime: &Handle) -> bool {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let Some(paused) = runtimes.iter_mut().find(|known| known.runtime == runtime.id()) else { return false };
    let Time::Paused { clock, auto_advance, .. } = &paused.time else { return false };
    auto_advance.stop();
    let (now, timers) = clock.release();
    let course = Course::from(now);
    let before = std::mem::replace(&mut paused.time, Time::Runs(course));
    drop(runtimes);
    drop(before);
    for held in timers {
        held.lease().schedule.run(course);
    }
    true
}

/// A runtime has ended.
fn forget(runtime: runtime::Id) {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let gone = runtimes.iter().position(|known| known.runtime == runtime).map(|at| runtimes.swap_remove(at));
    drop(runtimes);
    // Dropped outside the lock: the clock ends the timers that are left, which wakes tasks.
    drop(gone);
}
