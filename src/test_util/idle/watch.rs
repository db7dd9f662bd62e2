//! [`Watch`]: the state of a runtime on which tests control time: its clock, how far its jumping clocks are ahead, and
//! the current claims.
//
// Invariants
// 1. While a test settles, no clock that follows the runtime moves by itself.
// 2. While tokio's clock is held or moved by us, one of our blocking tasks waits on the runtime, so tokio does not move
//    the clock. The task ends with the runtime, even if the clock is still held, because the end of a runtime waits for
//    blocking tasks.
// 3. Our threads move tokio's clock only under the lock of the claims.
// 4. The time of a runtime changes only under its lock.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc};
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeMetrics};

use super::block_on::Blocking;
use super::thread_state::Thread;
use super::{OwnRuntime, Workers, wait_until};
use crate::clock::source::Course;
use crate::core::registry;
use crate::test_util::held::wake_drivers_on;
use crate::test_util::manual::ManualClock;
use crate::test_util::{lock, remove};
use crate::util::sync::Counter;
use crate::util::waits;

static WATCHES: RwLock<Vec<Arc<Watch>>> = RwLock::new(Vec::new());

pub(crate) struct Watch {
    pub(crate) runtime: Handle,
    pub(super) metrics: RuntimeMetrics,
    pub(crate) blocking: Blocking,
    /// `Some` if a bubble runs on it.
    pub(crate) own: OnceLock<Arc<OwnRuntime>>,
    /// Locked during a check.
    pub(super) workers: Mutex<Workers>,
    claims: Mutex<Claims>,
    /// The claims of work that has just ended, and on which thread.
    ending: Mutex<Vec<(Option<Thread>, Claimed)>>,
    /// How many [`NoAlarm`]s there are.
    no_alarms: Counter,
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
}

/// Why a runtime's clock must not move by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A test holds tokio's paused clock.
    Hold,
    /// One of our threads moves that clock instead of tokio.
    Move,
    /// A test settles.
    Settle,
    /// Blocking work runs.
    Work,
}

#[derive(Default)]
struct Claims {
    all: Vec<(Claim, &'static Location<'static>)>,
    /// How many have ended.
    ended: u64,
    /// Ends the task that keeps tokio from moving its clock.
    task: Option<mpsc::Sender<()>>,
}

impl Claims {
    fn any(&self, claim: Claim) -> bool {
        self.all.iter().any(|(claimed, _)| *claimed == claim)
    }
}

/// A claim that is in force while this lives.
pub(crate) struct Claimed {
    pub(crate) watch: Arc<Watch>,
    claim: (Claim, &'static Location<'static>),
}

/// A claim of work. It ends once the thread that drops this has gone on to wait: until then, it may not yet have woken
/// whatever waits for the work.
pub(crate) struct EndsOnThread(pub(crate) Option<Claimed>);

/// While this lives, none of our alarms makes tokio wake the runtime: a thread waits until it is idle, with tokio's
/// clock held.
pub(crate) struct NoAlarm(Arc<Watch>);

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
            own: OnceLock::new(),
            workers: Mutex::default(),
            claims: Mutex::default(),
            ending: Mutex::default(),
            no_alarms: Counter::new(0),
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
        usize::from(lock(&self.claims).task.is_some())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    pub(crate) fn any(&self, claim: Claim) -> bool {
        lock(&self.claims).any(claim)
    }

    /// Whether blocking work runs that a test started here.
    pub(super) fn works(&self) -> bool {
        let runs = |thread: &Thread| thread.sleeps() == Some(false);
        lock(&self.ending).retain(|(thread, _)| thread.as_ref().is_some_and(runs));
        self.any(Claim::Work)
    }

    pub(crate) fn places(&self, claim: Claim) -> Vec<&'static Location<'static>> {
        lock(&self.claims).all.iter().filter(|(claimed, _)| *claimed == claim).map(|(_, place)| *place).collect()
    }

    #[track_caller]
    pub(crate) fn claim(self: &Arc<Self>, claim: Claim) -> Claimed {
        let claimed = (claim, Location::caller());
        let mut claims = lock(&self.claims);
        if matches!(claim, Claim::Hold | Claim::Move) && claims.task.is_none() && !self.has_ended() {
            Watch::assert_it_counts();
            let (sender, gone) = mpsc::channel::<()>();
            self.runtime.spawn_blocking(move || gone.recv());
            claims.task = Some(sender);
            self.wait_for_tokio();
        }
        claims.all.push(claimed);
        Claimed { watch: self.clone(), claim: claimed }
    }

    pub(crate) fn may_alarm(&self) -> bool {
        self.no_alarms.load(SeqCst) == 0
    }

    pub(crate) fn no_alarm(self: &Arc<Self>) -> NoAlarm {
        if self.no_alarms.fetch_add(1, SeqCst) == 0 {
            wake_drivers_on(&self.runtime);
        }
        NoAlarm(self.clone())
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

    /// Changes if a claim ends.
    pub(crate) fn ended_claims(&self) -> u64 {
        lock(&self.claims).ended
    }

    /// Calls `code` unless a test holds tokio's clock or settles, which cannot begin during the call, or has done so
    /// since so many claims had ended: what came during a hold may run by now.
    pub(crate) fn unless_held<T>(&self, ended: u64, code: impl FnOnce() -> T) -> Option<T> {
        let claims = lock(&self.claims);
        let is_held = claims.any(Claim::Hold) || claims.any(Claim::Settle) || claims.ended != ended;
        (!is_held).then(code)
    }

    /// Panics if the CPU has no 64-bit atomics: tokio counts nothing there.
    #[track_caller]
    #[allow(clippy::assertions_on_constants)] // Not the same on every CPU.
    pub(crate) fn assert_it_counts() {
        assert!(waits::PARKS_ARE_COUNTED, "cannot tell whether a runtime is idle: this CPU has no 64-bit atomics");
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let mut claims = lock(&self.watch.claims);
        remove(&mut claims.all, &self.claim);
        claims.ended += 1;
        let is_held = claims.any(Claim::Hold) || claims.any(Claim::Move);
        let task = if is_held { None } else { claims.task.take() };
        drop(claims);
        drop(task);
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claimed").field(&self.claim).finish()
    }
}

impl Drop for EndsOnThread {
    fn drop(&mut self) {
        if let Some(claimed) = self.0.take().filter(|claimed| !claimed.watch.has_ended()) {
            let watch = claimed.watch.clone();
            lock(&watch.ending).push((Thread::current(), claimed));
        }
    }
}

impl Drop for NoAlarm {
    fn drop(&mut self) {
        if self.0.no_alarms.fetch_sub(1, SeqCst) == 1 {
            wake_drivers_on(&self.0.runtime);
        }
    }
}

/// Ends a watch when its runtime is shut down: another runtime may get its id.
struct Forget(Arc<Watch>);

impl Drop for Forget {
    fn drop(&mut self) {
        let Forget(watch) = self;
        watch.has_ended.store(true, SeqCst);
        WATCHES.write().unwrap_or_else(PoisonError::into_inner).retain(|known| !Arc::ptr_eq(known, watch));
        let task = lock(&watch.claims).task.take();
        drop(task);
        lock(&watch.ending).clear();
        // Dropped outside the lock: the clock ends its remaining timers, which wakes tasks.
        let time = watch.time_to_change().take();
        drop(time);
    }
}
