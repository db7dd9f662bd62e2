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
//! on the list of all timers.
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
use crate::shard::Lease;

/// How many tasks a thread may spawn on its runtime to find out whether it is a worker of it.
const PROBES: u32 = 4;

/// How many threads of a runtime are told apart.
const MOST_THREADS: usize = 1024;

thread_local! {
    static REMEMBERED: Cell<Option<Remembered>> = const { Cell::new(None) };
    static FOUND: Cell<Option<Found>> = const { Cell::new(None) };
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
    lease: Lease,
    /// The task that it is right for; `None` where it is right for the whole thread.
    task: Option<task::Id>,
    /// How many timers had been installed.
    installed: u64,
}

/// This thread's shard of a runtime's timer, as it was looked up.
#[derive(Clone, Copy)]
struct Found {
    runtime: runtime::Id,
    /// Threads that run the runtime's tasks have places of their own.
    in_task: bool,
    timer: HubLease,
    lease: Lease,
    /// How many timers had been installed.
    installed: u64,
}

/// A runtime's timer. In its driver's task, takes it off the list when the task is dropped.
#[derive(Clone)]
struct Listed {
    runtime: runtime::Id,
    timer: HubLease,
    /// The threads that tasks of it have armed timers on. Each keeps to the shard of its place here, so that no two
    /// workers share one.
    threads: Vec<usize>,
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
pub(crate) fn lease() -> Option<Lease> {
    let task = task::try_id();
    match remembered() {
        Some(known) if known.task.is_none() || known.task == task => Some(known.lease),
        _ => ask(task),
    }
}

#[cold]
fn ask(task: Option<task::Id>) -> Option<Lease> {
    // Read first, so that an answer from before an installation is never taken for one from after it.
    let installed = INSTALLED.load(Ordering::SeqCst);
    let runtime = Handle::try_current().ok()?;
    let Found { timer, lease, .. } = find(&runtime, task.is_some(), installed);
    if task.is_some() {
        remember(Remembered { timer, lease, task, installed });
    }
    probe(&runtime, timer, installed);
    Some(lease)
}

fn find(runtime: &Handle, in_task: bool, installed: u64) -> Found {
    let id = runtime.id();
    let last = FOUND.try_with(Cell::get).ok().flatten();
    let valid = |found: &Found| {
        found.runtime == id && found.in_task == in_task && found.installed == installed && !found.timer.is_over()
    };
    last.filter(valid).unwrap_or_else(|| {
        let timer = timer_of(runtime);
        let lease = timer.shard(if in_task { place(id, timer) } else { thread() });
        let found = Found { runtime: id, in_task, timer, lease, installed };
        // A clock that is paused meanwhile has all its timers in one shard.
        if !cfg!(feature = "test-util") {
            let _ = FOUND.try_with(|last| last.set(Some(found)));
        }
        found
    })
}

/// This thread's shard of a timer.
pub(super) fn lease_of(timer: HubLease) -> Lease {
    match remembered() {
        Some(known) if known.timer == timer => known.lease,
        _ => timer.shard(thread()),
    }
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
        let id = runtime.id();
        runtime.spawn(async move {
            if remembered().is_none_or(|known| known.task.is_some()) {
                let lease = timer.shard(place(id, timer));
                remember(Remembered { timer, lease, task: None, installed });
            }
        });
    }
}

fn timers() -> MutexGuard<'static, Vec<Listed>> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This thread's place among those that tasks of a runtime run on.
fn place(runtime: runtime::Id, timer: HubLease) -> usize {
    let (mut timers, thread) = (timers(), thread());
    let listed = timers.iter_mut().find(|listed| listed.runtime == runtime && listed.timer == timer);
    let Some(Listed { threads, .. }) = listed else { return thread };
    let known = threads.iter().position(|&known| known == thread);
    known.unwrap_or_else(|| {
        // More than workers there are only where threads come and go.
        if threads.len() < MOST_THREADS {
            threads.push(thread);
        }
        threads.len() - 1
    })
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
    let listed = Listed { runtime: runtime.id(), timer, threads: Vec::new() };
    timers.push(listed.clone());
    // Unlocked first: a runtime that is shutting down drops the task at once, which asks for the list.
    drop(timers);
    let unlist = Unlist(listed);
    runtime.spawn(async move {
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
    use std::sync::{Arc, Barrier};

    use super::*;

    /// tokio 6504, kafka 6431: one lock for all threads.
    #[test]
    fn no_two_workers_arm_timers_under_one_lock() {
        const WORKERS: usize = 3;
        let runtime = runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
        // One task on each worker at a time.
        let meet = Arc::new(Barrier::new(WORKERS));
        let tasks = (0..WORKERS).map(|_| {
            let meet = meet.clone();
            runtime.spawn(async move {
                meet.wait();
                let shards = [lease(), lease()].map(|lease| std::ptr::from_ref(lease.unwrap().shard).addr());
                assert_eq!(shards[0], shards[1], "a worker keeps to its shard");
                meet.wait();
                shards[0]
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut shards: Vec<_> = tasks.into_iter().map(|task| runtime.block_on(task).unwrap()).collect();
        shards.sort_unstable();
        shards.dedup();
        assert_eq!(shards.len(), WORKERS);
    }
}
