//! The tasks that this crate spawns.

use std::future::Future;

use tokio::runtime::Handle;

use crate::seam;

/// Spawns a task. It has a name if tokio records tasks at all, which takes `--cfg tokio_unstable`.
#[track_caller]
pub(crate) fn spawn(runtime: &Handle, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    let task = seam::task(runtime.id(), task);
    #[cfg(all(tokio_unstable, feature = "tracing"))]
    drop(tokio::task::Builder::new().name(name).spawn_on(task, runtime));
    #[cfg(not(all(tokio_unstable, feature = "tracing")))]
    {
        let _ = name;
        runtime.spawn(task);
    }
}
