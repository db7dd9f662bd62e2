//! Conversions between instants and the wheel's ticks, and [`Hooks`].
//!
//! A tick is a nanosecond, counted from an origin that all timers of the process share. Nothing is rounded: coarser
//! ticks would gain nothing, as empty levels of the wheel cost nothing.
//
// Invariants
// 1. A deadline's tick is at or after the deadline, so a timer that fires at its tick is never early.
// 2. The tick of the current time is at or before that time.
// 3. Both saturate: at tick 0 before the origin, and at the last tick 584 years later. In between they are exact.

use std::sync::LazyLock;
use std::time::Duration;

/// `+=` and `-=` for a point in time that has `+` and `-`.
macro_rules! add_and_sub_assign {
    ($time:ty) => {
        impl std::ops::AddAssign<Duration> for $time {
            fn add_assign(&mut self, duration: Duration) {
                *self = *self + duration;
            }
        }

        impl std::ops::SubAssign<Duration> for $time {
            fn sub_assign(&mut self, duration: Duration) {
                *self = *self - duration;
            }
        }
    };
}

pub(crate) use add_and_sub_assign;

pub(crate) mod instant;
pub(crate) mod jumping;
pub(crate) mod source;

pub use instant::Instant;

use crate::wheel::{Tick, Ticks};
use instant::FAR_FUTURE;

/// Implements the traits through which tests reach into this crate.
///
/// Code that a test may reach into declares such a trait, whose functions do nothing by default. With the feature
/// `test-util`, the module `test_util` implements them all. Nothing below it knows it.
pub(crate) struct Hooks;

/// Whether tests can control clocks. If so, one may pause the clock of a current-thread runtime at any time.
pub(crate) const TESTS_MAY_PAUSE: bool = cfg!(feature = "test-util");

/// The time from the origin to its first use: 50 years, or as far as the platform can represent. Earlier instants need
/// not be distinguished.
const HEADROOM: Duration = Duration::from_secs(50 * 365 * 86_400);

static ORIGIN: LazyLock<Instant> = LazyLock::new(|| Instant::from_std(std::time::Instant::now()) - HEADROOM);

#[inline]
pub(crate) fn now() -> Tick {
    tick_of(Instant::now())
}

// Not inlined into programs: see `thread_shards::shard_if_held`.
#[inline(never)]
pub(crate) fn after(duration: Duration) -> Tick {
    later(now(), duration)
}

/// The deadline of a timer created at `now`: after `duration`, or never if that is more than 500 years. A paused clock
/// must not move to the end of a limit that stands for none.
#[inline]
pub(crate) fn later(now: Tick, duration: Duration) -> Tick {
    now + ticks_in(or_for_ever(duration))
}

/// More than 500 years count as for ever.
#[inline]
pub(crate) fn or_for_ever(duration: Duration) -> Duration {
    if duration > FAR_FUTURE { Duration::MAX } else { duration }
}

#[inline]
pub(crate) fn tick_of(instant: Instant) -> Tick {
    let since = instant.duration_since(*ORIGIN);
    Tick::ZERO + ticks_in(since)
}

#[inline]
pub(crate) fn ticks_in(duration: Duration) -> Ticks {
    /// Fits into a `u64` of nanoseconds together with any part of a second.
    const LAST_WHOLE: u64 = u64::MAX / 1_000_000_000 - 1;

    let (seconds, nanos) = (duration.as_secs(), u64::from(duration.subsec_nanos()));
    if seconds <= LAST_WHOLE {
        return Ticks(seconds * 1_000_000_000 + nanos);
    }
    Ticks(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

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

    #[test]
    fn the_past_is_tick_0_and_the_far_future_the_last() {
        assert_eq!(tick_of(*ORIGIN - Duration::from_secs(1)), Tick::ZERO);
        assert_eq!(tick_of(*ORIGIN + Duration::MAX), Tick::MAX);
    }
}
