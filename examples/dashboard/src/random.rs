//! A small generator of numbers that look random, the same in each run.

/// The `SplitMix64` generator.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    /// A number less than `limit`, or zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // What the remainder prefers is too little to be seen, and so is what a narrower `usize` cuts off.
        #[allow(clippy::cast_possible_truncation)]
        let number = self.next() as usize;
        number % limit.max(1)
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&mut self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // 53 bits are just what fits.
        let number = (self.next() >> 11) as f64;
        number / 9_007_199_254_740_992.0
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
