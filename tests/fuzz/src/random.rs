//! Random numbers that one seed gives again. Must not know: what they are for.

/// `SplitMix64`: the whole generator is one number.
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

    /// From zero to less than `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // The high half of a product of 64 bits each; dividing takes longer.
        let product = u128::from(self.next()) * u128::from(end);
        u64::try_from(product >> 64).expect("the high half")
    }

    pub(crate) fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("less than a usize")
    }

    /// Any of the numbers that an operation picks something by.
    pub(crate) fn which(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).expect("32 bits")
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// A number of at most `bits` bits, small ones as often as large ones.
    pub(crate) fn up_to_bits(&mut self, bits: u64) -> u64 {
        let bits = 1 + self.below(bits);
        self.next() >> (64 - bits)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
