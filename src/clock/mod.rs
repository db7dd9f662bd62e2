//! From instants to the wheel's ticks and back.
//!
//! A tick is a nanosecond, counted from an origin that all timers of the process share. The levels of the wheel that
//! stay empty cost nothing, so there is nothing to gain from coarser ticks, and nothing is rounded.
//!
//! Invariants
//! 1. A deadline's tick is at or after the deadline, so a timer that fires at its tick is never early.
//! 2. The tick of the present is at or before it.
//! 3. Both saturate: what is before the origin is tick 0, what is too far is the last tick, 584 years later. In between
//!    they agree to the nanosecond.
//!
//! Must not know: the wheel.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

pub(crate) mod instant;

pub use instant::Instant;

use crate::wheel::{Tick, Ticks};
use instant::FAR;

/// How long before its first use the origin lies: 50 years, or what the platform can tell. Instants earlier than that
/// are as good as any in the past.
const HEADROOM: Duration = Duration::from_secs(50 * 365 * 86_400);

/// [`FAR`] in ticks.
const FAR_TICKS: u64 = FAR.as_secs() * 1_000_000_000;

static ORIGIN: LazyLock<Instant> = LazyLock::new(|| Instant::from_std(std::time::Instant::now()) - HEADROOM);

/// Whether a test has, or may have, taken hold of a clock of this process: paused it, or moves it by hand.
static ANY_IS_HELD: AtomicBool = AtomicBool::new(false);

/// Whether a clock of this process was ever found paused, or is moved by hand. Only then is it asked which clock is whose.
#[inline]
pub(crate) fn any_is_held() -> bool {
    ANY_IS_HELD.load(Relaxed)
}

/// A clock was found paused, or is one that is moved by hand.
pub(crate) fn one_is_held() {
    if !any_is_held() {
        ANY_IS_HELD.store(true, SeqCst);
    }
}

#[inline]
pub(crate) fn now() -> Tick {
    tick_of(Instant::now())
}

/// The time by the system's clock, whatever the current runtime's shows.
#[cfg(feature = "test-util")]
pub(crate) fn system_now() -> Tick {
    tick_of(Instant::from_std(std::time::Instant::now()))
}

/// The last tick that a clock shows. The one after it, at which "never" is, does not come.
#[cfg(feature = "test-util")]
pub(crate) const LAST: Tick = Tick(u64::MAX - 1);

/// How a clock goes on that was paused and runs again: with the system's, so far ahead of it or behind. Held as what it
/// would have shown at [`BEGIN`], which has no sign and saturates.
#[cfg(feature = "test-util")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course(pub(crate) Tick);

/// A time on the system's clock, before any course.
#[cfg(feature = "test-util")]
static BEGIN: LazyLock<Tick> = LazyLock::new(system_now);

#[cfg(feature = "test-util")]
impl Course {
    /// The course of a clock that shows `now`.
    pub(crate) fn from(now: Tick) -> Course {
        let begin = *BEGIN;
        // Zero stands for none.
        Course(Tick(now.0.saturating_sub((system_now() - begin).0).max(1)))
    }

    /// What the clock shows.
    pub(crate) fn now(self) -> Tick {
        let begin = *BEGIN;
        (self.0 + (system_now() - begin)).min(LAST)
    }

    /// When the clock comes to `tick`, by the system's.
    pub(crate) fn system_tick(self, tick: Tick) -> Tick {
        *BEGIN + (tick - self.0)
    }
}

/// The deadline of a timer that is made now: `duration` later, or 500 years where that is less.
#[inline]
pub(crate) fn after(duration: Duration) -> Tick {
    later(now(), duration)
}

/// The deadline of a timer that is made at a tick: `duration` later, or 500 years where that is less.
#[inline]
pub(crate) fn later(now: Tick, duration: Duration) -> Tick {
    now + Ticks(ticks_in(duration).0.min(FAR_TICKS))
}

#[inline]
pub(crate) fn tick_of(instant: Instant) -> Tick {
    let since = instant.duration_since(*ORIGIN);
    Tick::ZERO + ticks_in(since)
}

/// A duration in ticks, none of it rounded away; the longest are cut to what there is.
#[inline]
pub(crate) fn ticks_in(duration: Duration) -> Ticks {
    Ticks(duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into()))
}

/// What [`ticks_in`] is of.
pub(crate) fn duration_of(Ticks(nanos): Ticks) -> Duration {
    Duration::from_nanos(nanos)
}

pub(crate) fn instant_of(tick: Tick) -> Instant {
    *ORIGIN + Duration::from_nanos(tick.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_instants_agree_to_the_nanosecond() {
        for nanos in [0, 1, 999, 1_000_000_001, 1 << 62, u64::MAX] {
            assert_eq!(tick_of(instant_of(Tick(nanos))), Tick(nanos));
        }
    }

    #[cfg(feature = "test-util")]
    #[test]
    fn a_course_never_goes_back_and_ends_where_time_does() {
        let system = system_now();
        let behind = Tick(system.0 - 1_000_000_000);
        for from in [behind, system, system + Ticks(1), Tick(u64::MAX / 2), Tick(LAST.0 - 1), LAST] {
            let course = Course::from(from);
            let (mut last, before) = (from, system_now());
            for _ in 0..1_000 {
                let now = course.now();
                assert!(last <= now && now <= LAST, "{now:?} after {last:?}, from {from:?}");
                last = now;
            }
            let system = course.system_tick(last);
            assert!(before <= system_now() && system <= system_now(), "{system:?}");
        }
    }

    #[test]
    fn the_past_is_tick_0_and_the_far_future_the_last() {
        assert_eq!(tick_of(*ORIGIN - Duration::from_secs(1)), Tick::ZERO);
        assert_eq!(tick_of(*ORIGIN + Duration::MAX), Tick::MAX);
    }
}
