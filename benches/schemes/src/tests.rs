//! Compares each scheme with a map from deadlines to timers, under random starts, stops and ticks.

use std::collections::BTreeMap;

use tools::Rng;

use crate::schemes::{
    HashedSorted, HashedUnsorted, Hierarchical, Ordered, Scheme, SimpleWheel, Tree, Unordered, Wheel,
};

/// Short and long intervals, many of them around the boundaries of slots, levels and turns.
fn interval(random: &mut Rng, longest: u32) -> u32 {
    let power = 1 << random.u32(..18);
    let near = match random.u32(..3) {
        0 => random.u32(..power) + 1,
        1 => power + random.u32(..3) - 1,
        _ => random.u32(..200) + 1,
    };
    near.clamp(1, longest)
}

/// Panics if the scheme and the map do not fire the same timers on each tick.
pub(crate) fn compare_with_a_map<S: Scheme>(mut scheme: S, seed: u64, ticks: u64) {
    let mut random = Rng::with_seed(seed);
    let mut map: BTreeMap<u64, Vec<(u32, S::Handle)>> = BTreeMap::new();
    let mut pending = 0;
    let mut next_id = 0;
    for now in 0..ticks {
        for _ in 0..random.u32(..4) {
            if pending < 500 {
                let interval = interval(&mut random, S::LONGEST);
                let timer = (next_id, scheme.start(interval, next_id));
                map.entry(now + u64::from(interval)).or_default().push(timer);
                next_id += 1;
                pending += 1;
            }
        }
        if random.u32(..2) == 0 && pending > 0 {
            // Stops a timer due at or after a random time, or one of the last if there is none.
            let moment = now + u64::from(interval(&mut random, S::LONGEST));
            let mut at = map.range_mut(moment..).next();
            if at.is_none() {
                at = map.iter_mut().next_back();
            }
            let (&deadline, timers) = at.expect("timers are pending");
            let (_, handle) = timers.swap_remove(random.u32(..timers.len() as u32) as usize);
            if timers.is_empty() {
                map.remove(&deadline);
            }
            scheme.stop(handle);
            pending -= 1;
        }
        let mut fired = Vec::new();
        scheme.per_tick(&mut |id| fired.push(id));
        fired.sort_unstable();
        let mut expected: Vec<u32> = map.remove(&(now + 1)).into_iter().flatten().map(|(id, _)| id).collect();
        expected.sort_unstable();
        assert_eq!(fired, expected, "{} at tick {now}, seed {seed}", S::NAME);
        pending -= fired.len();
    }
}

#[test]
fn every_scheme_fires_the_same_timers_as_a_map() {
    fn with_some_seeds<S: Scheme>() {
        for seed in 0..5 {
            compare_with_a_map(S::default(), seed, 200_000);
        }
    }
    with_some_seeds::<Unordered>();
    with_some_seeds::<Ordered>();
    with_some_seeds::<Tree>();
    with_some_seeds::<SimpleWheel>();
    with_some_seeds::<HashedSorted>();
    with_some_seeds::<HashedUnsorted>();
    with_some_seeds::<Hierarchical>();
    with_some_seeds::<Wheel<u32>>();
}
