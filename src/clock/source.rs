//! [`Source`]: where a timer's time comes from, and whether any test holds a clock.
//!
//! A timer goes by the clock of its runtime, which is the system's unless a test has paused it. A test may also move a
//! timer's clock by hand, and let it run again later, ahead of the system's clock or behind it.
//
// Invariants
// 1. `shown` is one of three: the runtime's clock, a clock that was held and runs again, or the tick that a test shows.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Instant, instant_of, now, tick_of};
use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::wheel::Tick;

/// Calls `code` with whether a test holds, or may have held, a clock of this process.
#[cfg(not(hairspring_loom))]
#[inline]
fn with_flag<R>(code: impl FnOnce(&AtomicBool) -> R) -> R {
    static ANY_IS_HELD: AtomicBool = AtomicBool::new(false);
    code(&ANY_IS_HELD)
}

/// A model is one thread, and must not see what others do.
#[cfg(hairspring_loom)]
fn with_flag<R>(code: impl FnOnce(&AtomicBool) -> R) -> R {
    thread_local!(static ANY_IS_HELD: AtomicBool = const { AtomicBool::new(false) });
    ANY_IS_HELD.with(code)
}

/// Whether a clock of this process was ever found paused, or is moved by hand. Only then does it matter which runtime's
/// clock a thread reads.
#[inline]
pub(crate) fn any_is_held() -> bool {
    with_flag(|flag| flag.load(Relaxed))
}

/// A clock was found paused, or is moved by hand.
pub(crate) fn one_is_held() {
    if !any_is_held() {
        with_flag(|flag| flag.store(true, SeqCst));
    }
}

/// The last tick that a clock shows. The next one stands for "never".
pub(crate) const LAST: Tick = Tick(u64::MAX - 1);

/// The system's time, whatever clock the current runtime has.
pub(crate) fn system_now() -> Tick {
    tick_of(Instant::from_std(std::time::Instant::now()))
}

/// Where the time of a new wheel begins: 73 minutes ago. No clock is that far behind, and what is due soon is then not
/// on the outermost level, from which it would move down through all the others.
pub(crate) fn wheels_begin() -> Tick {
    Tick(system_now().0.saturating_sub(1 << 42))
}

/// How a clock runs after a test has held it: ahead of the system's clock, or behind it, by a constant. Stored as what
/// the clock would have shown at [`BEGIN`], which needs no sign and saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Course(pub(crate) Tick);

/// A time on the system's clock, before any course.
pub(crate) static BEGIN: LazyLock<Tick> = LazyLock::new(system_now);

impl Course {
    /// What the clock shows.
    pub(crate) fn now(self) -> Tick {
        let begin = *BEGIN;
        (self.0 + (system_now() - begin)).min(LAST)
    }

    /// The system's time when the clock shows `tick`.
    pub(crate) fn system_tick(self, tick: Tick) -> Tick {
        *BEGIN + (tick - self.0)
    }
}

/// Where a timer's time comes from.
#[derive(Debug)]
pub(crate) struct Source {
    /// The tick that a test shows, or one of the two constants below.
    pub(crate) shown: AtomicU64,
    /// How the clock runs, if `shown` is [`RUNS`].
    pub(crate) course: AtomicU64,
}

/// The runtime's clock.
const RUNTIME: u64 = u64::MAX;
/// A clock that was held and runs again. No clock shows tick 0: it lies 50 years in the past.
pub(crate) const RUNS: u64 = 0;

impl Source {
    /// The clock of the runtime.
    pub(crate) fn runtime() -> Self {
        Source { shown: AtomicU64::new(RUNTIME), course: AtomicU64::new(0) }
    }

    /// From now on uses the clock of the runtime.
    pub(crate) fn follow_runtime(&self) {
        self.shown.store(RUNTIME, SeqCst);
    }

    /// The time.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        match self.shown.load(SeqCst) {
            RUNTIME => now(),
            RUNS => self.course().now(),
            shown => Tick(shown),
        }
    }

    /// Whether this is the clock of the runtime.
    #[inline]
    pub(crate) fn is_the_runtimes(&self) -> bool {
        self.shown.load(SeqCst) == RUNTIME
    }

    /// Whether a test shows the time.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.shown.load(SeqCst), RUNTIME | RUNS)
    }

    /// Whether a test shows the time, and has come to a tick.
    pub(crate) fn has_shown(&self, tick: Tick) -> bool {
        match self.shown.load(SeqCst) {
            RUNTIME | RUNS => false,
            shown => tick.0 <= shown,
        }
    }

    /// When a tick comes, by the system's clock. Not meaningful while a test shows the time.
    pub(crate) fn instant_of(&self, tick: Tick) -> Instant {
        let runs = tick < Tick::MAX && self.shown.load(SeqCst) == RUNS;
        instant_of(if runs { self.course().system_tick(tick) } else { tick })
    }

    fn course(&self) -> Course {
        Course(Tick(self.course.load(SeqCst)))
    }
}
