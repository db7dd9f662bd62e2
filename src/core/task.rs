//! The tasks that this crate spawns.

use std::future::Future;

use tokio::runtime::Handle;

/// Spawns a task. It has a name if tokio records tasks at all, which takes `--cfg tokio_unstable`.
#[track_caller]
pub(crate) fn spawn(runtime: &Handle, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    #[cfg(feature = "test-util")]
    let task = live::listed(runtime.id(), task);
    #[cfg(all(tokio_unstable, feature = "tracing"))]
    drop(tokio::task::Builder::new().name(name).spawn_on(task, runtime));
    #[cfg(not(all(tokio_unstable, feature = "tracing")))]
    {
        let _ = name;
        runtime.spawn(task);
    }
}

/// Which of them have begun and not ended, so that a test can tell them from its own.
#[cfg(feature = "test-util")]
pub(crate) mod live {
    use std::collections::HashSet;
    use std::future::Future;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use tokio::{runtime, task};

    static LIVE: LazyLock<Mutex<HashSet<Live>>> = LazyLock::new(Mutex::default);

    #[derive(PartialEq, Eq, Hash, Clone, Copy)]
    struct Live {
        runtime: runtime::Id,
        task: task::Id,
    }

    pub(super) async fn listed(runtime: runtime::Id, task: impl Future<Output = ()>) {
        struct Listed(Live);
        impl Drop for Listed {
            fn drop(&mut self) {
                lock().remove(&self.0);
            }
        }
        let live = Live { runtime, task: task::id() };
        lock().insert(live);
        let _listed = Listed(live);
        task.await;
    }

    /// Those on a runtime.
    pub(crate) fn on(runtime: runtime::Id) -> Vec<task::Id> {
        lock().iter().filter(|live| live.runtime == runtime).map(|live| live.task).collect()
    }

    fn lock() -> MutexGuard<'static, HashSet<Live>> {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
