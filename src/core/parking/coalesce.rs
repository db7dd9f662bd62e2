//! [`Coalesce`]: delays turns while timers are dense, so that each turn fires more.
//!
//! A turn costs tens of microseconds on two threads, however little it fires. So the next turn waits 40 us for each
//! timer that the last one fired, up to 0.8 ms. Below 25,000 timers a second a turn fires few timers and the wait is
//! short. Above that, each wait collects more timers than the last, until it reaches its maximum.

use crate::wheel::{Tick, Ticks};

const WAIT_PER_FIRED: u64 = 40_000;
const LONGEST_WAIT: u64 = 800_000;

/// From this wait on, timers count as dense.
const DENSE: Ticks = Ticks(250_000);

/// How long the next turn waits after one that fired this many.
pub(crate) fn wait_after(fired: usize) -> Ticks {
    Ticks(WAIT_PER_FIRED.saturating_mul(fired as u64).min(LONGEST_WAIT))
}

#[derive(Debug)]
pub(super) struct Coalesce {
    /// No turn begins before this, whatever deadline is registered.
    not_before: Tick,
    /// How long the last turn waited.
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

    /// A turn at the time `now` has ended. Returns when the next may begin if it waits.
    pub(super) fn after_turn(&self, now: Tick, wait: Ticks) -> Tick {
        match wait {
            Ticks(0) => Tick::ZERO,
            // Counted from the tick that the turn was for, but at least half the wait from now.
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

    /// When the turn after the present one is likely to begin, if timers are dense.
    pub(super) fn likely_next(&self) -> Option<Tick> {
        (self.wait >= DENSE).then(|| self.woken_for + self.wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_turn_waits_40_us_for_each_timer_fired_and_at_most_800() {
        let waits = [0, 1, 3, 20, 21, usize::MAX].map(|fired| wait_after(fired).0);
        assert_eq!(waits, [0, 40_000, 120_000, 800_000, 800_000, 800_000]);
    }
}
