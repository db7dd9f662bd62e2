//! Finding the timer of the runtime that a poll runs on, and a thread's shard of it.
//!
//! Asking tokio for the current runtime clones and drops an `Arc` that all its threads share: 18 ns alone, and more as
//! soon as two threads do it. So a thread remembers the answer, for as long as that is surely right:
//! - a worker thread of a multi-thread runtime belongs to it for life, so it remembers for good. A thread is known to be
//!   a worker when a task spawned through the runtime's own handle ran on it: no entering or blocking makes that happen
//!   on another;
//! - elsewhere, inside a task, for that task: a task never changes its runtime.
//!
//! Where tokio has to be asked, a thread remembers what it found for the runtime that it asked last, which saves the lock
//! on the list of all timers; and its shards of the timers that it was on last, which saves the locks on their threads.
//!
//! Invariants
//! 1. A runtime has one timer at a time. It is found by the runtime's id until its driver is dropped.
//! 2. A closed timer is never remembered as the answer.
//!
//! What this does not see: a runtime that was entered or blocked on from inside a task. A sleep polled there may go to
//! the timer of the task's runtime, or one of the task to the entered runtime's. Either fires on time, as the alarm
//! thread stands in for a runtime that nobody drives; only a paused clock would make a difference, so with the feature
//! `test-util` tokio is asked every time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task;

use super::builder::Settings;
use crate::driver::Driver;
#[cfg(feature = "test-util")]
use crate::hub::Hub;
use crate::hub::HubLease;
use crate::shard::ShardLease;
use crate::trace;

/// What a console calls the task of a timer's driver.
pub(super) const DRIVER: &str = "hairspring driver";

/// How many tasks a thread may spawn on its runtime to find out whether it is a worker of it.
const PROBES: u32 = 4;

/// Of how many timers a thread remembers its shard, so that using some in turn takes no lock on their threads.
const PLACES: usize = 4;

