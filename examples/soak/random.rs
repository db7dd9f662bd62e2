//! A small generator of numbers that look random, the same for the same seed.

use std::time::Duration;

/// The `SplitMix64` generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    /// Another generator, whose numbers have nothing to do with those of this one.
    pub(crate) fn branch(&mut self) -> Random {
        Random(self.next())
    }

    /// A number less than `limit`, or zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // What the remainder prefers is too little to matter, and so is what a narrower `usize` cuts off.
        #[allow(clippy::cast_possible_truncation)]
        let number = self.next() as usize;
        number % limit.max(1)
    }

    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let spread = u64::try_from(longest.saturating_sub(shortest).as_nanos()).unwrap_or(u64::MAX);
        shortest + Duration::from_nanos(self.next() % spread.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
