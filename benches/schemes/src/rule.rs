//! The paper's rule for choosing between scheme 6 and scheme 7, held against the measurement.
//!
//! While a timer lives, scheme 6 counts it down once in each turn of its wheel of M slots: with a mean interval of T, T
//! / M times, at a cost of c6 each. Scheme 7 moves it down a level at most once for each of its m levels, at c7 each.
//! What both do once a timer, starting and firing it, leaves the choice alone. So scheme 6 is the cheaper one as long
//! as T / M * c6 < m * c7: if intervals are short for the memory one has.

use std::time::{Duration, Instant};

use tools::{Rng, median};

use crate::load::{Intervals, Population, Shape};
use crate::schemes::{HashedUnsorted, Hierarchical, LEVELS, SLOTS, Scheme, Wheel};

/// How many timers are outstanding.
pub(crate) const SIZE: u32 = 10_000;

/// What one mean interval cost.
pub(crate) struct Row {
    pub(crate) mean: u32,
    /// Nanoseconds a tick: schemes 6 and 7 and hairspring's wheel.
    pub(crate) per_tick: [f64; 3],
    /// How often a timer was touched before it fired.
    pub(crate) touched: [f64; 3],
}

pub(crate) struct Rule {
    pub(crate) rows: Vec<Row>,
    /// Nanoseconds to count a timer of scheme 6 down.
    pub(crate) c6: f64,
    /// Nanoseconds to move a timer of scheme 7 to another level.
    pub(crate) c7: f64,
}

impl Rule {
    /// The mean interval from which on scheme 7 took less for a tick than scheme 6 did.
    pub(crate) fn measured(&self) -> Option<f64> {
        self.crossing(|row| (row.per_tick[0], row.per_tick[1]))
    }

    /// The same by the rule as the paper gives it.
    pub(crate) fn by_bounds(&self) -> f64 {
        f64::from(SLOTS) * f64::from(LEVELS) * self.c7 / self.c6
    }

    /// The same by the rule with the touches that were counted, in place of T / M and of m.
    pub(crate) fn by_counts(&self) -> Option<f64> {
        self.crossing(|row| (row.touched[0] * self.c6, row.touched[1] * self.c7))
    }

    /// Where the first cost becomes the higher one of the two, on a line through neighbouring rows.
    fn crossing(&self, costs: impl Fn(&Row) -> (f64, f64)) -> Option<f64> {
        let points: Vec<(f64, f64)> = self
            .rows
            .iter()
            .map(|row| {
                let (six, seven) = costs(row);
                (f64::from(row.mean).ln(), (six / seven).ln())
            })
            .filter(|(_, ratio)| ratio.is_finite())
            .collect();
        points.windows(2).find_map(|pair| {
            let [(left, before), (right, after)] = [pair[0], pair[1]];
            (before < 0.0 && after >= 0.0).then(|| (left + (right - left) * before / (before - after)).exp())
        })
    }
}

/// Measures the curves at these mean intervals, and c6 and c7.
pub(crate) fn measure(means: &[u32], passes: u32, time: Duration, clock: Duration) -> Rule {
    // For each mean interval and each scheme. As with the curves, a slow spell of the machine is to fall on all alike.
    let mut samples = vec![<[Vec<(f64, f64)>; 3]>::default(); means.len()];
    for pass in 0..passes {
        let seed = u64::from(pass);
        for (&mean, [six, seven, ours]) in means.iter().zip(&mut samples) {
            six.extend(run::<HashedUnsorted>(mean, time, seed, clock));
            seven.extend(run::<Hierarchical>(mean, time, seed, clock));
            ours.extend(run::<Wheel<u32>>(mean, time, seed, clock));
        }
    }
    let row = |(&mean, samples): (&u32, &[Vec<(f64, f64)>; 3])| Row {
        mean,
        per_tick: samples.each_ref().map(|samples| median(samples.iter().map(|sample| sample.0).collect())),
        touched: samples.each_ref().map(|samples| median(samples.iter().map(|sample| sample.1).collect())),
    };
    let rows = means.iter().zip(&samples).map(row).collect();
    let tries = 5 * passes;
    let c6 = median((0..tries).map(|seed| count_down(u64::from(seed), clock)).collect());
    let c7 = median((0..tries).map(|seed| move_down(u64::from(seed), clock)).collect());
    Rule { rows, c6, c7 }
}

/// The cost of a tick, and how often a timer was touched, in each turn that the time sufficed for.
fn run<S: Scheme>(mean: u32, time: Duration, seed: u64, clock: Duration) -> Vec<(f64, f64)> {
    let intervals = Intervals { shape: Shape::Exponential, mean, stops: 0.0 };
    let mut population = Population::<S>::new(SIZE, intervals, seed, clock);
    // A turn is long beside a timer's life, and a whole number of slots of a high level.
    let turn = (mean * 64).clamp(1 << 12, 1 << 18);
    let step = (mean / 32).max(1);
    let end = Instant::now() + time;
    let mut samples = Vec::new();
    while samples.len() < 2 || Instant::now() < end {
        let (mut took, mut ticks, mut fired) = (Duration::ZERO, 0, 0);
        let touched = population.scheme.touched();
        while ticks < turn {
            took += population.tick(step);
            ticks += step;
            let gone = SIZE - population.len();
            fired += gone;
            population.start(gone);
        }
        let touched = (population.scheme.touched() - touched) as f64;
        samples.push((took.as_nanos() as f64 / f64::from(ticks), touched / f64::from(fired)));
    }
    // The first turn warms up.
    samples.remove(0);
    samples
}

/// c6: a population none of whose timers will fire for long is counted down for some turns of the wheel.
fn count_down(seed: u64, clock: Duration) -> f64 {
    let intervals = Intervals { shape: Shape::Uniform, mean: 1 << 20, stops: 0.0 };
    let rest = |random: &mut Rng| (1 << 20) + random.u32(..1 << 16);
    let mut population = Population::<HashedUnsorted>::with_rests(SIZE, intervals, seed, clock, rest);
    population.tick(SLOTS);
    let before = population.scheme.touched();
    let took = population.tick(16 * SLOTS);
    took.as_nanos() as f64 / (population.scheme.touched() - before) as f64
}

/// c7: all timers start on the third level of the wheel. Only the ticks on which they move are timed: the one on which
/// all of them move to the second level, and those on which a slot of that one moves to the first.
fn move_down(seed: u64, clock: Duration) -> f64 {
    let intervals = Intervals { shape: Shape::Uniform, mean: 1 << 13, stops: 0.0 };
    // An odd deadline is not the first tick of a slot, so nothing fires on the ticks that are timed. One in the first
    // 64 ticks would skip the second level.
    let rest = |random: &mut Rng| (4_096 + 64 + random.u32(..4_096 - 64)) | 1;
    let mut population = Population::<Hierarchical>::with_rests(SIZE, intervals, seed, clock, rest);
    population.tick(4_095);
    assert_eq!(population.scheme.touched(), 0);
    let mut took = population.tick(1);
    for _ in 1..64 {
        population.tick(63);
        took += population.tick(1);
    }
    assert_eq!(population.scheme.touched(), 2 * u64::from(SIZE));
    took.as_nanos() as f64 / population.scheme.touched() as f64
}
