//! Runs rounds of a target, and shortens a failing one. A seed determines a round.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::common::{Random, panicked_with};

/// How long to keep shortening a failing list of operations.
const SHRINKING: Duration = Duration::from_secs(20);

/// How often a list must pass to count as passing. A `DeadlineMap` hashes differently each time.
const TRIES: usize = 3;

/// An entry, or once in `one_in` a stale key, which has no rank.
pub(crate) fn pick<K: Copy, R>(
    any: u32,
    one_in: usize,
    stale: &[K],
    mut entries: impl ExactSizeIterator<Item = (K, Option<R>)>,
) -> Option<(K, Option<R>)> {
    let any = any as usize;
    if any % one_in == 0 && !stale.is_empty() {
        return Some((stale[any / one_in % stale.len()], None));
    }
    let at = any / one_in % entries.len().max(1);
    entries.nth(at)
}

/// A thing under test and its model, side by side.
///
/// A seed determines the set-up, and operations are self-contained, so any part of a list of operations can run again.
pub(crate) trait Target: Sized {
    type Op: Clone + Debug;

    fn new(random: &mut Random) -> Round<Self>;

    /// An operation that makes sense in the present state.
    fn generate(&mut self, random: &mut Random) -> Self::Op;

    /// Performs an operation on both sides, and panics if they differ.
    fn apply(&mut self, op: &Self::Op);

    /// Ends everything, and panics if the model disagrees.
    fn finish(&mut self);
}

/// A target, the number of operations to perform on it, and a description of its set-up.
pub(crate) struct Round<T> {
    pub(crate) target: T,
    pub(crate) length: usize,
    pub(crate) set_up: String,
}

/// Runs the round of a seed, and returns a report if it fails.
pub(crate) fn round<T: Target>(seed: u64) -> Result<(), String> {
    let mut log = Vec::new();
    let result = panicked_with(|| {
        let mut random = Random::new(seed);
        let Round { mut target, length, .. } = T::new(&mut random);
        for _ in 0..length {
            let op = target.generate(&mut random);
            log.push(op.clone());
            target.apply(&op);
        }
        target.finish();
    });
    result.map_err(|message| report::<T>(seed, &message, &log))
}

fn report<T: Target>(seed: u64, message: &str, log: &[T::Op]) -> String {
    let mut last = message.to_owned();
    let ops = shrunk(log, |ops| replay::<T>(seed, ops).map_err(|message| last = message).is_err());
    let listed: Vec<String> = ops.iter().map(|op| format!("    {op:?}")).collect();
    format!(
        "{message}\n\
         set-up: {}\n\
         shortened from {} to {} operations, which end with: {last}\n{}",
        T::new(&mut Random::new(seed)).set_up,
        log.len(),
        ops.len(),
        listed.join("\n"),
    )
}

fn replay<T: Target>(seed: u64, ops: &[T::Op]) -> Result<(), String> {
    (0..TRIES).try_for_each(|_| {
        panicked_with(|| {
            let mut target = T::new(&mut Random::new(seed)).target;
            for op in ops {
                target.apply(op);
            }
            target.finish();
        })
    })
}

/// Leaves out operations that the failure does not need: halves, then quarters, down to single ones.
fn shrunk<O: Clone>(ops: &[O], mut fails: impl FnMut(&[O]) -> bool) -> Vec<O> {
    let start = Instant::now();
    let mut kept = ops.to_vec();
    if !fails(&kept) {
        return kept;
    }
    let mut size = kept.len();
    loop {
        let before = kept.len();
        size = size.div_ceil(2).max(1);
        let mut end = kept.len();
        while end > 0 && start.elapsed() < SHRINKING {
            let from = end.saturating_sub(size);
            let less = [&kept[..from], &kept[end..]].concat();
            if fails(&less) {
                kept = less;
            }
            end = from;
        }
        if start.elapsed() > SHRINKING || (size == 1 && kept.len() == before) {
            return kept;
        }
    }
}

#[test]
fn shrinking_keeps_only_what_the_failure_needs() {
    let all: Vec<u32> = (0..1_000).collect();
    let needed = [3, 4, 500, 999];
    assert_eq!(shrunk(&all, |ops| needed.iter().all(|op| ops.contains(op))), needed);
}
