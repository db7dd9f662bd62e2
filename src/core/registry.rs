//! The timers of all runtimes: finds the current runtime's timer, and a thread's shard of it.
//!
//! Asking tokio for the current runtime clones an `Arc` that all its threads share, which takes 18 ns or more. A thread
//! therefore remembers the answer while it is certain:
//! - A worker of a multi-thread runtime remembers its shard permanently. A thread is known to be a worker once it has
//!   run a task that was spawned through the runtime's handle: no other thread runs such tasks. The driver's task is
//!   one, and each worker spawns a probe, once.
//! - Until then it remembers the answer for the current task, which never changes its runtime. A task of a `LocalSet`
//!   may, so other threads ask each time.
//!
//! Outside a runtime, the process's own timer serves. A runtime has ended if it drops a driver that was spawned just
//! now; nothing else proves it.
//!
//! A runtime that is entered or blocked on inside a task goes unnoticed: a sleep may be registered with the timer of
//! either runtime. It fires, about a second late, because helper threads turn for a runtime that nobody drives, unless
//! its alarm is `Tokio`. Only the clocks may differ; once any clock is held, remembered answers are not used.
//
// Invariants
// 1. A runtime has one timer at a time, which is found by the runtime's id until its driver is dropped.
// 2. A timer that was closed or replaced is never remembered.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task::{self, JoinHandle};

use crate::clock::{Hooks, source};
use crate::core::alarm::has_threads;
use crate::core::driver::{Driver, is_passing};
use crate::core::lease::{Owner, TimerLease};
use crate::core::settings::Settings;
use crate::core::shard::ShardLease;
use crate::util::error::Error;
use crate::util::sync::{PerProcess, generation, unpoisoned};

pub(crate) const DRIVER: &str = "hairspring driver";

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
    static THREAD: usize = NEXT_THREAD.fetch_add(1, Ordering::Relaxed);
}

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

/// The timers of all runtimes. A forked process starts with none: its parent's belong to the parent's threads.
static TIMERS: PerProcess<RwLock<Timers>> = PerProcess::new();

type Timers = HashMap<runtime::Id, Arc<Owner>>;

static GLOBAL: PerProcess<Arc<Owner>> = PerProcess::new();

#[derive(Clone, Copy)]
struct Remembered {
    lease: ShardLease,
    runtime: runtime::Id,
    right_for: RightFor,
    /// The process in which this is valid. A forked process may inherit the thread and the task.
    process: u32,
}

/// Where that runtime is certainly the current one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RightFor {
    /// Anywhere on this thread, which is one of its workers.
    Thread,
    Task(task::Id),
    Unknown,
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
        Some(Remembered { lease, right_for: RightFor::Thread, .. }) => Ok(lease),
        Some(Remembered { lease, right_for: RightFor::Task(id), .. }) if task::try_id() == Some(id) => Ok(lease),
        _ => ask(),
    }
}

#[cold]
fn ask() -> Result<ShardLease, Error> {
    let runtime = Handle::try_current().map_err(|_| Error::no_runtime())?;
    let id = runtime.id();
    let has_workers = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    let known = remembered().filter(|known| known.runtime == id);
    if let (false, Some(known)) = (has_workers, known) {
        return Ok(known.lease);
    }
    // Elsewhere the task may be one of a `LocalSet`, which another runtime may drive later.
    let is_worker = has_workers && runtime::worker_index().is_some();
    let task = task::try_id().filter(|_| is_worker).map_or(RightFor::Unknown, RightFor::Task);
    let lease = if let Some(known) = known {
        known.lease
    } else {
        let timer = owner_of(&runtime)?.timer();
        if is_worker && last_remembered().is_none_or(|last| last.runtime != id) {
            probe(&runtime, timer);
        }
        shard_here(timer)
    };
    remember(lease, id, task);
    Ok(lease)
}

pub(crate) fn shard_of(timer: TimerLease) -> ShardLease {
    match remembered() {
        Some(known) if timer.owns(known.lease) => known.lease,
        _ => shard_here(timer),
    }
}

/// This thread's shard of a timer. Workers of a runtime do not share shards if there are enough.
fn shard_here(timer: TimerLease) -> ShardLease {
    timer.shard(|| runtime::worker_index().unwrap_or_else(thread_number))
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
    if is_passing() {
        return true;
    }
    if runtime::worker_index().is_none() {
        return false;
    }
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let _ = pin!(task::yield_now()).poll(&mut Context::from_waker(&waker));
    !woken.0.load(Ordering::SeqCst)
}

