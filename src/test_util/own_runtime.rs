//! [`OwnRuntime`]: how a bubble observes the runtime it built, on every system: its own future by that future's waker,
//! and blocking work by the number of threads.
//
// Invariants
// 1. The future runs from when it is woken until it waits again, or until its bubble has stopped the clock.
// 2. A pool thread ends as soon as it has nothing to do, and work begins in spawn order. If our own work runs on the
//    only thread, all earlier work has therefore ended.

use std::collections::HashMap;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::task;

use crate::test_util::lock;
use crate::util::sync::Counter;

/// How long a thread or a worker may take to come before a check is abandoned.
pub(super) const MAX_READING: Duration = Duration::from_secs(1);

/// Marks a future that has ended, instead of the number of its last poll.
const ENDED: u64 = u64::MAX / 2;

pub(crate) struct OwnRuntime {
    waker: Waker,
    /// How often the future was woken or polled.
    begins: Counter,
    /// The same when it last began to wait.
    waits: Counter,
    pub(super) threads: OwnThreads,
}

/// The number of a runtime's threads, and where its live tasks were spawned, as tokio reports them to the builder.
#[derive(Clone)]
pub(crate) struct OwnThreads {
    live: Arc<AtomicUsize>,
    spawned: Arc<Mutex<HashMap<task::Id, &'static Location<'static>>>>,
}

impl OwnThreads {
    pub(crate) fn of(builder: &mut Builder) -> OwnThreads {
        let live = Arc::<AtomicUsize>::default();
        let (begins, ends) = (live.clone(), live.clone());
        builder.thread_keep_alive(Duration::ZERO);
        builder.on_thread_start(move || _ = begins.fetch_add(1, SeqCst));
        builder.on_thread_stop(move || _ = ends.fetch_sub(1, SeqCst));
        let spawned = Arc::<Mutex<HashMap<_, _>>>::default();
        #[cfg(tokio_unstable)]
        {
            let (begins, ends) = (spawned.clone(), spawned.clone());
            builder.on_task_spawn(move |task| _ = lock(&begins).insert(task.id(), task.spawned_at()));
            builder.on_task_terminate(move |task| _ = lock(&ends).remove(&task.id()));
        }
        OwnThreads { live, spawned }
    }

    /// Whether no blocking work runs or is queued, except this crate's `own`.
    pub(super) fn have_no_work(&self, runtime: &Handle, own: usize) -> bool {
        let live = self.live.clone();
        let workers = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => 0,
            _ => runtime.metrics().num_workers(),
        };
        let (sender, ran) = mpsc::channel();
        runtime.spawn_blocking(move || sender.send(live.load(SeqCst)));
        ran.recv_timeout(MAX_READING) == Ok(workers + own + 1)
    }
}

impl OwnRuntime {
    /// The future counts as running from the start.
    pub(crate) fn new(waker: Waker, threads: OwnThreads) -> OwnRuntime {
        OwnRuntime { waker, begins: Counter::new(1), waits: Counter::new(0), threads }
    }

    pub(crate) fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        let begins = self.begins.fetch_add(1, SeqCst) + 1;
        let polled = future.poll(&mut Context::from_waker(&Waker::from(self.clone())));
        if polled.is_pending() {
            self.waits.store(begins, SeqCst);
        }
        polled
    }

    /// The future has ended, and no clock moves any more.
    pub(crate) fn end(&self) {
        self.waits.store(ENDED, SeqCst);
    }

    /// A number that changes when the future runs; `None` while it does.
    pub(super) fn waits(&self) -> Option<u64> {
        let waits = self.waits.load(SeqCst);
        (waits == ENDED || self.begins.load(SeqCst) == waits).then_some(waits)
    }

    /// Where those of its tasks were spawned that are `meant`, if tokio says.
    pub(super) fn spawned(&self, meant: impl Fn(task::Id) -> bool) -> Vec<&'static Location<'static>> {
        lock(&self.threads.spawned).iter().filter(|(task, _)| meant(**task)).map(|(_, place)| *place).collect()
    }
}

impl Wake for OwnRuntime {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.begins.fetch_add(1, SeqCst);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::sync::oneshot;

    use super::*;

    /// A bug that this crate had: where the thread in `block_on` is not seen, the clock of a bubble with several
    /// workers moved between the wake-up of its future and the poll.
    #[test]
    fn a_future_runs_from_when_it_is_woken_until_it_waits_again() {
        let own = Arc::new(OwnRuntime::new(Waker::noop().clone(), OwnThreads::of(&mut Builder::new_current_thread())));
        assert_eq!(own.waits(), None);
        let (sender, answer) = oneshot::channel::<()>();
        let mut future = pin!(async {
            assert_eq!(own.waits(), None, "it is polled");
            answer.await.unwrap();
            std::future::pending::<()>().await;
        });
        assert!(own.poll(future.as_mut()).is_pending());
        let first = own.waits();
        assert!(first.is_some());
        sender.send(()).unwrap();
        assert_eq!(own.waits(), None, "it is woken");
        assert!(own.poll(future.as_mut()).is_pending());
        assert!(own.waits() > first);
    }

    #[test]
    fn a_future_runs_if_it_is_woken_while_it_is_polled() {
        let own = Arc::new(OwnRuntime::new(Waker::noop().clone(), OwnThreads::of(&mut Builder::new_current_thread())));
        let mut once = false;
        let mut wakes_itself = pin!(std::future::poll_fn(|cx| {
            if !std::mem::replace(&mut once, true) {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        assert!(own.poll(wakes_itself.as_mut()).is_pending());
        assert_eq!(own.waits(), None);
        assert!(own.poll(wakes_itself.as_mut()).is_pending());
        assert!(own.waits().is_some());
    }

    #[test]
    fn blocking_work_is_seen_until_it_ends() {
        for workers in [0, 1, 2] {
            let mut builder = if workers == 0 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
            let threads = OwnThreads::of(builder.worker_threads(workers.max(1)));
            let runtime = builder.build().unwrap();
            let is_free = || threads.have_no_work(runtime.handle(), 0);
            let becomes_free = || while !is_free() {};
            becomes_free();
            let (release, released) = mpsc::channel::<()>();
            let work = runtime.spawn_blocking(move || released.recv());
            assert!((0..100).all(|_| !is_free()), "{workers}");
            drop(release);
            runtime.block_on(work).unwrap().unwrap_err();
            becomes_free();
        }
    }
}