thread_local! {
    static REMEMBERED: Cell<Option<Remembered>> = const { Cell::new(None) };
    static FOUND: Cell<Option<Found>> = const { Cell::new(None) };
    /// The latest first.
    static PLACED: [Cell<Option<Placed>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
    static PROBES_SENT: Cell<u32> = const { Cell::new(0) };
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

/// Counts the timers that were installed in place of another: what threads remember is out of date from then on.
static INSTALLED: AtomicU64 = AtomicU64::new(0);

static TIMERS: Mutex<Vec<Listed>> = Mutex::new(Vec::new());

/// This thread's shard of a timer.
#[derive(Clone, Copy)]
struct Remembered {
    timer: HubLease,
    lease: ShardLease,
    /// The task that it is right for; `None` where it is right for the whole thread.
    task: Option<task::Id>,
    /// How many timers had been installed.
    installed: u64,
}

/// A runtime's timer, as it was looked up.
#[derive(Clone, Copy)]
struct Found {
    runtime: runtime::Id,
    timer: HubLease,
    /// How many timers had been installed.
    installed: u64,
}

/// This thread's shard of a timer, as it was looked up.
#[derive(Clone, Copy)]
struct Placed {
    timer: HubLease,
    /// Threads that run tasks have places of their own.
    in_task: bool,
    lease: ShardLease,
}

/// A runtime's timer.
#[derive(Clone, Copy)]
struct Listed {
    runtime: runtime::Id,
    timer: HubLease,
}

/// The timer of the current runtime; `None` outside of any.
pub(super) fn timer() -> Option<HubLease> {
    Some(timer_of(&Handle::try_current().ok()?))
}

/// Has a runtime's timer follow the runtime's clock, which was paused.
#[cfg(feature = "test-util")]
pub(crate) fn follow_paused(runtime: &Handle) {
    crate::paused::adopt(runtime.id(), timer_of(runtime));
}

/// The hub of the current runtime's timer, where it has one already.
#[cfg(feature = "test-util")]
pub(crate) fn existing() -> Option<&'static Hub> {
    let runtime = Handle::try_current().ok()?.id();
    live(&timers(), runtime).map(|timer| timer.hub)
}

/// This thread's shard of the current runtime's timer; `None` outside of any runtime.
#[inline]
pub(crate) fn shard() -> Option<ShardLease> {
    let task = task::try_id();
    match remembered() {
        Some(known) if known.task.is_none() || known.task == task => Some(known.lease),
        _ => ask(task),
    }
}

#[cold]
fn ask(task: Option<task::Id>) -> Option<ShardLease> {
    // Read first, so that an answer from before an installation is never taken for one from after it.
    let installed = INSTALLED.load(Ordering::SeqCst);
    let runtime = Handle::try_current().ok()?;
    let timer = find(&runtime, installed);
    let lease = shard_here(timer, task.is_some());
    if task.is_some() {
        remember(Remembered { timer, lease, task, installed });
    }
    probe(&runtime, timer, installed);
    Some(lease)
}

fn find(runtime: &Handle, installed: u64) -> HubLease {
    let id = runtime.id();
    let last = FOUND.try_with(Cell::get).ok().flatten();
    let valid = |found: &Found| found.runtime == id && found.installed == installed && !found.timer.is_over();
    if let Some(found) = last.filter(valid) {
        return found.timer;
    }
    let timer = timer_of(runtime);
    let _ = FOUND.try_with(|last| last.set(Some(Found { runtime: id, timer, installed })));
    timer
}

/// This thread's shard of a timer.
pub(super) fn shard_of(timer: HubLease) -> ShardLease {
    match remembered() {
        Some(known) if known.timer == timer => known.lease,
        _ => shard_here(timer, task::try_id().is_some()),
    }
}

/// The shard that this thread keeps to, in tasks or outside of them.
fn shard_here(timer: HubLease, in_task: bool) -> ShardLease {
    let is_it = |placed: &Placed| placed.timer == timer && placed.in_task == in_task;
    let known = PLACED.try_with(|places| places.iter().filter_map(Cell::get).find(is_it));
    if let Ok(Some(placed)) = known {
        return placed.lease;
    }
    let lease = timer.shard(if in_task { timer.hub.place_of(thread()) } else { thread() });
    // A clock that is paused meanwhile has all its timers in one shard; and the hubs of a model go when its run ends.
    if !cfg!(any(feature = "test-util", hairspring_loom)) {
        // The others move on by one, and the last is forgotten.
        let first = Some(Placed { timer, in_task, lease });
        let _ = PLACED.try_with(|places| places.iter().fold(first, |moved, place| place.replace(moved)));
    }
    lease
}

/// Whether this is inside a task of a runtime whose workers go on for a moment when it is shut down.
pub(crate) fn may_be_shutting_down() -> bool {
    let multi_thread = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    task::try_id().is_some() && Handle::try_current().is_ok_and(multi_thread)
}

#[inline]
fn remembered() -> Option<Remembered> {
    let known = REMEMBERED.try_with(Cell::get).ok().flatten()?;
    let valid = !known.timer.is_over() && known.installed == INSTALLED.load(Ordering::Relaxed);
    valid.then_some(known)
}

fn remember(known: Remembered) {
    // A test may nest runtimes with different clocks in one thread, where only asking tokio is right.
    if !cfg!(feature = "test-util") {
        let _ = REMEMBERED.try_with(|remembered| remembered.set(Some(known)));
    }
}

fn thread() -> usize {
    THREAD.try_with(|number| *number).unwrap_or(0)
}

/// Spawns a task that marks the worker thread it runs on, which is most often this one.
fn probe(runtime: &Handle, timer: HubLease, installed: u64) {
    if cfg!(feature = "test-util") || runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
        return;
    }
    let sent = PROBES_SENT.try_with(|sent| sent.replace(sent.get() + 1)).unwrap_or(PROBES);
    if sent < PROBES {
        trace::spawn(runtime, "hairspring probe", async move {
            if remembered().is_none_or(|known| known.task.is_some()) {
                let lease = timer.shard(timer.hub.place_of(thread()));
                remember(Remembered { timer, lease, task: None, installed });
            }
        });
    }
}

