//! [`Order`]: the order in which timers of one instant fire: that of their registration, unless a test leaves it to
//! chance. Without the feature `test-util` it is nothing.

pub(crate) use imp::Order;

#[cfg(feature = "test-util")]
mod imp {
    use std::collections::HashMap;
    use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

    use crate::util::random::Random;
    use crate::wheel::Tick;

    /// The chance that a test asked for, by the address of the shard.
    static CHANCES: LazyLock<Mutex<HashMap<usize, Chance>>> = LazyLock::new(Mutex::default);

    /// Whether it is left to chance. Small, as it lies in each shard.
    #[derive(Debug)]
    pub(crate) struct Order(bool);

    struct Chance {
        random: Random,
        /// The deadlines of what fires now.
        deadlines: Vec<Tick>,
    }

    impl Order {
        pub(crate) fn of_registration() -> Order {
            Order(false)
        }

        pub(crate) fn by_chance(shard: usize, seed: u64) -> Order {
            lock().insert(shard, Chance { random: Random::new(seed), deadlines: Vec::new() });
            Order(true)
        }

        /// A timer of a shard fires.
        #[inline]
        pub(crate) fn fires(&self, shard: usize, deadline: Tick) {
            if self.0 {
                lock().get_mut(&shard).into_iter().for_each(|chance| chance.deadlines.push(deadline));
            }
        }

        /// Puts the wakers of what fires in order.
        #[inline]
        pub(crate) fn arrange<T>(&self, shard: usize, wakers: &mut [T]) {
            if self.0 {
                lock().get_mut(&shard).into_iter().for_each(|chance| chance.shuffle(wakers));
            }
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
            let order = Order::by_chance(1, 7);
            let mut changed = 0;
            for _ in 0..100 {
                let mut fired: Vec<u64> = (0..30).collect();
                for n in &fired {
                    order.fires(1, Tick(n / 10));
                }
                order.arrange(1, &mut fired);
                assert!(fired.is_sorted_by_key(|n| n / 10), "{fired:?}");
                changed += usize::from(!fired.is_sorted());
            }
            assert!(changed > 90, "{changed}");
        }
    }
}

#[cfg(not(feature = "test-util"))]
mod imp {
    use crate::wheel::Tick;

    #[derive(Debug)]
    pub(crate) struct Order;

    #[allow(clippy::unused_self)] // The same interface as with the feature.
    impl Order {
        pub(crate) fn of_registration() -> Order {
            Order
        }

        #[inline]
        pub(crate) fn fires(&self, _: usize, _: Tick) {}

        #[inline]
        pub(crate) fn arrange<T>(&self, _: usize, _: &mut [T]) {}
    }
}
