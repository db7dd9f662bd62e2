//! Numbers at random, the same ones on every run.

/// A 64-bit counter whose values are stirred until no pattern is left (the step and the stirring are splitmix64's).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A whole number from 0 up to, but without, `end`.
    pub(crate) fn below(&mut self, end: u32) -> u32 {
        ((u64::from(self.next() as u32) * u64::from(end)) >> 32) as u32
    }

    /// A number above 0 and up to 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}
