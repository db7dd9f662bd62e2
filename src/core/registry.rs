//! The timers of all runtimes: finds the current runtime's timer, and a thread's shard of it.
//!
//! Asking tokio for the current runtime clones an `Arc` that all its threads share, which takes 18 ns or more. In a
//! multi-thread runtime, a thread therefore remembers the answer for the current task, which does not change its
//! runtime. In others it asks each time: there, a task may be one of a `LocalSet`, which another runtime may drive
//! later.
//!
//! Outside a runtime, the process's own timer serves. A runtime has ended if it drops a driver that was spawned just
//! now; nothing else proves it.
//!
//! A runtime that is entered or blocked on inside a task goes unnoticed: a sleep may be registered with the timer of
//! either runtime, and waits until that is driven. The same holds for a `LocalSet` that goes from a multi-thread
//! runtime to another. The clocks may differ, too; once any clock is held, remembered answers are not used.
//
// Invariants
// 1. A runtime has one timer at a time, which is found by the runtime's id until its driver is dropped.
// 2. A timer that was closed or replaced is never remembered.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task::{self, JoinHandle};

use crate::clock::{Hooks, source};
use crate::core::alarm::has_threads;
use crate::core::driver::Driver;
use crate::core::memory::{Owner, TimerLease};
use crate::core::settings::Settings;
use crate::core::shard::ShardLease;
use crate::util::error::Error;
use crate::util::sync::{MODELLED, PerProcess, generation, unpoisoned};

const DRIVER: &str = "hairspring driver";

pub(crate) trait TaskHooks {
    /// Wraps a task of this crate.
    fn own_task(_: runtime::Id, task: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send {
        task
    }
}

#[cfg(not(feature = "test-util"))]
impl TaskHooks for Hooks {}

thread_local! {
    static REMEMBERED: Cell<Option<Remembered>> = const { Cell::new(None) };
    /// This thread's shards of the timers that it used last.
    static SHARDS: RefCell<Vec<ShardLease>> = const { RefCell::new(Vec::new()) };
}

/// Of how many timers a thread keeps its shard.
const KEPT: usize = 8;

/// The timers of all runtimes. A forked process starts with none: its parent's belong to the parent's threads.
static TIMERS: PerProcess<RwLock<Timers>> = PerProcess::new();

type Timers = HashMap<runtime::Id, Arc<Owner>>;

static GLOBAL: PerProcess<Arc<Owner>> = PerProcess::new();

#[derive(Clone, Copy)]
struct Remembered {
    lease: ShardLease,
    runtime: runtime::Id,
    /// Where that runtime is certainly the current one.
    task: Option<task::Id>,
    /// The process in which this is valid. A forked process may inherit the thread and the task.
    process: u32,
}

/// The current runtime's timer. Fails outside a runtime, and in one that has ended.
pub(crate) fn owner() -> Result<Arc<Owner>, Error> {
    owner_of(&Handle::try_current().map_err(|_| Error::no_runtime())?)
}

/// The process's own timer, for use outside any runtime.
/// Panics if this is the first timer of the process and no thread can be started.
pub(crate) fn global() -> &'static Arc<Owner> {
    assert!(has_threads(), "this platform has no threads: timers need a tokio runtime");
    GLOBAL.get(|_| {
        let shards = thread::available_parallelism().map_or(1, usize::from);
        Owner::new(TimerLease::open(true, &Settings::with_shards(shards)), true)
    })
}

/// The shard for this thread's sleeps if any clock is held.
// Not inlined into programs: its atomic load would keep the compiler from constructing the future of a timeout in
// place, which would then be moved twice.
#[inline(never)]
pub(crate) fn shard_if_held() -> Option<ShardLease> {
    if source::any_is_held() { Some(shard()) } else { None }
}

/// The shard for this thread's sleeps: of the current runtime's timer, or without one, of the process's own.
#[cold]
fn shard() -> ShardLease {
    shard_of_runtime().unwrap_or_else(|_| global_shard())
}

pub(crate) fn global_shard() -> ShardLease {
    shard_of(global().timer())
}

/// This thread's shard of the current runtime's timer. Fails outside a runtime, and in one that has ended.
#[inline]
pub(crate) fn shard_of_runtime() -> Result<ShardLease, Error> {
    match remembered() {
        Some(Remembered { lease, task: Some(id), .. }) if task::try_id() == Some(id) => Ok(lease),
        _ => ask(),
    }
}

