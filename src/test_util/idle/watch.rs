//! [`Watch`]: the state of a runtime on which tests control time: its clock, how far its jumping clocks are ahead, and
//! the current wants.
//
// Invariants
// 1. While a test settles, no clock that follows the runtime moves by itself.
// 2. While tokio's clock is held or moved by us, one of our blocking tasks waits on the runtime, so tokio does not move
//    the clock. The task ends with the runtime, even if the clock is still held, because the end of a runtime waits for
//    blocking tasks.
// 3. Our threads move tokio's clock only under the lock of the wants.
// 4. The time of a runtime changes only under its lock.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeMetrics};

use super::block_on::Blocking;
use super::{OwnRuntime, Workers, wait_until};
use crate::clock::source::Course;
use crate::core::registry;
use crate::test_util::held::wake_drivers_on;
use crate::test_util::manual::ManualClock;
use crate::test_util::{lock, remove};
use crate::util::waits;

static WATCHES: RwLock<Vec<Arc<Watch>>> = RwLock::new(Vec::new());

pub(crate) struct Watch {
    pub(crate) runtime: Handle,
    pub(super) metrics: RuntimeMetrics,
    pub(crate) blocking: Blocking,
    /// `Some` if a bubble runs on it.
    pub(crate) own: Mutex<Option<Arc<OwnRuntime>>>,
    /// Locked during a check.
    pub(super) workers: Mutex<Workers>,
    wants: Mutex<Wants>,
    time: RwLock<Option<Time>>,
    /// How far a test has moved the jumping clocks ahead, in nanoseconds.
    pub(crate) ahead: Mutex<[i128; 2]>,
    has_ended: AtomicBool,
}

/// The time of a runtime whose clock was ever paused.
pub(crate) enum Time {
    /// The time of our own clock, because tokio cannot pause this runtime's.
    Paused(ManualClock),
    /// It runs with the system's clock.
    Runs(Course),
    /// The time of tokio's clock, which one of our threads moves while this lives.
    Tokios { _pause: Arc<()> },
}

/// A request to a runtime by a test or by one of our threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// A test keeps tokio's paused clock still.
    Hold,
    /// One of our threads moves that clock instead of tokio.
    Move,
    /// A thread waits until the runtime is idle, with tokio's clock held: none of our alarms may make tokio wake it.
    NoAlarm,
    /// A test settles: no clock may move by itself.
    Settle,
    /// Blocking work has to end before a clock moves by itself.
    Work,
}

#[derive(Default)]
struct Wants {
    all: Vec<(Want, &'static Location<'static>)>,
    /// Ends the task that keeps tokio from moving its clock.
    task: Option<mpsc::Sender<()>>,
}

impl Wants {
    fn any(&self, want: Want) -> bool {
        self.all.iter().any(|(wanted, _)| *wanted == want)
    }
}

/// A request that is in force while this lives.
pub(crate) struct Wanted {
    pub(crate) watch: Arc<Watch>,
    want: (Want, &'static Location<'static>),
}

impl Watch {
    /// The watch over a runtime, which lasts as long as the runtime.
    pub(crate) fn of(runtime: &Handle) -> Arc<Watch> {
        let mut watches = WATCHES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = watches.iter().find(|watch| watch.runtime.id() == runtime.id()) {
            return watch.clone();
        }
        let watch = Arc::new(Watch {
            runtime: runtime.clone(),
            metrics: runtime.metrics(),
            blocking: Blocking::default(),
            own: Mutex::default(),
            workers: Mutex::default(),
            wants: Mutex::default(),
            time: RwLock::default(),
            ahead: Mutex::default(),
            has_ended: AtomicBool::new(false),
        });
        watches.push(watch.clone());
        drop(watches);
        let until_it_ends = Forget(watch.clone());
        registry::spawn(runtime, "hairspring clock", async move {
            let _until_it_ends = until_it_ends;
            std::future::pending::<()>().await;
        });
        watch
    }

    pub(crate) fn find(runtime: runtime::Id) -> Option<Arc<Watch>> {
        let watches = WATCHES.read().unwrap_or_else(PoisonError::into_inner);
        watches.iter().find(|watch| watch.runtime.id() == runtime).cloned()
    }

