//! Holds a scheme against a map from deadlines to timers, while timers are started, stopped and left to fire at random.

use std::collections::BTreeMap;

use tools::Rng;

use crate::schemes::{
    HashedSorted, HashedUnsorted, Hierarchical, Ordered, Scheme, SimpleWheel, Tree, Unordered, Wheel,
};

/// Intervals short and long, at and around the edges of slots, levels and whole turns.
fn interval(random: &mut Rng, longest: u32) -> u32 {
    let power = 1 << random.u32(..18);
    let near = match random.u32(..3) {
        0 => random.u32(..power) + 1,
        1 => power + random.u32(..3) - 1,
        _ => random.u32(..200) + 1,
    };
    near.clamp(1, longest)
}

/// Panics if the scheme fires another set of timers than the model does.
pub(crate) fn hold<S: Scheme>(mut scheme: S, seed: u64, ticks: u64) {
    let mut random = Rng::with_seed(seed);
    let mut model: BTreeMap<u64, Vec<(u32, S::Handle)>> = BTreeMap::new();
    let mut outstanding = 0;
    let mut next_id = 0;
    for now in 0..ticks {
        for _ in 0..random.u32(..4) {
            if outstanding < 500 {
                let interval = interval(&mut random, S::LONGEST);
                let timer = (next_id, scheme.start(interval, next_id));
                model.entry(now + u64::from(interval)).or_default().push(timer);
                next_id += 1;
                outstanding += 1;
            }
        }
        if random.u32(..2) == 0 && outstanding > 0 {
            // The timers around some moment; the last if there are none so late.
            let moment = now + u64::from(interval(&mut random, S::LONGEST));
            let mut at = model.range_mut(moment..).next();
            if at.is_none() {
                at = model.iter_mut().next_back();
            }
            let (&deadline, timers) = at.expect("there are outstanding timers");
            let (_, handle) = timers.swap_remove(random.u32(..timers.len() as u32) as usize);
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

#[test]
fn every_scheme_fires_what_the_model_does() {
    fn hold_for_some_seeds<S: Scheme>() {
        for seed in 0..5 {
            hold(S::new(), seed, 200_000);
        }
    }
    hold_for_some_seeds::<Unordered>();
    hold_for_some_seeds::<Ordered>();
    hold_for_some_seeds::<Tree>();
    hold_for_some_seeds::<SimpleWheel>();
    hold_for_some_seeds::<HashedSorted>();
    hold_for_some_seeds::<HashedUnsorted>();
    hold_for_some_seeds::<Hierarchical>();
    hold_for_some_seeds::<Wheel<u32>>();
}
