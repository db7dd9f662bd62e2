//! Where `test_util` installs itself, when a test first takes hold of a clock.

use std::sync::OnceLock;

use tokio::runtime::{self, Handle};

use crate::core::shards::TimerLease;

/// Makes a timer follow the clock of a runtime if a test has paused that clock.
pub(super) type Adopt = fn(runtime::Id, TimerLease);

pub(super) static ADOPT: OnceLock<Adopt> = OnceLock::new();

/// Called for each timer that is made on a runtime.
pub(crate) fn timer_on(runtime: runtime::Id, timer: TimerLease) {
    if let Some(adopt) = ADOPT.get() {
        adopt(runtime, timer);
    }
}

/// Called for each timer whose driver runs on the current runtime, if there is one.
pub(crate) fn timer_here(timer: TimerLease) {
    if let (Some(adopt), Ok(runtime)) = (ADOPT.get(), Handle::try_current()) {
        adopt(runtime.id(), timer);
    }
}

/// Waits until the current runtime is idle and its clock may move. Tokio does not move that clock as long as this lives.
#[cfg(feature = "test-util")]
pub(super) type Quiet = std::pin::Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// For a current-thread runtime, whose clock tokio has paused.
#[cfg(feature = "test-util")]
pub(super) fn quiet() -> Quiet {
    // A test that pauses tokio's clock calls nothing of this crate, so this cannot be installed.
    Box::pin(crate::test_util::quiet())
}