    pub(crate) fn existing() -> Option<Arc<Watch>> {
        Watch::find(Handle::try_current().ok()?.id())
    }

    pub(super) fn own(&self) -> Option<Arc<OwnRuntime>> {
        lock(&self.own).clone()
    }

    /// The time, if the clock was ever paused. It cannot change while this is held.
    pub(crate) fn time(&self) -> RwLockReadGuard<'_, Option<Time>> {
        self.time.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn time_to_change(&self) -> RwLockWriteGuard<'_, Option<Time>> {
        self.time.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock_here() -> Option<ManualClock> {
        Watch::existing()?.clock()
    }

    pub(crate) fn clock(&self) -> Option<ManualClock> {
        match &*self.time() {
            Some(Time::Paused(clock)) => Some(clock.clone()),
            _ => None,
        }
    }

    /// How many of the runtime's blocking tasks are ours.
    pub(super) fn own_work(&self) -> usize {
        usize::from(lock(&self.wants).task.is_some())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    pub(crate) fn any(&self, want: Want) -> bool {
        lock(&self.wants).any(want)
    }

    pub(crate) fn places(&self, want: Want) -> Vec<&'static Location<'static>> {
        lock(&self.wants).all.iter().filter(|(wanted, _)| *wanted == want).map(|(_, place)| *place).collect()
    }

    #[track_caller]
    pub(crate) fn want(self: &Arc<Self>, want: Want) -> Wanted {
        let wanted = (want, Location::caller());
        let mut wants = lock(&self.wants);
        if matches!(want, Want::Hold | Want::Move) && wants.task.is_none() && !self.has_ended() {
            Watch::assert_it_counts();
            let (sender, gone) = mpsc::channel::<()>();
            self.runtime.spawn_blocking(move || gone.recv());
            wants.task = Some(sender);
            self.wait_for_tokio();
        }
        let wakes = want == Want::NoAlarm && !wants.any(want);
        wants.all.push(wanted);
        drop(wants);
        if wakes {
            wake_drivers_on(&self.runtime);
        }
        Wanted { watch: self.clone(), want: wanted }
    }

    /// Waits until tokio, which may be about to move its clock, has noticed that the clock is held: one round of its
    /// loop.
    fn wait_for_tokio(&self) {
        let parked = || waits::while_parked(&self.metrics, 0);
        let before = parked();
        if before.is_some() {
            registry::spawn(&self.runtime, "hairspring clock", async {});
            wait_until(Duration::MAX, || parked() != before || self.has_ended());
        }
    }

    /// Calls `code` unless a test holds tokio's clock or settles, which cannot begin during the call.
    pub(crate) fn unless_held<T>(&self, code: impl FnOnce() -> T) -> Option<T> {
        let wants = lock(&self.wants);
        let is_held = wants.any(Want::Hold) || wants.any(Want::Settle);
        (!is_held).then(code)
    }

    /// Panics if the CPU has no 64-bit atomics: tokio counts nothing there.
    #[track_caller]
    #[allow(clippy::assertions_on_constants)] // Not the same on every CPU.
    pub(crate) fn assert_it_counts() {
        assert!(waits::PARKS_ARE_COUNTED, "cannot tell whether a runtime is idle: this CPU has no 64-bit atomics");
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut wants = lock(&self.watch.wants);
        remove(&mut wants.all, &self.want);
        let is_held = wants.any(Want::Hold) || wants.any(Want::Move);
        let task = if is_held { None } else { wants.task.take() };
        let wakes = self.want.0 == Want::NoAlarm && !wants.any(Want::NoAlarm);
        drop(wants);
        drop(task);
        if wakes {
            wake_drivers_on(&self.watch.runtime);
        }
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wanted").field(&self.want).finish()
    }
}

/// Ends a watch when its runtime is shut down: another runtime may get its id.
struct Forget(Arc<Watch>);

impl Drop for Forget {
    fn drop(&mut self) {
        let Forget(watch) = self;
        watch.has_ended.store(true, SeqCst);
        WATCHES.write().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, watch));
        let task = lock(&watch.wants).task.take();
        drop(task);
        // Dropped outside the lock: the clock ends its remaining timers, which wakes tasks.
        let time = watch.time_to_change().take();
        drop(time);
    }
}
