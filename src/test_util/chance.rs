//! The order in which timers of one instant fire: that of their registration, unless a test leaves it to chance.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::core::shards::Shards;
use crate::util::random::Random;
use crate::wheel::Tick;

/// The chance that tests asked for, by the address of the shard.
static CHANCES: LazyLock<Mutex<HashMap<usize, Chance>>> = LazyLock::new(Mutex::default);

/// Whether a test of this process has asked.
static ANY: AtomicBool = AtomicBool::new(false);

struct Chance {
    random: Random,
    /// The deadlines of what fires now.
    deadlines: Vec<Tick>,
}

impl Shards {
    /// From now on timers of one instant fire in an order that comes from a seed.
    pub(super) fn leave_order_to_chance(&self, seed: u64) {
        for (number, shard) in (0..).zip(self.all()) {
            leave_to_chance(shard.address(), seed.wrapping_add(number));
        }
    }

    /// For the next timer in this memory nothing is left to chance.
    pub(super) fn leave_nothing_to_chance(&self) {
        if ANY.load(Relaxed) {
            let mut chances = lock();
            self.all().iter().for_each(|shard| _ = chances.remove(&shard.address()));
        }
    }
}

fn leave_to_chance(shard: usize, seed: u64) {
    lock().insert(shard, Chance { random: Random::new(seed), deadlines: Vec::new() });
    ANY.store(true, Relaxed);
}

/// A timer of a shard fires.
#[inline]
pub(crate) fn fires(shard: usize, deadline: Tick) {
    if ANY.load(Relaxed) {
        lock().get_mut(&shard).into_iter().for_each(|chance| chance.deadlines.push(deadline));
    }
}

/// Puts the wakers of what fires in order.
#[inline]
pub(crate) fn arrange<T>(shard: usize, wakers: &mut [T]) {
    if ANY.load(Relaxed) {
        lock().get_mut(&shard).into_iter().for_each(|chance| chance.shuffle(wakers));
    }
}

impl Chance {
    /// Shuffles those of each instant, which stay before those of later ones.
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

fn lock() -> MutexGuard<'static, HashMap<usize, Chance>> {
    CHANCES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_timers_of_one_instant_change_places() {
        // The address of no shard.
        leave_to_chance(1, 7);
        let mut changed = 0;
        for _ in 0..100 {
            let mut fired: Vec<u64> = (0..30).collect();
            for n in &fired {
                fires(1, Tick(n / 10));
            }
            arrange(1, &mut fired);
            assert!(fired.is_sorted_by_key(|n| n / 10), "{fired:?}");
            changed += usize::from(!fired.is_sorted());
        }
        assert!(changed > 90, "{changed}");
    }
}
