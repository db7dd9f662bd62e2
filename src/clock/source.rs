//! [`Source`]: the source of a timer's time, and whether a test controls any clock.
//!
//! A timer uses the clock of its runtime, which is the system's unless a test has paused it; or a test sets its time. A
//! clock is *held* while a test pauses it or sets its time.
//
// Invariants
// 1. A timer whose time a test sets returns to its runtime's clock only if it has ended with that runtime. Otherwise it
//    ends with the test's clock.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Instant, now, tick_of};
use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::wheel::Tick;

/// Calls `code` with the flag that says whether a clock of this process is or was held.
#[cfg(not(hairspring_loom))]
#[inline]
fn with_flag<R>(code: impl FnOnce(&AtomicBool) -> R) -> R {
    static ANY_IS_HELD: AtomicBool = AtomicBool::new(false);
    code(&ANY_IS_HELD)
}

/// A model is one system thread, and must not see the flags of others.
#[cfg(hairspring_loom)]
fn with_flag<R>(code: impl FnOnce(&AtomicBool) -> R) -> R {
    thread_local!(static ANY_IS_HELD: AtomicBool = const { AtomicBool::new(false) });
    ANY_IS_HELD.with(code)
}

/// Whether a clock of this process was ever found held. Only then does it matter which runtime's clock a thread reads.
#[inline]
pub(crate) fn any_is_held() -> bool {
    with_flag(|flag| flag.load(Relaxed))
}

pub(crate) fn one_is_held() {
    if !any_is_held() {
        with_flag(|flag| flag.store(true, SeqCst));
    }
}

/// The last tick that a clock shows. The next one means "never".
pub(crate) const LAST: Tick = Tick(u64::MAX - 1);

/// The system's time, whatever the current runtime's clock.
pub(crate) fn system_now() -> Tick {
    tick_of(Instant::from_std(std::time::Instant::now()))
}

/// The start time of a new wheel whose clock shows `now`: 73 minutes before that or the system's time, as it may be
/// moved to another clock. Entries that are due soon stay off the outermost level, from which they would cascade
/// through all others.
pub(crate) fn wheels_begin(now: Tick) -> Tick {
    Tick(now.min(system_now()).0.saturating_sub(1 << 42))
}

#[derive(Debug)]
pub(crate) struct Source {
    /// The tick set by a test, or [`RUNTIME`].
    pub(crate) shown: AtomicU64,
}

/// The runtime's clock. No clock shows this tick.
const RUNTIME: u64 = u64::MAX;

impl Source {
    pub(crate) fn runtime() -> Self {
        Source { shown: AtomicU64::new(RUNTIME) }
    }

    pub(crate) fn follow_runtime(&self) {
        self.shown.store(RUNTIME, SeqCst);
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        match self.shown.load(SeqCst) {
            RUNTIME => {
                let now = now();
                // A test may have set it in between, to an earlier time.
                if self.is_shown() { self.now() } else { now }
            }
            shown => Tick(shown),
        }
    }

    #[inline]
    pub(crate) fn is_shown(&self) -> bool {
        self.shown.load(SeqCst) != RUNTIME
    }
}