fn timers() -> MutexGuard<'static, Vec<Listed>> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A runtime's timer, where it has one that was not shut down.
fn live(timers: &[Listed], runtime: runtime::Id) -> Option<HubLease> {
    let mut listed = timers.iter().filter(|listed| listed.runtime == runtime && !listed.timer.is_over());
    listed.next().map(|listed| listed.timer)
}

/// Finds a runtime's timer, or makes one and spawns its driver there.
fn timer_of(runtime: &Handle) -> HubLease {
    let id = runtime.id();
    let timers = timers();
    if let Some(timer) = live(&timers, id) {
        return timer;
    }
    let (timer, driver) = Settings::of(runtime).make();
    #[cfg(feature = "test-util")]
    crate::paused::adopt(id, timer);
    list(timers, runtime, timer, driver);
    timer
}

/// Makes a timer the one that a runtime's sleeps go to.
pub(super) fn install(runtime: &Handle, timer: HubLease, driver: Driver) {
    let mut timers = timers();
    let id = runtime.id();
    timers.retain(|listed| listed.runtime != id);
    list(timers, runtime, timer, driver);
    INSTALLED.fetch_add(1, Ordering::SeqCst);
}

/// Lists a runtime's timer for as long as its driver, spawned there, lives.
fn list(mut timers: MutexGuard<'_, Vec<Listed>>, runtime: &Handle, timer: HubLease, driver: Driver) {
    let listed = Listed { runtime: runtime.id(), timer };
    timers.push(listed);
    // Unlocked first: a runtime that is shutting down drops the task at once, which asks for the list.
    drop(timers);
    let unlist = Unlist(listed);
    trace::spawn(runtime, DRIVER, async move {
        let _unlist = unlist;
        driver.await;
    });
}

/// Takes a timer off the list when its driver's task is dropped.
struct Unlist(Listed);

impl Drop for Unlist {
    fn drop(&mut self) {
        let Unlist(gone) = self;
        timers().retain(|listed| listed.runtime != gone.runtime || listed.timer != gone.timer);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::timer::Timer;

    const WORKERS: usize = 3;

    /// Has a task on each worker of a runtime arm its first timer, one after the other, and other threads in between, as
    /// threads are numbered in that order.
    fn shards_of_workers(find: impl Fn() -> ShardLease + Copy + Send + 'static) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
        let workers: Vec<_> = (0..WORKERS).map(|_| worker(&runtime, find)).collect();
        let mut shards: Vec<usize> = workers
            .iter()
            .map(|(go, shard)| {
                go.send(()).unwrap();
                for _ in 1..WORKERS {
                    std::thread::spawn(thread).join().unwrap();
                }
                shard.recv().unwrap()
            })
            .collect();
        shards.sort_unstable();
        shards.dedup();
        assert_eq!(shards.len(), WORKERS, "two workers share a shard");
    }

    /// A task that holds one worker until its channels go: says which shard it has, each time it is asked.
    fn worker(
        runtime: &runtime::Runtime,
        find: impl Fn() -> ShardLease + Send + 'static,
    ) -> (mpsc::Sender<()>, mpsc::Receiver<usize>) {
        let (go, asked) = mpsc::channel();
        let (answer, shard) = mpsc::channel();
        let (started, starts) = mpsc::channel();
        runtime.spawn(async move {
            started.send(()).unwrap();
            while asked.recv().is_ok() {
                let shards = [find(), find()].map(|lease| std::ptr::from_ref(lease.shard).addr());
                assert_eq!(shards[0], shards[1], "a worker keeps to its shard");
                answer.send(shards[0]).unwrap();
            }
        });
        starts.recv().unwrap();
        (go, shard)
    }

    /// tokio 6504, kafka 6431: one lock for all threads.
    #[test]
    fn no_two_workers_arm_timers_under_one_lock() {
        shards_of_workers(|| shard().unwrap());
    }

    /// By the numbers of their threads they would, where other threads have numbers in between.
    #[test]
    fn nor_do_they_on_a_timer_that_they_have_a_handle_on() {
        let (timer, _driver) = Timer::builder().shards(WORKERS).build_with_driver().unwrap();
        let lease = timer.lease;
        shards_of_workers(move || shard_of(lease));
    }
}
