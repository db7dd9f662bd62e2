//! A thread's shard: of the current runtime's timer, or of another.
//!
//! Asking tokio for the current runtime clones an `Arc` that all its threads share, which takes 18 ns or more. In a
//! multi-thread runtime, a thread therefore remembers the answer for the current task, which does not change its
//! runtime. In others it asks each time: there, a task may be one of a `LocalSet`, which another runtime may drive
//! later.
//!
//! A runtime that is entered or blocked on inside a task goes unnoticed: a sleep may be registered with the timer of
//! either runtime, and waits until that is driven. The same holds for a `LocalSet` that goes from a multi-thread
//! runtime to another. The clocks may differ, too; once any clock is held, remembered answers are not used.
//
// Invariants
// 1. A timer that was closed or replaced is never remembered.
//
// It holds because each use asks whether the timer still is the default, and one that is not never is again.

use std::cell::{Cell, RefCell};

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task;

use crate::clock::source;
use crate::core::memory::TimerLease;
use crate::core::registry::{global, owner_of};
use crate::core::shard::ShardLease;
use crate::util::error::Error;
use crate::util::sync::{MODELLED, generation};

thread_local! {
    static REMEMBERED: Cell<Option<Remembered>> = const { Cell::new(None) };
    /// This thread's shards of the timers that it used last.
    static SHARDS: RefCell<Vec<ShardLease>> = const { RefCell::new(Vec::new()) };
}

/// Of how many timers a thread keeps its shard.
const KEPT: usize = 8;

#[derive(Clone, Copy)]
struct Remembered {
    lease: ShardLease,
    runtime: runtime::Id,
    /// The task in which that runtime is certainly the current one.
    task: Option<task::Id>,
    /// The process in which this is valid. A forked process may inherit the thread and the task.
    process: u32,
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
        let shard = known.unwrap_or_else(|| {
            let next = timer.next_shard();
            shards.truncate(KEPT - 1);
            shards.insert(0, next);
            next
        });
        (shard, known.is_none())
    };
    // In a model, what a thread keeps would outlive the run.
    let kept = if MODELLED { None } else { SHARDS.try_with(find).ok() };
    let Some((shard, is_new)) = kept else { return timer.next_shard() };
    if is_new {
        timer.engine().io.thread_came();
    }
    shard
}

#[inline]
fn remembered() -> Option<Remembered> {
    let known = REMEMBERED.try_with(Cell::get).unwrap_or(None)?;
    // If any clock is held, runtimes with different clocks may be nested on this thread.
    (known.lease.is_default() && known.process == generation() && !source::any_is_held()).then_some(known)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::core::settings::Settings;

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

    /// Lets each worker of a new runtime use its timer. Returns how many are known to the search for the I/O driver.
    #[cfg(target_os = "linux")]
    fn known_of_workers() -> usize {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(WORKERS).build().unwrap();
        let workers: Vec<_> = (0..WORKERS).map(|_| worker(&runtime, || shard_of_runtime().unwrap())).collect();
        for (go, shard) in &workers {
            go.send(()).unwrap();
            shard.recv().unwrap();
        }
        drop(workers);
        let timer = runtime.block_on(async { owner_of(&Handle::current()).unwrap().timer() });
        // Only the driver is left.
        while runtime.metrics().num_alive_tasks() > 1 {
            thread::yield_now();
        }
        timer.engine().io.known()
    }

    /// A bug that this crate had: only workers that had polled the timer's task were known. Beside other runtimes, whose
    /// workers have the same name, the I/O driver was found only if the one that waits for sockets was among them. In
    /// tokio 1.51, another worker may take the task that makes a worker known.
    #[cfg(target_os = "linux")]
    #[test]
    fn each_worker_that_uses_a_timer_becomes_known_to_the_search_for_the_io_driver() {
        assert!((0..1_000).any(|_| known_of_workers() == WORKERS));
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
