//! Holds a scheme against a map from deadlines to timers, while timers are started, stopped and left to fire at random.

use std::collections::BTreeMap;

use crate::random::Random;
use crate::schemes::Scheme;

/// Intervals short and long, at and around the edges of slots, levels and whole turns.
fn interval(random: &mut Random, longest: u32) -> u32 {
    let power = 1 << random.below(18);
    let near = match random.below(3) {
        0 => random.below(power) + 1,
        1 => power + random.below(3) - 1,
        _ => random.below(200) + 1,
    };
    near.clamp(1, longest)
}

/// Panics where the scheme fires another set of timers than the model does.
pub(crate) fn hold<S: Scheme>(mut scheme: S, seed: u64, ticks: u64) {
    let mut random = Random::new(seed);
    let mut model: BTreeMap<u64, Vec<(u32, S::Handle)>> = BTreeMap::new();
    let mut outstanding = 0;
    let mut next_id = 0;
    for now in 0..ticks {
        for _ in 0..random.below(4) {
            if outstanding < 500 {
                let interval = interval(&mut random, S::LONGEST);
                let timer = (next_id, scheme.start(interval, next_id));
                model.entry(now + u64::from(interval)).or_default().push(timer);
                next_id += 1;
                outstanding += 1;
            }
        }
        if random.below(2) == 0 && outstanding > 0 {
            // The timers around some moment; the last where there are none so late.
            let moment = now + u64::from(interval(&mut random, S::LONGEST));
            let mut at = model.range_mut(moment..).next();
            if at.is_none() {
                at = model.iter_mut().next_back();
            }
            let (&deadline, timers) = at.expect("there are outstanding timers");
            let (_, handle) = timers.swap_remove(random.below(timers.len() as u32) as usize);
            if timers.is_empty() {
                model.remove(&deadline);
            }
            scheme.stop(handle);
            outstanding -= 1;
        }
        let mut fired = Vec::new();
        scheme.per_tick(&mut |id| fired.push(id));
        fired.sort_unstable();
        // In the order in which they were started, which is that of their numbers, but for those stopped between.
        let mut expected: Vec<u32> = model.remove(&(now + 1)).into_iter().flatten().map(|(id, _)| id).collect();
        expected.sort_unstable();
        assert_eq!(fired, expected, "{} at tick {now}, seed {seed}", S::NAME);
        outstanding -= fired.len();
    }
}

mod tests {
    use super::*;
    use crate::schemes::{HashedSorted, HashedUnsorted, Hierarchical, Ordered, SimpleWheel, Tree, Unordered, Wheel};

    fn hold_for_some_seeds<S: Scheme>() {
        for seed in 0..5 {
            hold(S::new(), seed, 200_000);
        }
    }

    #[test]
    fn unordered() {
        hold_for_some_seeds::<Unordered>();
    }

    #[test]
    fn ordered() {
        hold_for_some_seeds::<Ordered>();
    }

    #[test]
    fn tree() {
        hold_for_some_seeds::<Tree>();
    }

    #[test]
    fn simple_wheel() {
        hold_for_some_seeds::<SimpleWheel>();
    }

    #[test]
    fn hashed_sorted() {
        hold_for_some_seeds::<HashedSorted>();
    }

    #[test]
    fn hashed_unsorted() {
        hold_for_some_seeds::<HashedUnsorted>();
    }

    #[test]
    fn hierarchical() {
        hold_for_some_seeds::<Hierarchical>();
    }

    #[test]
    fn ours() {
        hold_for_some_seeds::<Wheel<u32>>();
    }
}