#[cold]
fn ask() -> Result<ShardLease, Error> {
    let runtime = Handle::try_current().map_err(|_| Error::no_runtime())?;
    let id = runtime.id();
    let has_workers = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    let known = remembered().filter(|known| known.runtime == id);
    let lease = match known {
        Some(known) if !has_workers => return Ok(known.lease),
        Some(known) => known.lease,
        None => shard_here(owner_of(&runtime)?.timer()),
    };
    let known = Remembered { lease, runtime: id, task: task::try_id().filter(|_| has_workers), process: generation() };
    let _ = REMEMBERED.try_with(|remembered| remembered.set(Some(known)));
    Ok(lease)
}

pub(crate) fn shard_of(timer: TimerLease) -> ShardLease {
    match remembered() {
        Some(known) if timer.owns(known.lease) => known.lease,
        _ => shard_here(timer),
    }
}

/// This thread's shard of a timer: the timer's threads get them in turn.
fn shard_here(timer: TimerLease) -> ShardLease {
    let find = |shards: &RefCell<Vec<ShardLease>>| {
        let mut shards = shards.borrow_mut();
        let known = shards.iter().copied().find(|&shard| timer.owns(shard));
        known.unwrap_or_else(|| {
            let next = timer.next_shard();
            shards.truncate(KEPT - 1);
            shards.insert(0, next);
            next
        })
    };
    // In a model, what a thread keeps would outlive the run.
    let kept = if MODELLED { None } else { SHARDS.try_with(find).ok() };
    kept.unwrap_or_else(|| timer.next_shard())
}

/// Whether this thread is a worker that runs a task, rather than one that blocks in it. Only a worker wakes a task that
/// yields later, between two tasks.
pub(crate) fn runs_tasks() -> bool {
    struct Woken(AtomicBool);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(&waker));
    !woken.0.load(Ordering::SeqCst)
}

#[inline]
fn remembered() -> Option<Remembered> {
    let known = REMEMBERED.try_with(Cell::get).unwrap_or(None)?;
    // If any clock is held, runtimes with different clocks may be nested on this thread.
    (known.lease.is_default() && known.process == generation() && !source::any_is_held()).then_some(known)
}

/// The timer of a runtime that already has one. Threads that ask do not wait for each other.
pub(crate) fn existing(runtime: runtime::Id) -> Option<Arc<Owner>> {
    let timers = unpoisoned(timers().read());
    live(&timers, runtime)
}

fn timers() -> &'static RwLock<Timers> {
    TIMERS.get(|_| RwLock::default())
}

fn timers_to_change() -> RwLockWriteGuard<'static, Timers> {
    unpoisoned(timers().write())
}

fn live(timers: &Timers, runtime: runtime::Id) -> Option<Arc<Owner>> {
    timers.get(&runtime).filter(|owner| owner.timer().serves()).cloned()
}

/// Spawns one of this crate's tasks. Task names need `--cfg tokio_unstable`.
#[track_caller]
pub(crate) fn spawn(
    runtime: &Handle,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let task = Hooks::own_task(runtime.id(), task);
    #[cfg(all(tokio_unstable, feature = "tracing"))]
    return task::Builder::new().name(name).spawn_on(task, runtime).expect("only threads are refused");
    #[cfg(not(all(tokio_unstable, feature = "tracing")))]
    {
        let _ = name;
        runtime.spawn(task)
    }
}

/// Spawns a driver, so that an idle worker may take it. tokio keeps a task that a worker spawns for that worker, which
/// may compute: another thread spawns it then.
pub(crate) fn spawn_driver(runtime: &Handle, driver: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    // `block_on` has no task, and is no worker.
    let is_workers = runtime.runtime_flavor() == RuntimeFlavor::MultiThread && task::try_id().is_some();
    let mut driver = Some(driver);
    let spawned = is_workers.then(|| {
        let mut spawns = || driver.take().map(|driver| spawn(runtime, DRIVER, driver));
        thread::scope(|scope| thread::Builder::new().spawn_scoped(scope, &mut spawns).ok()?.join().ok()?)
    });
    spawned.flatten().unwrap_or_else(|| spawn(runtime, DRIVER, driver.take().expect("no thread took it")))
}

