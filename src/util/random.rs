//! [`Random`]: random numbers that a seed repeats.

/// `SplitMix64`: its whole state is one number.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: usize) -> usize {
        let below = self.next() % bound as u64;
        usize::try_from(below).expect("it is below a usize")
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_gives_every_order_and_a_seed_the_same_one() {
        let order = |seed| {
            let mut items = [1, 2, 3, 4];
            Random::new(seed).shuffle(&mut items);
            items
        };
        let mut seen: Vec<_> = (0..1_000).map(order).collect();
        assert!((0..1_000).map(order).eq(seen.iter().copied()));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 24);
    }
}
