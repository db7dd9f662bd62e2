//! The clocks of multi-thread runtimes that a test has paused: tokio can pause a current-thread runtime's only.
//!
//! Such a runtime's timers go over to a manual clock, which moves on by itself where the runtime is quiet, and
//! `Instant::now` shows its time there. When it is resumed the timers go back to the system's clock, ahead of it or
//! behind by as much as the two have come apart.
//!
//! Invariants
//! 1. A runtime's time never goes back.
//! 2. A timer is given to a runtime's clock, or taken from it, only while that clock cannot change.
//!
//! Must not know: futures.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task;

use crate::clock::{
    self,
    source::{self, Course},
};
use crate::core::by_hand;
use crate::core::shards::TimerLease;
use crate::test_util::auto_advance::{Mover, with_runtime};
use crate::test_util::idle::Threads;
use crate::test_util::manual::ManualClock;
use crate::wheel::Tick;

static RUNTIMES: RwLock<Vec<Paused>> = RwLock::new(Vec::new());

/// A runtime that was paused once.
struct Paused {
    runtime: runtime::Id,
    time: Time,
}

enum Time {
    Stands {
        clock: ManualClock,
        mover: Mover,
        threads: Arc<Threads>,
    },
    /// Moves on with the system's.
    Runs(Course),
}

impl Time {
    fn now(&self) -> Tick {
        match self {
            Time::Stands { clock, .. } => clock.tick(),
            Time::Runs(course) => course.now(),
        }
    }
}

/// Calls `code` with a runtime's time, where it was paused once; it cannot change meanwhile.
fn with_time<T>(runtime: runtime::Id, code: impl FnOnce(&Time) -> T) -> Option<T> {
    let runtimes = RUNTIMES.read().unwrap_or_else(PoisonError::into_inner);
    let paused = runtimes.iter().find(|paused| paused.runtime == runtime)?;
    Some(code(&paused.time))
}

/// The current runtime, where its clock is not tokio's to pause.
pub(crate) fn here() -> Option<Handle> {
    Handle::try_current().ok().filter(|runtime| runtime.runtime_flavor() != RuntimeFlavor::CurrentThread)
}

/// What the current runtime's clock shows, where it was paused once.
fn now() -> Option<Instant> {
    let runtime = Handle::try_current().ok()?.id();
    let now = with_time(runtime, |time| {
        if let Time::Stands { threads, .. } = time {
            // A thread that is in the runtime but in none of its tasks is one that blocks on it.
            if task::try_id().is_none() {
                threads.add_current();
            }
        }
        time.now()
    });
    now.map(|now| clock::instant_of(now).into_std())
}

/// The clock of a runtime that is paused.
pub(crate) fn clock(runtime: &Handle) -> Option<ManualClock> {
    with_time(runtime.id(), |time| match time {
        Time::Stands { clock, .. } => Some(clock.clone()),
        Time::Runs(_) => None,
    })?
}

/// Has a runtime's timer follow the runtime's clock, where that is paused.
pub(crate) fn adopt(runtime: runtime::Id, timer: TimerLease) {
    with_time(runtime, |time| {
        if let Time::Stands { clock, .. } = time {
            clock.adopt(timer);
        }
    });
}

/// Pauses the clock of a runtime; `false` where it is paused already. Its timers follow as their drivers come round.
pub(crate) fn pause(runtime: &Handle) -> bool {
    let id = runtime.id();
    // Made before the lock is taken: it takes its time, and others read the time meanwhile.
    let (clock, threads) = (ManualClock::new(), Arc::<Threads>::default());
    let mover = Mover::start(&clock, runtime, threads.clone());
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let known = runtimes.iter().position(|paused| paused.runtime == id);
    let shows = match known.map(|at| &runtimes[at].time) {
        Some(Time::Stands { .. }) => {
            mover.stop();
            return false;
        }
        Some(Time::Runs(course)) => course.now(),
        None => source::system_now(),
    };
    clock.start_at(shows);
    let time = Time::Stands { clock, mover, threads };
    if let Some(known) = known {
        runtimes[known].time = time;
    } else {
        runtimes.push(Paused { runtime: id, time });
    }
    drop(runtimes);
    if known.is_none() {
        with_runtime(runtime, move || forget(id));
    }
    by_hand::install_hook(now, adopt);
    true
}

/// Lets the clock of a runtime run again; `false` where it is not paused.
pub(crate) fn resume(runtime: &Handle) -> bool {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let Some(paused) = runtimes.iter_mut().find(|paused| paused.runtime == runtime.id()) else { return false };
    let Time::Stands { clock, mover, .. } = &paused.time else { return false };
    mover.stop();
    let (now, timers) = clock.release();
    let course = Course::from(now);
    let before = std::mem::replace(&mut paused.time, Time::Runs(course));
    drop(runtimes);
    drop(before);
    for held in timers {
        held.lease().parking.run(course);
    }
    true
}

/// A runtime has gone.
fn forget(runtime: runtime::Id) {
    let mut runtimes = RUNTIMES.write().unwrap_or_else(PoisonError::into_inner);
    let gone = runtimes.iter().position(|paused| paused.runtime == runtime).map(|at| runtimes.swap_remove(at));
    drop(runtimes);
    // Its clock ends the timers that are left, which wakes tasks.
    drop(gone);
}
