//! [`Reading`]: a time on a clock that jumps, and conversions to system times and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::instant::saturate;

/// What a clock that jumps shows, in nanoseconds: since the machine was started, or since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reading(pub(crate) i128);

impl Reading {
    /// The reading at which the wall clock shows `time`.
    pub(crate) fn of(time: SystemTime) -> Reading {
        Reading(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => nanos_in(since),
            Err(before) => -nanos_in(before.duration()),
        })
    }

    /// What the wall clock shows then. Saturates at the first and the last time that the system can represent.
    pub(crate) fn time(self) -> SystemTime {
        let epoch = Reading(0);
        let (step, length): (fn(&_, _) -> _, _) = if self < epoch {
            (SystemTime::checked_sub, epoch.since(self))
        } else {
            (SystemTime::checked_add, self.since(epoch))
        };
        step(&UNIX_EPOCH, length).unwrap_or_else(|| saturate(UNIX_EPOCH, step))
    }

    pub(crate) fn after(self, duration: Duration) -> Reading {
        Reading(self.0.saturating_add(nanos_in(duration)))
    }

    pub(crate) fn before(self, duration: Duration) -> Reading {
        Reading(self.0.saturating_sub(nanos_in(duration)))
    }

    /// How long after `earlier` this is, or zero. Saturates.
    pub(crate) fn since(self, earlier: Reading) -> Duration {
        duration_of_nanos(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos_in(duration: Duration) -> i128 {
    duration.as_nanos().try_into().expect("less than 2^94")
}

/// The inverse of [`nanos_in`]. Saturates.
pub(crate) fn duration_of_nanos(nanos: u128) -> Duration {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let nanos = u32::try_from(nanos).expect("less than a second");
    u64::try_from(seconds).map_or(Duration::MAX, |seconds| Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_and_times_agree_to_the_nanosecond_before_and_after_1970() {
        for seconds in [0, 1, 1 << 33, 1 << 39] {
            // What every system can represent.
            let length = Duration::new(seconds, 100);
            for time in [UNIX_EPOCH + length, UNIX_EPOCH.checked_sub(length).unwrap_or(UNIX_EPOCH)] {
                assert_eq!(Reading::of(time).time(), time);
            }
        }
        assert_eq!(Reading::of(UNIX_EPOCH - Duration::from_nanos(100)), Reading(-100));
    }

    #[test]
    fn a_reading_beyond_what_the_system_represents_is_its_first_or_last_time() {
        let (first, last) = (Reading(i128::MIN).time(), Reading(i128::MAX).time());
        assert!(first < UNIX_EPOCH && UNIX_EPOCH < last);
        let second = Duration::from_secs(1);
        assert_eq!((first.checked_sub(second), last.checked_add(second)), (None, None));
    }

    #[test]
    fn readings_saturate() {
        let (first, last) = (Reading(i128::MIN), Reading(i128::MAX));
        assert_eq!(last.after(Duration::MAX), last);
        assert_eq!(first.before(Duration::MAX), first);
        assert_eq!(last.since(first), Duration::MAX);
        assert_eq!(first.since(last), Duration::ZERO);
        let years = Duration::from_secs(u64::MAX);
        assert_eq!(Reading(5).after(years).since(Reading(5)), years);
    }
}
