//! Seeded random numbers.

use std::time::Duration;

/// `SplitMix64`, whose state is one number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("less than a usize")
    }

    /// A number for picking something.
    pub(crate) fn any(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).expect("32 bits")
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A number of at most `bits` bits; small numbers are as frequent as large ones.
    pub(crate) fn up_to_bits(&mut self, bits: u64) -> u64 {
        let bits = 1 + self.below(bits);
        self.next() >> (64 - bits)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// A duration from zero to nearly `bound`, to the nanosecond.
    pub(crate) fn duration(&mut self, bound: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(bound.as_nanos()).expect("less than 584 years")))
    }
}
