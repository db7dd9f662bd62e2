//! The order in which timers due at the same instant fire: that of registration, unless a test randomizes it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};

use crate::clock::Hooks;
use crate::core::memory::TimerLease;
use crate::core::shard::FireHooks;
use crate::test_util::lock;
use crate::wheel::Tick;

/// By the address of the shard.
static CHANCES: LazyLock<Mutex<HashMap<usize, Chance>>> = LazyLock::new(Mutex::default);

static ANY: AtomicBool = AtomicBool::new(false);

struct Chance {
    random: Random,
    /// The deadlines of the timers that are firing.
    deadlines: Vec<Tick>,
}

pub(super) fn leave_order_to_chance(timer: TimerLease, seed: u64) {
    for (number, shard) in (0..).zip(timer.all()) {
        leave_to_chance(shard.address(), seed.wrapping_add(number));
    }
}

/// Restores the order for the next timer in these shards.
pub(super) fn leave_nothing_to_chance(timer: TimerLease) {
    if ANY.load(Relaxed) {
        let mut chances = lock(&CHANCES);
        timer.all().iter().for_each(|shard| _ = chances.remove(&shard.address()));
    }
}

fn leave_to_chance(shard: usize, seed: u64) {
    lock(&CHANCES).insert(shard, Chance { random: Random::new(seed), deadlines: Vec::new() });
    ANY.store(true, Relaxed);
}

impl FireHooks for Hooks {
    #[inline]
    fn fires(shard: usize, deadline: Tick) {
        if ANY.load(Relaxed) {
            lock(&CHANCES).get_mut(&shard).into_iter().for_each(|chance| chance.deadlines.push(deadline));
        }
    }

    #[inline]
    fn arrange<T>(shard: usize, wakers: &mut [T]) {
        if ANY.load(Relaxed) {
            lock(&CHANCES).get_mut(&shard).into_iter().for_each(|chance| chance.shuffle(wakers));
        }
    }
}

impl Chance {
    /// Shuffles the wakers of each instant, and keeps the order of instants.
    fn shuffle<T>(&mut self, wakers: &mut [T]) {
        let mut rest = wakers;
        for instant in self.deadlines.chunk_by(|one, next| one == next) {
            let (alike, later) = rest.split_at_mut(instant.len());
            self.random.shuffle(alike);
            rest = later;
        }
        self.deadlines.clear();
    }
}

/// `SplitMix64`: repeatable random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
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

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
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

    #[test]
    fn only_timers_of_one_instant_change_places() {
        // No shard has this address.
        leave_to_chance(1, 7);
        let mut changed = 0;
        for _ in 0..100 {
            let mut fired: Vec<u64> = (0..30).collect();
            for n in &fired {
                Hooks::fires(1, Tick(n / 10));
            }
            Hooks::arrange(1, &mut fired);
            assert!(fired.is_sorted_by_key(|n| n / 10), "{fired:?}");
            changed += usize::from(!fired.is_sorted());
        }
        assert!(changed > 90, "{changed}");
    }
}