/// Finds a runtime's timer, or creates one and spawns its driver there. Another thread may end the timer at any moment.
/// Fails if the runtime has ended.
fn owner_of(runtime: &Handle) -> Result<Arc<Owner>, Error> {
    let id = runtime.id();
    loop {
        if let Some(owner) = existing(id) {
            return Ok(owner);
        }
        let timers = timers_to_change();
        if let Some(owner) = live(&timers, id) {
            return Ok(owner);
        }
        let settings = Settings::of(runtime);
        let timer = TimerLease::open(false, &settings);
        let driver = Driver::new(timer, settings.alarm);
        let owner = Owner::new(timer, true);
        let driver = list(timers, runtime, owner.clone(), driver);
        if timer.serves() {
            return Ok(owner);
        }
        if was_dropped(driver) {
            return Err(Error::runtime_ended());
        }
    }
}

/// Whether the runtime has dropped a task instead of running it.
pub(crate) fn was_dropped(task: JoinHandle<()>) -> bool {
    let polled = pin!(task::unconstrained(task)).poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled())
}

pub(crate) fn install(runtime: &Handle, timer: Arc<Owner>, driver: Driver) -> JoinHandle<()> {
    list(timers_to_change(), runtime, timer, driver)
}

/// Spawns the driver, and lists its timer as the runtime's while the driver lives. The previous timer ends once nothing
/// waits on it.
fn list(
    mut timers: RwLockWriteGuard<'_, Timers>,
    runtime: &Handle,
    owner: Arc<Owner>,
    driver: Driver,
) -> JoinHandle<()> {
    let timer = owner.timer();
    let id = runtime.id();
    let unlist = Unlist(id, timer);
    let replaced = timers.insert(id, owner);
    if let Some(replaced) = &replaced {
        replaced.timer().replace();
    }
    // Unlock first: a runtime that is shutting down drops the task immediately, which locks the list, and dropping the
    // last owner of a timer ends it, which wakes tasks.
    drop(timers);
    drop(replaced);
    let driver = driver.in_a_task_of(runtime);
    spawn_driver(runtime, async move {
        let _unlist = unlist;
        driver.await;
    })
}

struct Unlist(runtime::Id, TimerLease);

impl Drop for Unlist {
    fn drop(&mut self) {
        let Unlist(runtime, gone) = self;
        let mut timers = timers_to_change();
        if timers.get(runtime).is_some_and(|owner| owner.timer() == *gone) {
            let owner = timers.remove(runtime);
            drop(timers);
            drop(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const WORKERS: usize = 3;

    /// Makes each worker find its shard in turn.
    fn shards_of_workers(find: impl Fn() -> ShardLease + Copy + Send + 'static) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
        let workers: Vec<_> = (0..WORKERS).map(|_| worker(&runtime, find)).collect();
        let mut shards: Vec<usize> = workers
            .iter()
            .map(|(go, shard)| {
                go.send(()).unwrap();
                shard.recv().unwrap()
            })
            .collect();
        shards.sort_unstable();
        shards.dedup();
        assert_eq!(shards.len(), WORKERS, "two workers share a shard");
    }

    /// A task that blocks one worker until its channels are dropped, and sends the worker's shard on request.
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
                let shards = [find(), find()].map(ShardLease::address);
                assert_eq!(shards[0], shards[1], "a worker keeps to its shard");
                answer.send(shards[0]).unwrap();
            }
        });
        starts.recv().unwrap();
        (go, shard)
    }

    /// tokio 6504, kafka 6431: one lock for all threads.
    #[test]
    fn no_two_workers_register_under_one_lock() {
        shards_of_workers(shard);
    }

    #[test]
    fn nor_do_they_on_a_timer_to_which_they_have_a_handle() {
        let timer = TimerLease::open(false, &Settings::with_shards(WORKERS));
        shards_of_workers(move || shard_of(timer));
    }

    /// A bug that this crate had: after the fourth timer, workers asked tokio for their shard on every use.
    #[test]
    fn a_thread_keeps_its_shard_of_each_timer_that_it_uses() {
        let timers: Vec<_> = (0..KEPT).map(|_| TimerLease::open(false, &Settings::with_shards(7))).collect();
        let shards = || timers.iter().map(|&timer| shard_of(timer).address()).collect::<Vec<_>>();
        let before = shards();
        assert_eq!(before, shards());
        let elsewhere = thread::scope(|scope| scope.spawn(shards).join().unwrap());
        assert!(before.iter().zip(&elsewhere).all(|(one, other)| one != other));
    }
}
