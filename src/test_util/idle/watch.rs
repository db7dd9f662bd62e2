//! [`Watch`]: the idle detector of a runtime, shared by all that wait until that runtime is idle.
//
// Invariants
// 1. A runtime has one detector, used by one thread at a time: two would take each other's round trips for work.
// 2. While anything settles, no clock that follows the runtime moves by itself.
// 3. As long as anybody holds tokio's clock, a blocking task of ours waits on the runtime: tokio moves no clock then. It
//    ends with the runtime, whoever still holds the clock, because the end of a runtime waits for blocking tasks.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle, RuntimeFlavor};

use super::{BlockingTask, IdleDetector, Root, Threads, lock};
use crate::test_util::held::at_end_of;
use crate::util::sync::Counter;

static WATCHES: Mutex<Vec<(runtime::Id, Arc<Watch>)>> = Mutex::new(Vec::new());

pub(crate) struct Watch {
    flavor: RuntimeFlavor,
    threads: Threads,
    /// The future of a bubble.
    root: Mutex<Option<Arc<Root>>>,
    detector: Mutex<IdleDetector>,
    settling: AtomicUsize,
    holds: Mutex<Holds>,
    /// How often the clock was paused or resumed, or the runtime ended.
    pauses: Counter,
    has_ended: AtomicBool,
}

/// Who holds tokio's clock of the runtime.
#[derive(Default)]
struct Holds {
    /// Where tests took hold of it.
    tests: Vec<&'static Location<'static>>,
    /// How many threads move it after a grace, in place of tokio.
    movers: usize,
    /// What keeps tokio from moving it.
    task: Option<BlockingTask>,
}

/// Keeps tokio from moving the clock of a runtime.
pub(crate) struct Held {
    watch: Arc<Watch>,
    by: Holder,
}

/// Who holds a clock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Holder {
    /// A test, since this place.
    Test(&'static Location<'static>),
    /// A thread that moves it after a grace.
    Mover,
}

impl Holds {
    fn are_none(&self) -> bool {
        self.tests.is_empty() && self.movers == 0
    }

    fn begin(&mut self, by: Holder) {
        match by {
            Holder::Test(place) => self.tests.push(place),
            Holder::Mover => self.movers += 1,
        }
    }

    fn end(&mut self, by: Holder) {
        match by {
            Holder::Test(place) => {
                let at = self.tests.iter().position(|held| *held == place);
                at.map(|at| self.tests.swap_remove(at));
            }
            Holder::Mover => self.movers -= 1,
        }
    }
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
            holds: Mutex::default(),
            pauses: Counter::new(0),
            has_ended: AtomicBool::new(false),
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

    /// The clock was paused or resumed, or the runtime has ended. Returns the number of that.
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
        let mut detector = self.detector();
        detector.went_on_at();
        let before = self.root_waits();
        before.is_some() && detector.is_idle(&self.threads) && self.root_waits() == before
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
        let is_free = || lock(&self.holds).are_none();
        is_free() && self.detector().has_come_to_rest() && is_free()
    }

    /// Keeps tokio from moving the paused clock of a current-thread runtime, until what this returns is dropped or the
    /// runtime ends.
    pub(crate) fn hold(self: Arc<Self>, by: Holder) -> Held {
        let mut holds = lock(&self.holds);
        if holds.task.is_none() && !self.has_ended() {
            holds.task = Some(self.detector().block());
        }
        holds.begin(by);
        drop(holds);
        Held { watch: self, by }
    }

    /// Where tests took hold of tokio's clock.
    pub(crate) fn holds(&self) -> Vec<&'static Location<'static>> {
        lock(&self.holds).tests.clone()
    }

    /// Whether a test holds tokio's clock.
    pub(crate) fn is_held(&self) -> bool {
        !lock(&self.holds).tests.is_empty()
    }

    /// Whether the runtime was shut down.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }

    /// The runtime is being shut down.
    fn end(&self) {
        self.has_ended.store(true, SeqCst);
        self.next_pause();
        let task = lock(&self.holds).task.take();
        drop(task);
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

    /// When a worker last went on, as far as looks have shown.
    pub(crate) fn went_on_at(&self) -> Instant {
        self.detector().went_on_at().unwrap_or_else(Instant::now)
    }

    /// Looks what the threads do that are not workers: what one does is known after a second of looks.
    pub(crate) fn look_at_threads(&self) {
        self.detector().look_at_threads(&self.threads);
    }

    /// What the runtime does, as far as looks have shown; `None` if that is nothing. A task that has not returned for
    /// `long` blocks its worker.
    pub(crate) fn describe(&self, long: Duration) -> Option<String> {
        let root_runs = self.root_waits().is_none();
        self.detector().describe(&self.threads, root_runs, long)
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

impl Drop for Held {
    fn drop(&mut self) {
        let mut holds = lock(&self.watch.holds);
        holds.end(self.by);
        let task = if holds.are_none() { holds.task.take() } else { None };
        drop(holds);
        drop(task);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("by", &self.by).finish_non_exhaustive()
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
    gone.inspect(|(_, watch)| watch.end());
}
