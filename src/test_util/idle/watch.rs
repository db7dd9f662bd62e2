//! [`Watch`]: the idle detector of a runtime, shared by all that wait until that runtime is idle.
//
// Invariants
// 1. A runtime has one detector, used by one thread at a time: two would take each other's round trips for work.
// 2. While anything settles, no clock that follows the runtime moves by itself.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use tokio::runtime::{self, Handle, RuntimeFlavor};

use super::{IdleDetector, Occupied, Root, Threads, lock};
use crate::test_util::runtime_end::at_end_of;
use crate::util::sync::Counter;

static WATCHES: Mutex<Vec<(runtime::Id, Arc<Watch>)>> = Mutex::new(Vec::new());

pub(crate) struct Watch {
    flavor: RuntimeFlavor,
    threads: Threads,
    /// The future of a bubble.
    root: Mutex<Option<Arc<Root>>>,
    detector: Mutex<IdleDetector>,
    settling: AtomicUsize,
    /// Each hold on tokio's clock of the runtime has a clone.
    held: Arc<()>,
    /// What moves that clock after a grace has a clone.
    graced: Arc<()>,
    /// How often the clock was paused or resumed.
    pauses: Counter,
}

/// Keeps the clocks that follow a runtime from moving by themselves.
pub(crate) struct Settling(Arc<Watch>);

impl Watch {
    /// The watch over a runtime, which lasts as long as the runtime.
    pub(crate) fn of(runtime: &Handle) -> Arc<Watch> {
        let id = runtime.id();
        if let Some(watch) = find(id) {
            return watch;
        }
        // Made without the lock: this takes a while.
        let watch = Arc::new(Watch {
            flavor: runtime.runtime_flavor(),
            threads: Threads::default(),
            root: Mutex::default(),
            detector: Mutex::new(IdleDetector::of(runtime)),
            settling: AtomicUsize::new(0),
            held: Arc::default(),
            graced: Arc::default(),
            pauses: Counter::new(0),
        });
        let mut watches = lock(&WATCHES);
        if let Some((_, first)) = watches.iter().find(|(known, _)| *known == id) {
            return first.clone();
        }
        watches.push((id, watch.clone()));
        drop(watches);
        at_end_of(runtime, move || forget(id));
        watch
    }

    /// That over the current runtime, if there is one already.
    pub(crate) fn existing() -> Option<Arc<Watch>> {
        find(Handle::try_current().ok()?.id())
    }

    /// The clock was paused or resumed. Returns the number of that.
    pub(crate) fn next_pause(&self) -> u64 {
        self.pauses.fetch_add(1, SeqCst) + 1
    }

    /// Whether the clock was neither paused nor resumed since.
    pub(crate) fn is_pause(&self, number: u64) -> bool {
        self.pauses.load(SeqCst) == number
    }

    /// Watches the calling thread too, if it blocks on the runtime outside its workers.
    pub(crate) fn add_current_thread(&self) {
        // A worker, even the only one of a current-thread runtime, is observed by its counts.
        if self.flavor != RuntimeFlavor::CurrentThread && tokio::task::try_id().is_none() {
            self.threads.add_current();
        }
    }

    /// How often workers parked and unparked so far; `None` if one is not parked.
    pub(crate) fn steps(&self) -> Option<u64> {
        self.detector().steps()
    }

    pub(crate) fn is_idle(&self) -> bool {
        let Some(before) = self.root_waits() else { return false };
        self.detector().is_idle(&self.threads) && self.root_waits() == Some(before)
    }

    /// The future that a thread is about to block on, which has that thread's waker.
    pub(crate) fn begin_root(&self, waker: Waker) -> Arc<Root> {
        let root = Arc::new(Root::new(waker));
        *lock(&self.root) = Some(root.clone());
        root
    }

    /// That future runs no more.
    pub(crate) fn end_root(&self) {
        lock(&self.root).take();
    }

    /// A number that changes when the root runs; `None` while it does.
    fn root_waits(&self) -> Option<usize> {
        lock(&self.root).as_ref().map_or(Some(0), |root| root.waits())
    }

    /// Whether the runtime is idle and nothing settles, so that a clock may move.
    pub(crate) fn lets_time_pass(&self) -> bool {
        !self.settles() && self.is_idle() && !self.settles()
    }

    /// Whether the runtime is idle and nothing holds its clock, which is tokio's.
    pub(crate) fn lets_tokios_time_pass(&self) -> bool {
        let is_held = || self.is_held() || Arc::strong_count(&self.graced) > 1;
        !is_held() && self.detector().has_come_to_rest() && !is_held()
    }

    /// Keeps tokio from moving the paused clock of a current-thread runtime, which it does only if there is no blocking
    /// task. `None` if the system does not show blocking work.
    pub(crate) fn occupy_pool(&self) -> Option<Occupied> {
        self.detector().pool.occupy()
    }

    /// Counts as a hold on tokio's clock as long as it lives.
    pub(crate) fn held(&self) -> Arc<()> {
        self.held.clone()
    }

    /// Counts as what moves tokio's clock after a grace as long as it lives.
    pub(crate) fn graced(&self) -> Arc<()> {
        self.graced.clone()
    }

    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.held) > 1
    }

    /// The calling thread runs the tasks of a current-thread runtime.
    pub(crate) fn runs_here(&self) {
        self.detector().runs_here();
    }

    /// Looks until `code` returns, on this thread of the runtime's pool, which does not count as working meanwhile.
    pub(crate) fn look_in_pool<T>(&self, code: impl FnOnce() -> T) -> T {
        let number = self.detector().pool.begin_to_look();
        let result = code();
        self.detector().pool.end_to_look(number);
        result
    }

    /// Whether the system shows blocking work.
    pub(crate) fn sees_blocking_work(&self) -> bool {
        self.detector().pool.sees()
    }

    /// The number of a thread that did blocking work at the last look.
    pub(crate) fn blocking_thread(&self) -> Option<u32> {
        self.detector().blocking_thread()
    }

    /// What the runtime does, as far as can be seen.
    pub(crate) fn describe(&self) -> String {
        self.detector().describe(&self.threads)
    }

    /// Whether anything waits until the runtime is idle.
    pub(crate) fn settles(&self) -> bool {
        self.settling.load(SeqCst) > 0
    }

    pub(crate) fn settle(self: Arc<Self>) -> Settling {
        self.settling.fetch_add(1, SeqCst);
        Settling(self)
    }

    fn detector(&self) -> MutexGuard<'_, IdleDetector> {
        lock(&self.detector)
    }
}

impl Settling {
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.0.clone()
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.0.settling.fetch_sub(1, SeqCst);
    }
}

fn find(runtime: runtime::Id) -> Option<Arc<Watch>> {
    lock(&WATCHES).iter().find(|(id, _)| *id == runtime).map(|(_, watch)| watch.clone())
}

/// A runtime has ended.
fn forget(runtime: runtime::Id) {
    let mut watches = lock(&WATCHES);
    let gone = watches.iter().position(|(id, _)| *id == runtime).map(|at| watches.swap_remove(at));
    drop(watches);
    drop(gone);
}
