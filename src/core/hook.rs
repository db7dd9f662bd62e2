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
