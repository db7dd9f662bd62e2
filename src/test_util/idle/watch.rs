//! [`Watch`]: the idle detector of a runtime, shared by all that wait until that runtime is idle, and who holds its clock
//! meanwhile.
//
// Invariants
// 1. A runtime has one detector, used by one thread at a time: two would take each other's round trips for work.
// 2. While anything settles, no clock that follows the runtime moves by itself.
// 3. As long as anybody holds tokio's clock, a blocking task of ours waits on the runtime: tokio moves no clock then. It
//    ends with the runtime, whoever still holds the clock, because the end of a runtime waits for blocking tasks.
// 4. A clock of tokio's that one of our threads moves, it moves under the lock of the holds.

use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeFlavor};

use super::block_on::{Blocking, this_thread_is_in};
use super::{IdleDetector, LONGEST_LOOK, OwnRuntime, Steps, lock, wait_until};
use crate::core::registry;
use crate::test_util::held::{at_end_of, wake_drivers_on};
use crate::util::sync::Counter;

static WATCHES: Mutex<Vec<(runtime::Id, Arc<Watch>)>> = Mutex::new(Vec::new());

pub(crate) struct Watch {
    runtime: Handle,
    blocking: Arc<Blocking>,
    /// If a bubble runs on it.
    own: Mutex<Option<Arc<OwnRuntime>>>,
    detector: Mutex<IdleDetector>,
    settling: AtomicUsize,
    /// How many threads wait until it is idle, and need tokio not to wake it meanwhile for alarms of ours.
    still: AtomicUsize,
    holds: Mutex<Holds>,
    /// Where blocking work was begun that has not ended, as far as it lets itself be seen.
    work: Mutex<Vec<&'static Location<'static>>>,
    /// How often the clock was paused or resumed, or the runtime ended.
    pauses: Counter,
    has_ended: AtomicBool,
}

/// Who holds tokio's clock of the runtime.
#[derive(Default)]
struct Holds {
    /// Where tests took hold of it.
    tests: Vec<&'static Location<'static>>,
    /// How many of our threads move it, in place of tokio.
    movers: usize,
    /// Ends what keeps tokio from moving it.
    task: Option<mpsc::Sender<()>>,
}

/// Keeps tokio from moving the clock of a runtime.
pub(crate) struct Held {
    watch: Arc<Watch>,
    /// Where a test took hold of it; `None` for a thread of ours that moves it.
    by: Option<&'static Location<'static>>,
}

/// Keeps the clocks that follow a runtime from moving by themselves.
pub(crate) struct Settling(Arc<Watch>);

/// Blocking work on a runtime.
pub(crate) struct Work(Arc<Watch>, &'static Location<'static>);

/// Keeps alarms of ours from waking a runtime whose clock tokio has paused.
pub(crate) struct Still(Arc<Watch>);

