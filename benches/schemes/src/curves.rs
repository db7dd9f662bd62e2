//! The cost of a start, a stop and a tick against the number of pending timers.

use std::fmt::Write;
use std::time::{Duration, Instant};

use tools::chart::{self, Axis, Panel};
use tools::{median, table};

use crate::population::{LONGEST, MEAN, Population};
use crate::schemes::{
    HashedSorted, HashedUnsorted, Hierarchical, Ordered, Scheme, SimpleWheel, Tree, Unordered, Wheel,
};

const OPERATIONS: [&str; 3] = ["start", "stop", "per tick"];

/// The ticks per sample. The hierarchical wheels' third-level slots are this far apart, so each sample contains its
/// share of expensive ticks.
const TURN: u32 = 4_096;

/// Nanoseconds for each of the `OPERATIONS`.
type Sample = [f64; 3];

#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    largest: u32,
    measure: fn(u32, u64, Duration) -> Vec<Sample>,
}

const fn contender<S: Scheme>() -> Contender {
    assert!(S::LONGEST >= LONGEST);
    Contender { name: S::NAME, largest: S::LARGEST, measure: measure_one::<S> }
}

const CONTENDERS: [Contender; 8] = [
    contender::<Unordered>(),
    contender::<Ordered>(),
    contender::<Tree>(),
    contender::<SimpleWheel>(),
    contender::<HashedSorted>(),
    contender::<HashedUnsorted>(),
    contender::<Hierarchical>(),
    contender::<Wheel<u32>>(),
];

/// The costs of one scheme.
pub(crate) struct Curve {
    scheme: Contender,
    /// By size; empty if the population is too large for the scheme.
    samples: Vec<Vec<Sample>>,
}

impl Curve {
    /// The median cost of an operation for each size.
    fn costs(&self, operation: usize) -> impl Iterator<Item = Option<f64>> {
        let cost = move |samples: &Vec<Sample>| median(samples.iter().map(|sample| sample[operation]).collect());
        self.samples.iter().map(move |samples| (!samples.is_empty()).then(|| cost(samples)))
    }
}

/// Measures every curve for `time` per point and pass. With several passes, a slow phase of the machine affects all
/// schemes alike.
pub(crate) fn measure(sizes: &[u32], passes: u64, time: Duration) -> [Curve; 8] {
    let mut curves = CONTENDERS.map(|scheme| Curve { scheme, samples: vec![Vec::new(); sizes.len()] });
    for seed in 0..passes {
        for Curve { scheme, samples } in &mut curves {
            for (samples, &size) in samples.iter_mut().zip(sizes).filter(|(_, size)| **size <= scheme.largest) {
                samples.extend((scheme.measure)(size, seed, time));
            }
        }
    }
    curves
}

fn measure_one<S: Scheme>(size: u32, seed: u64, time: Duration) -> Vec<Sample> {
    let mut population = Population::<S>::new(size, seed);
    let end = Instant::now() + time;
    let mut samples = vec![turn(&mut population, end)];
    while Instant::now() < end {
        samples.push(turn(&mut population, end));
    }
    if samples.len() > 2 {
        // The first turn warms up caches and branch predictors. The last is cut short.
        samples.remove(0);
        samples.pop();
    }
    samples
}

/// Samples `TURN` ticks, or fewer if `end` comes first. Timers that fire are replaced, and about as many are stopped and
/// replaced, in batches of up to 256.
fn turn<S: Scheme>(population: &mut Population<S>, end: Instant) -> Sample {
    let size = population.len();
    let stopped = size * 2 / 3;
    let batches = stopped.div_ceil(256);
    let batch = stopped / batches;
    let [mut starts, mut stops, mut ticking] = [Duration::ZERO; 3];
    let (mut ticks, mut done) = (0, 0);
    while done < batches && (done == 0 || Instant::now() < end) {
        done += 1;
        while ticks < TURN * done / batches {
            // Short steps: few timers fire before they are replaced.
            let step = (MEAN / 32).min(TURN * done / batches - ticks);
            ticking += population.tick(step);
            population.start(size - population.len());
            ticks += step;
        }
        // Half a batch more before and half a batch fewer after keep the population at its size on average.
        population.start(batch / 2);
        stops += population.stop(batch);
        starts += population.start(batch);
        population.stop(batch / 2);
    }
    [(starts, done * batch), (stops, done * batch), (ticking, ticks)]
        .map(|(took, count)| took.as_nanos() as f64 / f64::from(count))
}

pub(crate) fn tables(curves: &[Curve], sizes: &[u32]) -> String {
    let mut out = String::new();
    for (operation, name) in OPERATIONS.iter().enumerate() {
        let head: Vec<String> =
            [format!("{name}, ns")].into_iter().chain(sizes.iter().map(ToString::to_string)).collect();
        let row = |curve: &Curve| {
            let costs = curve.costs(operation).map(|cost| cost.map_or("-".to_owned(), short));
            [curve.scheme.name.to_owned()].into_iter().chain(costs).collect()
        };
        let rows: Vec<Vec<String>> = curves.iter().map(row).collect();
        let _ = writeln!(out, "\nexponential intervals, mean {MEAN} ticks, by the number of timers");
        let _ = writeln!(out, "{}", table(&head, &rows));
    }
    out
}

/// The curves as SVG: a panel for each operation, both axes logarithmic.
pub(crate) fn draw(curves: &[Curve], sizes: &[u32], machine: &str) -> String {
    let points = |curve: &Curve, operation| {
        let points = sizes.iter().zip(curve.costs(operation));
        points.filter_map(|(&size, cost)| Some((f64::from(size).log10(), cost?.log10()))).collect()
    };
    let panel = |operation: usize| Panel {
        title: OPERATIONS[operation].to_owned(),
        curves: curves.iter().map(|curve| points(curve, operation)).collect(),
    };
    let label = |power| short(10_f64.powf(power));
    let axes = [&Axis { range: 1.0..5.0, label }, &Axis { range: -1.0..6.0, label: |power| time(10_f64.powf(power)) }];
    let title = format!("Time of an operation against pending timers; exponential intervals, mean {MEAN} ticks");
    let names = CONTENDERS.map(|scheme| scheme.name);
    chart::curves([&title, machine], &names, &[0, 1, 2].map(panel), axes)
}

/// A number of nanoseconds, with a unit.
fn time(nanos: f64) -> String {
    match nanos {
        ..1_000.0 => format!("{nanos:.0} ns"),
        ..1_000_000.0 => format!("{:.0} µs", nanos / 1_000.0),
        _ => format!("{:.0} ms", nanos / 1_000_000.0),
    }
}

/// Rounds a number to two or three digits; a measurement is not more exact.
fn short(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.1}"),
        ..10_000.0 => format!("{number:.0}"),
        _ => format!("{:.0}k", number / 1_000.0),
    }
}
