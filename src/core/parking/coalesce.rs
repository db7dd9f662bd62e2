//! [`Coalesce`]: lets due timers wait for company where they are dense.
//!
//! A turn costs tens of microseconds of two threads' time, however little it fires. So after a turn the next waits 40 us
//! for each timer that the last one fired, up to 0.8 ms. Below 25,000 timers a second a turn fires few and the wait is
//! short; above, each wait collects more than the last until it is at its longest.

use crate::wheel::{Tick, Ticks};

const WAIT_PER_FIRED: u64 = 40_000;
const LONGEST_WAIT: u64 = 800_000;

/// A wait from which on timers are dense.
const DENSE: Ticks = Ticks(250_000);

/// How long the next turn waits after one that fired so many.
pub(crate) fn wait_after(fired: usize) -> Ticks {
    Ticks(WAIT_PER_FIRED.saturating_mul(fired as u64).min(LONGEST_WAIT))
}

#[derive(Debug)]
pub(super) struct Coalesce {
    /// No turn begins before this, whatever is registered.
    not_before: Tick,
    /// How long the last one waited.
    wait: Ticks,
    /// The tick that the driver was last woken for.
    woken_for: Tick,
}

impl Coalesce {
    pub(super) fn new() -> Self {
        Coalesce { not_before: Tick::ZERO, wait: Ticks(0), woken_for: Tick::ZERO }
    }

    /// When a turn for `deadline` may begin.
    pub(super) fn earliest_turn(&self, deadline: Tick) -> Tick {
        deadline.max(self.not_before)
    }

    /// A turn that went by the time `now` has ended: when the next may begin if it waits.
    pub(super) fn after_turn(&self, now: Tick, wait: Ticks) -> Tick {
        match wait {
            Ticks(0) => Tick::ZERO,
            // From the tick on that the turn was for, but half the wait at least.
            _ => (self.woken_for + wait).max(now + Ticks(wait.0 / 2)),
        }
    }

    /// The driver goes to sleep.
    pub(super) fn wait_until(&mut self, not_before: Tick, wait: Ticks) {
        (self.not_before, self.wait) = (not_before, wait);
    }

    /// The driver is woken for a tick.
    pub(super) fn woken_for(&mut self, tick: Tick) {
        self.woken_for = tick;
    }

    /// When the turn after the one that was just woken for is likely to begin, if timers are dense.
    pub(super) fn likely_next(&self) -> Option<Tick> {
        (self.wait >= DENSE).then(|| self.woken_for + self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_fired_little_is_hardly_followed_by_a_wait_and_none_by_a_long_one() {
        let waits = [0, 1, 3, 20, 21, usize::MAX].map(|fired| wait_after(fired).0);
        assert_eq!(waits, [0, 40_000, 120_000, 800_000, 800_000, 800_000]);
    }
}