impl Watch {
    /// The watch over a runtime, which lasts as long as the runtime.
    pub(crate) fn of(runtime: &Handle) -> Arc<Watch> {
        let id = runtime.id();
        if let Some(watch) = find(id) {
            return watch;
        }
        // Made without the lock: this takes a while.
        let watch = Arc::new(Watch {
            runtime: runtime.clone(),
            blocking: Arc::default(),
            own: Mutex::default(),
            detector: Mutex::new(IdleDetector::of(runtime)),
            settling: AtomicUsize::new(0),
            still: AtomicUsize::new(0),
            holds: Mutex::default(),
            work: Mutex::default(),
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

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The clock was paused or resumed, or the runtime has ended. Returns the number of that.
    pub(crate) fn next_pause(&self) -> u64 {
        self.pauses.fetch_add(1, SeqCst) + 1
    }

    /// Whether the clock was neither paused nor resumed since.
    pub(crate) fn is_pause(&self, number: u64) -> bool {
        self.pauses.load(SeqCst) == number
    }

    /// Notes on which runtime the calling thread blocks, if on any. `here` watches the current one.
    pub(crate) fn note_this_thread(here: Option<&Watch>) {
        if tokio::task::try_id().is_none() {
            // A worker, even the only one of a current-thread runtime, is observed by its counts, and the thread of a
            // bubble by its future.
            let observed =
                |here: &&Watch| here.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread || here.own().is_some();
            this_thread_is_in(here.filter(|here| !observed(here)).map(|here| (&here.blocking, &here.runtime)));
        }
    }

    /// What the counts of the workers say.
    pub(crate) fn steps(&self) -> Steps {
        self.detector().steps()
    }

    /// Whether a thread that blocks on the runtime is seen to run.
    pub(crate) fn any_blocking_runs(&self) -> bool {
        self.blocking.any_runs()
    }

    /// For how long nothing may run until nothing runs, as far as can be seen.
    pub(crate) fn grace(&self) -> Duration {
        self.blocking.grace()
    }

    pub(crate) fn is_idle(&self) -> bool {
        let own = self.own();
        let waits = || own.as_ref().map_or(Some(0), |own| own.waits());
        let before = waits();
        let threads = own.as_ref().and_then(|own| own.threads());
        let is_idle = || self.detector().is_idle(&self.blocking, threads, self.own_work());
        // The work first: if it has ended, it has woken what waited for it.
        before.is_some() && !self.works() && is_idle() && waits() == before && !self.works()
    }

    fn works(&self) -> bool {
        !lock(&self.work).is_empty()
    }

    /// Blocking work is begun at `place`.
    pub(crate) fn begin_work(self: Arc<Self>, place: &'static Location<'static>) -> Work {
        lock(&self.work).push(place);
        Work(self, place)
    }

    /// How much blocking work of the runtime is ours.
    fn own_work(&self) -> usize {
        usize::from(lock(&self.holds).task.is_some())
    }

    /// A bubble begins, or ends, on this runtime.
    pub(crate) fn set_own(&self, own: Option<Arc<OwnRuntime>>) {
        *lock(&self.own) = own;
    }

    fn own(&self) -> Option<Arc<OwnRuntime>> {
        lock(&self.own).clone()
    }

    /// Keeps tokio from moving the paused clock of a current-thread runtime, until what this returns is dropped or the
    /// runtime ends. `by` is where a test took hold of it, or `None` for a thread of ours that moves it.
    pub(crate) fn hold(self: Arc<Self>, by: Option<&'static Location<'static>>) -> Held {
        let mut holds = lock(&self.holds);
        if holds.task.is_none() && !self.has_ended() {
            let (sender, gone) = mpsc::channel::<()>();
            self.runtime.spawn_blocking(move || gone.recv());
            holds.task = Some(sender);
            self.wait_for_tokio();
        }
        match by {
            Some(place) => holds.tests.push(place),
            None => holds.movers += 1,
        }
        drop(holds);
        Held { watch: self, by }
    }

    /// Waits until tokio, which may be about to move its clock, has noticed that something holds it. That takes a round of
    /// its thread if this is another.
    fn wait_for_tokio(&self) {
        let before = self.steps();
        if before.all_rest() {
            registry::spawn(&self.runtime, "hairspring clock", async {});
            wait_until(LONGEST_LOOK, || self.steps() != before);
        }
    }

    /// Calls `code` unless anything but the thread that asks holds tokio's clock. Nobody takes hold of it meanwhile.
    pub(crate) fn unless_held<T>(&self, code: impl FnOnce() -> T) -> Option<T> {
        let holds = lock(&self.holds);
        (holds.tests.is_empty() && !self.settles()).then(code)
    }

    /// Where tests took hold of tokio's clock.
    pub(crate) fn holds(&self) -> Vec<&'static Location<'static>> {
        lock(&self.holds).tests.clone()
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

    /// What the runtime does, as far as can be seen; `None` if that is nothing.
    pub(crate) fn describe(&self) -> Option<String> {
        let own = self.own();
        let runs = own.as_ref().is_some_and(|own| own.waits().is_none());
        let described = self.detector().describe(&self.blocking);
        described.or_else(|| runs.then(|| "the bubble's future runs".into())).or_else(|| {
            let work = lock(&self.work).first().map(|place| format!("blocking work runs that was begun at {place}"));
            let threads = own.as_ref().and_then(|own| own.threads());
            let unknown = || threads.is_some_and(|threads| !threads.have_no_work(&self.runtime, self.own_work()));
            work.or_else(|| unknown().then(|| "blocking work runs".into()))
        })
    }

    /// Whether anything waits until the runtime is idle.
    pub(crate) fn settles(&self) -> bool {
        self.settling.load(SeqCst) > 0
    }

    pub(crate) fn settle(self: Arc<Self>) -> Settling {
        self.settling.fetch_add(1, SeqCst);
        Settling(self)
    }

    /// Whether a driver whose clock tokio has paused is to set no alarm.
    pub(crate) fn is_still(&self) -> bool {
        self.still.load(SeqCst) > 0
    }

    pub(crate) fn keep_still(self: Arc<Self>) -> Still {
        if self.still.fetch_add(1, SeqCst) == 0 {
            wake_drivers_on(&self.runtime);
        }
        Still(self)
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

impl Drop for Work {
    fn drop(&mut self) {
        remove(&mut lock(&self.0.work), self.1);
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        if self.0.still.fetch_sub(1, SeqCst) == 1 {
            wake_drivers_on(&self.0.runtime);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut holds = lock(&self.watch.holds);
        match self.by {
            Some(place) => remove(&mut holds.tests, place),
            None => holds.movers -= 1,
        }
        let task = if holds.tests.is_empty() && holds.movers == 0 { holds.task.take() } else { None };
        drop(holds);
        drop(task);
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("by", &self.by).finish_non_exhaustive()
    }
}

/// Removes one of those that were begun at a place.
pub(crate) fn remove(places: &mut Vec<&'static Location<'static>>, place: &'static Location<'static>) {
    let at = places.iter().position(|begun| *begun == place);
    at.map(|at| places.swap_remove(at));
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