#[inline]
fn remembered() -> Option<Remembered> {
    let known = last_remembered()?;
    // If any clock is held, runtimes with different clocks may be nested on this thread.
    (known.lease.is_default() && known.process == generation() && !source::any_is_held()).then_some(known)
}

/// Like `remembered`, but possibly out of date.
#[inline]
fn last_remembered() -> Option<Remembered> {
    REMEMBERED.try_with(Cell::get).unwrap_or(None)
}

fn remember(lease: ShardLease, runtime: runtime::Id, right_for: RightFor) {
    let known = Remembered { lease, runtime, right_for, process: generation() };
    let _ = REMEMBERED.try_with(|remembered| remembered.set(Some(known)));
}

fn thread_number() -> usize {
    THREAD.try_with(|number| *number).unwrap_or(0)
}

/// Makes this worker remember its shard permanently. For tasks that were spawned on the timer's runtime.
fn mark(runtime: runtime::Id, timer: TimerLease) {
    let lease = shard_here(timer);
    if lease.is_default() && remembered().is_none_or(|known| known.right_for != RightFor::Thread) {
        remember(lease, runtime, RightFor::Thread);
    }
}

/// Spawns a task, once per worker, that marks the worker it runs on, usually this one.
fn probe(runtime: &Handle, timer: TimerLease) {
    if !source::any_is_held() {
        let id = runtime.id();
        spawn(runtime, "hairspring probe", async move {
            timer.turns().io.note_worker();
            mark(id, timer);
        });
    }
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
    let has_workers = runtime.runtime_flavor() == RuntimeFlavor::MultiThread;
    spawn(runtime, DRIVER, async move {
        let _unlist = unlist;
        let mut driver = pin!(driver);
        poll_fn(|cx| {
            if has_workers {
                mark(id, timer);
            }
            driver.as_mut().poll(cx)
        })
        .await;
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
    use crate::timer::Timer;

    const WORKERS: usize = 3;

    /// Makes each worker find its shard in turn, and starts other threads in between, which are numbered in that order.
    fn shards_of_workers(find: impl Fn() -> ShardLease + Copy + Send + 'static) {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
        let workers: Vec<_> = (0..WORKERS).map(|_| worker(&runtime, find)).collect();
        let mut shards: Vec<usize> = workers
            .iter()
            .map(|(go, shard)| {
                go.send(()).unwrap();
                for _ in 1..WORKERS {
                    thread::spawn(thread_number).join().unwrap();
                }
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

    /// By the numbers of their threads they would share one, because other threads are numbered in between.
    #[test]
    fn nor_do_they_on_a_timer_to_which_they_have_a_handle() {
        let (timer, _driver) = Timer::builder().shards(WORKERS).build_with_driver().unwrap();
        let lease = timer.lease;
        shards_of_workers(move || shard_of(lease));
    }

    #[test]
    fn a_thread_that_is_no_worker_spawns_no_probes() {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (_go, _shard) = worker(&runtime, shard);
        runtime.block_on(async { (0..1_000).for_each(|_| _ = shard()) });
        assert_eq!(runtime.metrics().num_alive_tasks(), 2, "the one that blocks the worker, and the driver's");
    }

    fn on_the_worker<T: Send + 'static>(runtime: &runtime::Runtime, code: fn() -> T) -> T {
        runtime.block_on(runtime.spawn(async move { code() })).unwrap()
    }

    /// Whether the thread remembers its shard permanently. No thread does once another test has held a clock.
    fn remembers_for_good() -> bool {
        source::any_is_held() || remembered().is_some_and(|known| known.right_for == RightFor::Thread)
    }

    /// A bug that this crate had: installing a timer made the workers of all runtimes forget their shards; after the
    /// fourth they asked tokio on every use.
    #[test]
    fn a_worker_forgets_its_shard_only_when_its_own_runtime_gets_another_timer() {
        let one_worker = || runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (runtime, other) = (one_worker(), one_worker());
        let marked =
            || (0..1_000).any(|_| on_the_worker(&runtime, || shard_of_runtime().is_ok() && remembers_for_good()));
        assert!(marked());
        for _ in 0..10 {
            on_the_worker(&other, || drop(Timer::builder().install().unwrap()));
            assert!(on_the_worker(&runtime, remembers_for_good));
        }
        for _ in 0..10 {
            let installed = on_the_worker(&runtime, || Timer::builder().install().unwrap());
            assert!(marked());
            let knows = runtime.block_on(runtime.spawn(async { shard_of_runtime() })).unwrap().unwrap();
            assert!(installed.lease.all().iter().any(|shard| shard.address() == knows.address()));
        }
    }
}
