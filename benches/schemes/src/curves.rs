//! The cost of start, stop and one tick against the number of outstanding timers.

use std::time::{Duration, Instant};

use crate::load::{Intervals, Population, Shape};
use crate::schemes::{
    HashedSorted, HashedUnsorted, Hierarchical, Ordered, Scheme, SimpleWheel, Tree, Unordered, Wheel,
};

pub(crate) const MEAN: u32 = 4_096;
pub(crate) const OPERATIONS: [&str; 3] = ["start", "stop", "per tick"];

/// A tick's cost is averaged over this many, so that each sample holds its share of rare and dear ticks: the slots of
/// the hierarchical wheels' third level are this far apart.
const TURN: u32 = 4_096;

/// Nanoseconds for each of the `OPERATIONS`.
type Sample = [f64; 3];

/// All that was measured of one scheme, at one population.
pub(crate) struct Point {
    pub(crate) scheme: &'static str,
    pub(crate) shape: Shape,
    pub(crate) size: u32,
    /// None if the point was left out as it would take too long.
    samples: Vec<Sample>,
}

impl Point {
    /// The lower quartile of the samples, the middle and the upper quartile.
    pub(crate) fn cost(&self, operation: usize) -> Option<[f64; 3]> {
        let mut samples: Vec<f64> = self.samples.iter().map(|sample| sample[operation]).collect();
        samples.sort_unstable_by(f64::total_cmp);
        (!samples.is_empty()).then(|| [0.25, 0.5, 0.75].map(|share| tools::quantile(&samples, share)))
    }

    pub(crate) fn samples(&self) -> usize {
        self.samples.len()
    }
}

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) sizes: &'static [u32],
    /// How often everything is gone through, so that a slow spell of the machine falls on all schemes alike.
    pub(crate) passes: u32,
    /// For one point in one pass.
    pub(crate) time: Duration,
    /// The largest population for the unordered list, each of whose ticks visits everyone, and for the ordered list,
    /// whose start visits half of them.
    pub(crate) longest_lists: [u32; 2],
}

/// Measures everything: grouped by shape and scheme, with the sizes in order.
pub(crate) fn measure(effort: Effort, clock: Duration) -> Vec<Point> {
    let [unordered, ordered] = effort.longest_lists;
    let mut all = Vec::new();
    for pass in 0..effort.passes {
        let mut points = Vec::new();
        for shape in [Shape::Exponential, Shape::Uniform] {
            macro_rules! measure {
                ($($scheme:ty, $largest:expr;)*) => {$(
                    for &size in effort.sizes {
                        let is_left_out = size > $largest;
                        let all = || samples::<$scheme>(effort.time, size, shape, pass.into(), clock);
                        let samples = if is_left_out { Vec::new() } else { all() };
                        points.push(Point { scheme: <$scheme>::NAME, shape, size, samples });
                    }
                )*};
            }
            measure! {
                Unordered, unordered;
                Ordered, ordered;
                Tree, u32::MAX;
                SimpleWheel, u32::MAX;
                HashedSorted, u32::MAX;
                HashedUnsorted, u32::MAX;
                Hierarchical, u32::MAX;
                Wheel<u32>, u32::MAX;
            }
        }
        if all.is_empty() {
            all = points;
        } else {
            for (all, point) in all.iter_mut().zip(points) {
                all.samples.extend(point.samples);
            }
        }
    }
    all
}

fn samples<S: Scheme>(time: Duration, size: u32, shape: Shape, seed: u64, clock: Duration) -> Vec<Sample> {
    let intervals = Intervals { shape, mean: MEAN, stops: 1.0 };
    let mut run = Run::new(Population::<S>::new(size, intervals, seed, clock));
    let end = Instant::now() + time;
    // The first turn warms up caches and branch predictors. If it took all the time, it has to do.
    let mut samples = vec![run.turn(end)];
    while Instant::now() < end {
        samples.push(run.turn(end));
    }
    if samples.len() > 2 {
        samples.remove(0);
        // Cut short by the end.
        samples.pop();
    }
    samples
}

/// A population under way: timers fire and are stopped in about equal numbers, and for each another one is started.
struct Run<S: Scheme> {
    population: Population<S>,
    size: u32,
    /// How many timers are stopped, and started, at a time.
    batch: u32,
    ticks_per_batch: u32,
    ticks_to_batch: u32,
}

impl<S: Scheme> Run<S> {
    fn new(population: Population<S>) -> Self {
        let size = population.len();
        let batch = (size * 3 / 5).min(256);
        // Half as many again are stopped untimed.
        let ticks_per_batch = (batch * 3 / 2 * MEAN / size).max(1);
        Run { population, size, batch, ticks_per_batch, ticks_to_batch: ticks_per_batch }
    }

    /// Some thousand ticks with the starts and stops that belong to them. It is cut at `end`, for those schemes that
    /// are so slow that each of their ticks is like the other.
    fn turn(&mut self, end: Instant) -> Sample {
        let mut took = [Duration::ZERO; 3];
        let mut batches = 0;
        let mut ticks = 0;
        while ticks < TURN && (batches == 0 || Instant::now() < end) {
            // Short enough that only few of the population fire before others are started in their place.
            let step = (MEAN / 32).min(self.ticks_to_batch).min(TURN - ticks);
            took[2] += self.population.tick(step);
            self.population.start(self.size - self.population.len());
            ticks += step;
            self.ticks_to_batch -= step;
            if self.ticks_to_batch == 0 {
                // With half a batch more at first, the population is on average what it should be.
                self.population.start(self.batch / 2);
                took[1] += self.population.stop(self.batch);
                took[0] += self.population.start(self.batch);
                self.population.stop(self.batch / 2);
                batches += 1;
                self.ticks_to_batch = self.ticks_per_batch;
            }
        }
        let each = |took: Duration, count: u32| took.as_nanos() as f64 / f64::from(count);
        let operations = batches * self.batch;
        [each(took[0], operations), each(took[1], operations), each(took[2], ticks)]
    }
}
