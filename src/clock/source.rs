//! [`Source`]: the source of a timer's time, and whether a test controls any clock.
//!
//! A timer uses the clock of its runtime, which is the system's unless a test has paused it. A test may also move a
//! timer's clock by hand, and later let it run again, ahead of the system's clock or behind it. A clock is *held* while
//! a test pauses it or moves it by hand.
//
// Invariants
// 1. `shown` is one of three: the runtime's clock, a clock that was held and runs again, or a tick set by a test.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Instant, instant_of, now, tick_of};
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

/// The start time of a new wheel whose clock shows `now`: 73 minutes before that or the system's time, as it may be moved
/// to another clock. Entries that are due soon stay off the outermost level, from which they would cascade through all
/// others.
pub(crate) fn wheels_begin(now: Tick) -> Tick {
    Tick(now.min(system_now()).0.saturating_sub(1 << 42))
}

/// The constant offset of a clock that was held and runs again. Stored as the tick that it would have shown at
/// [`BEGIN`], which needs no sign and saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offset(pub(crate) Tick);

pub(crate) static BEGIN: LazyLock<Tick> = LazyLock::new(system_now);

impl Offset {
    pub(crate) fn now(self) -> Tick {
        let begin = *BEGIN;
        (self.0 + (system_now() - begin)).min(LAST)
    }

    /// The system's time when the clock shows `tick`.
    pub(crate) fn system_tick(self, tick: Tick) -> Tick {
        *BEGIN + (tick - self.0)
    }
}

#[derive(Debug)]
pub(crate) struct Source {
    /// The tick set by a test, or one of the constants below.
    pub(crate) shown: AtomicU64,
    /// The clock's [`Offset`], if `shown` is [`RUNS`].
    pub(crate) offset: AtomicU64,
}

/// The runtime's clock.
const RUNTIME: u64 = u64::MAX;
/// A clock that was held and runs again. No clock shows tick 0, which lies 50 years in the past.
pub(crate) const RUNS: u64 = 0;

impl Source {
    pub(crate) fn runtime() -> Self {
        Source { shown: AtomicU64::new(RUNTIME), offset: AtomicU64::new(0) }
    }

    pub(crate) fn follow_runtime(&self) {
        self.shown.store(RUNTIME, SeqCst);
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        match self.shown.load(SeqCst) {
            clock @ (RUNTIME | RUNS) => {
                let now = if clock == RUNTIME { now() } else { self.offset().now() };
                // A test may have paused it in between, at an earlier time.
                if self.shown.load(SeqCst) == clock { now } else { self.now() }
            }
            shown => Tick(shown),
        }
    }

    #[inline]
    pub(crate) fn is_the_runtimes(&self) -> bool {
        self.shown.load(SeqCst) == RUNTIME
    }

    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.shown.load(SeqCst), RUNTIME | RUNS)
    }

    /// The system's time at a tick. Meaningless while a test sets the time.
    pub(crate) fn instant_of(&self, tick: Tick) -> Instant {
        let runs = tick < Tick::MAX && self.shown.load(SeqCst) == RUNS;
        instant_of(if runs { self.offset().system_tick(tick) } else { tick })
    }

    fn offset(&self) -> Offset {
        Offset(Tick(self.offset.load(SeqCst)))
    }
}
