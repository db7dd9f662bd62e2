//! [`Watch`]: the state of a runtime on which tests control time: its clock, and the claims on that.
//
// Invariants
// 1. While a test settles, no clock that follows the runtime moves by itself.
// 2. While tokio's clock is held or moved by us, one of our blocking tasks waits on the runtime, so tokio does not move
//    the clock. The task ends with the runtime, even if the clock is still held, because the end of a runtime waits for
//    blocking tasks.
// 3. Our threads move tokio's clock only under the lock of the claims.
// 4. The time of a runtime changes only under its lock.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak, mpsc};
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeMetrics};

use super::thread_state::{self, BlockedThread};
use super::{OwnRuntime, Workers, wait_until};
use crate::clock::source::Offset;
use crate::core::registry;
use crate::test_util::held::wake_drivers_on;
use crate::test_util::hold::{Claim, Claimed, Claims};
use crate::test_util::jumps;
use crate::test_util::lock;
use crate::test_util::manual::ManualClock;
use crate::util::sync::{Counter, unpoisoned};
use crate::util::waits;

static WATCHES: RwLock<Vec<Arc<Watch>>> = RwLock::new(Vec::new());

pub(crate) struct Watch {
    pub(crate) runtime: Handle,
    pub(super) metrics: RuntimeMetrics,
    /// The threads that block on it: see [`super::block_on`].
    pub(super) blocked: Mutex<Vec<Weak<Mutex<BlockedThread>>>>,
    /// How often one of them read the clock, which shows that it runs.
    pub(super) readings: Counter,
    /// `Some` if a bubble runs on it.
    pub(crate) own: OnceLock<Arc<OwnRuntime>>,
    /// Locked during a check.
    pub(super) workers: Mutex<Workers>,
    /// Also those on the clock in `time`.
    pub(crate) claims: Arc<Claims>,
    /// The claims of work that has just ended, and the number of the thread that it was on, if the system shows threads.
    ending: Mutex<Vec<(Option<u32>, Claimed)>>,
    time: RwLock<Option<Time>>,
    has_ended: AtomicBool,
}

/// The time of a runtime whose clock was ever paused.
pub(crate) enum Time {
    /// The time of our own clock, because tokio cannot pause this runtime's.
    Paused(ManualClock),
    /// It runs with the system's clock.
    Runs(Offset),
}

/// A claim of work. It ends once the thread that drops this has gone on to wait: until then, it may not yet have woken
/// whatever waits for the work.
pub(crate) struct EndsOnThread {
    pub(crate) watch: Arc<Watch>,
    pub(crate) work: Option<Claimed>,
}

impl Watch {
    /// The watch over a runtime, which lasts as long as the runtime.
    pub(crate) fn of(runtime: &Handle) -> Arc<Watch> {
        // Those who only look do not wait for each other.
        if let Some(watch) = Watch::find(runtime.id()) {
            return watch;
        }
        let mut watches = unpoisoned(WATCHES.write());
        if let Some(watch) = Watch::find_in(&watches, runtime.id()) {
            return watch;
        }
        let watch = Arc::new(Watch {
            runtime: runtime.clone(),
            metrics: runtime.metrics(),
            blocked: Mutex::default(),
            readings: Counter::new(0),
            own: OnceLock::new(),
            workers: Mutex::default(),
            claims: Claims::on(runtime),
            ending: Mutex::default(),
            time: RwLock::default(),
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
        Watch::find_in(&unpoisoned(WATCHES.read()), runtime)
    }

    fn find_in(watches: &[Arc<Watch>], runtime: runtime::Id) -> Option<Arc<Watch>> {
        watches.iter().find(|watch| watch.runtime.id() == runtime).cloned()
    }

    pub(crate) fn existing() -> Option<Arc<Watch>> {
        Watch::find(Handle::try_current().ok()?.id())
    }

    /// The time, if the clock was ever paused. It cannot change while this is held.
    pub(crate) fn time(&self) -> RwLockReadGuard<'_, Option<Time>> {
        unpoisoned(self.time.read())
    }

    pub(crate) fn time_to_change(&self) -> RwLockWriteGuard<'_, Option<Time>> {
        unpoisoned(self.time.write())
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
        usize::from(self.claims.lock().task.is_some())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    /// Whether blocking work runs that a test started here.
    pub(super) fn works(&self) -> bool {
        lock(&self.ending).retain(|(thread, _)| thread.is_some_and(thread_state::runs));
        self.claims.any(Claim::Work)
    }

    #[track_caller]
    pub(crate) fn claim(&self, claim: Claim) -> Claimed {
        let claimed = self.claims.claim(claim);
        if claim == Claim::NoAlarm {
            wake_drivers_on(&self.runtime);
        }
        let mut claims = self.claims.lock();
        let is_tokios = matches!(claim, Claim::Hold | Claim::Move) && self.is_one_thread();
        if is_tokios && claims.task.is_none() && !self.has_ended() {
            Watch::assert_it_counts();
            let (sender, gone) = mpsc::channel::<()>();
            self.runtime.spawn_blocking(move || gone.recv());
            claims.task = Some(sender);
            self.wait_for_tokio();
        }
        drop(claims);
        claimed
    }

    /// Waits until tokio, which may be about to move its clock, has noticed that the clock is held: one round of its
    /// loop.
    fn wait_for_tokio(&self) {
        let parked = || waits::while_parked(&self.metrics, 0);
        let before = parked();
        if before.is_some() {
            self.wake();
            wait_until(Duration::MAX, || parked() != before || self.has_ended());
        }
    }

    pub(crate) fn wake(&self) {
        registry::spawn(&self.runtime, "hairspring clock", async {});
    }

    /// Panics if the CPU has no 64-bit atomics: tokio counts nothing there.
    #[track_caller]
    #[allow(clippy::assertions_on_constants)] // Not the same on every CPU.
    pub(crate) fn assert_it_counts() {
        assert!(waits::PARKS_ARE_COUNTED, "cannot tell whether a runtime is idle: this CPU has no 64-bit atomics");
    }
}

impl Drop for EndsOnThread {
    fn drop(&mut self) {
        if let Some(work) = self.work.take().filter(|_| !self.watch.has_ended()) {
            lock(&self.watch.ending).push((waits::are_known().then(waits::current_number), work));
        }
    }
}

/// Ends a watch when its runtime is shut down: another runtime may get its id.
struct Forget(Arc<Watch>);

impl Drop for Forget {
    fn drop(&mut self) {
        let Forget(watch) = self;
        watch.has_ended.store(true, SeqCst);
        unpoisoned(WATCHES.write()).retain(|known| !Arc::ptr_eq(known, watch));
        jumps::forget(watch.runtime.id());
        let task = watch.claims.lock().task.take();
        drop(task);
        lock(&watch.ending).clear();
        // Dropped outside the lock: the clock ends its remaining timers, which wakes tasks.
        let time = watch.time_to_change().take();
        drop(time);
    }
}
