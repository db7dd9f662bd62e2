//! Where `test_util` installs itself, when a test first takes hold of a clock.

use std::sync::OnceLock;

use tokio::runtime::{self, Handle};

use crate::core::shards::TimerLease;

/// Has a timer follow the clock of a runtime, if a test has paused that.
type Adopt = fn(runtime::Id, TimerLease);

static ADOPT: OnceLock<Adopt> = OnceLock::new();

/// Has `now` asked what the current runtime's clock shows, and `adopt` told of each timer that is on a runtime.
#[cfg(feature = "test-util")]
pub(crate) fn install(now: fn() -> Option<std::time::Instant>, adopt: Adopt) {
    crate::clock::instant::let_show(now);
    ADOPT.get_or_init(|| adopt);
    crate::clock::source::one_is_held();
}

/// A timer is on a runtime.
pub(crate) fn timer_on(runtime: runtime::Id, timer: TimerLease) {
    if let Some(adopt) = ADOPT.get() {
        adopt(runtime, timer);
    }
}

/// A timer is on the current runtime, if there is one.
pub(crate) fn timer_here(timer: TimerLease) {
    if let (Some(adopt), Ok(runtime)) = (ADOPT.get(), Handle::try_current()) {
        adopt(runtime.id(), timer);
    }
}
