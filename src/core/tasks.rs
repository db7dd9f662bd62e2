//! This crate's own tasks, and what tokio says of the task that runs here.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use tokio::runtime::{self, Handle, RuntimeFlavor};
use tokio::task::{self, JoinHandle};

use crate::clock::Hooks;

const DRIVER: &str = "hairspring driver";

pub(crate) trait TaskHooks {
    /// Wraps a task of this crate.
    fn own_task(_: runtime::Id, task: impl Future<Output = ()> + Send) -> impl Future<Output = ()> + Send {
        task
    }
}

#[cfg(not(feature = "test-util"))]
impl TaskHooks for Hooks {}

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

/// Whether the runtime has dropped a task instead of running it.
pub(crate) fn was_dropped(task: JoinHandle<()>) -> bool {
    let polled = pin!(task::unconstrained(task)).poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Err(error)) if error.is_cancelled())
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
