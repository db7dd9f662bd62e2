//! A small generator of numbers that look random, the same in each run: enough to spread sleeps, no more.
//!
//! `benches/rivals` uses this file too.

use std::time::Duration;

/// The `SplitMix64` generator.
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn seeded(seed: u64) -> Self {
        Jitter(seed)
    }

    /// A duration from zero up to `limit`.
    pub(crate) fn within(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.next() % nanos.max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
