//! The workload: how long timers are set for, and a population of them that is kept at the same size.

use std::time::{Duration, Instant};

use tools::Rng;

use crate::schemes::Scheme;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// Most are short, a few are long.
    Exponential,
    /// From one tick up to twice the mean, all alike.
    Uniform,
}

/// The intervals that timers are set for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Intervals {
    pub(crate) shape: Shape,
    pub(crate) mean: u32,
    /// How often each timer would be stopped in `mean` ticks: 0 if all of them fire.
    pub(crate) stops: f64,
}

impl Intervals {
    /// The longest, so that a simple wheel can be built for it. One exponential interval in nine million is cut.
    fn longest(self) -> u32 {
        self.mean * 16 - 1
    }

    fn draw(self, random: &mut Rng) -> u32 {
        let mean = f64::from(self.mean);
        let interval = match self.shape {
            Shape::Exponential => -mean * (1.0 - random.f64()).ln(),
            Shape::Uniform => 2.0 * mean * (1.0 - random.f64()),
        };
        (interval.ceil() as u32).clamp(1, self.longest())
    }

    /// How long a timer of a standing population has still to run. That is not as long as a fresh one's interval, so a
    /// population drawn in this way need not run for long before it is what it will stay.
    fn draw_rest(self, random: &mut Rng) -> u32 {
        match self.shape {
            // Exponential intervals have no memory.
            Shape::Exponential => self.draw(random),
            // A timer with `rest` ticks left was started at most `twice the mean - rest` ago and was not stopped since.
            // Adding that up over all starts gives each rest a weight; numbers are drawn until one passes by its
            // weight.
            Shape::Uniform => loop {
                let rest = self.draw(random);
                let longest_age = 2.0 - f64::from(rest) / f64::from(self.mean);
                let (weight, heaviest) = if self.stops > 0.0 {
                    (1.0 - (-self.stops * longest_age).exp(), 1.0 - (-self.stops * 2.0).exp())
                } else {
                    (longest_age, 2.0)
                };
                if (1.0 - random.f64()) * heaviest <= weight {
                    return rest;
                }
            },
        }
    }
}

/// A scheme and its outstanding timers. Only the scheme's own work is timed, not the bookkeeping of this harness.
pub(crate) struct Population<S: Scheme> {
    pub(crate) scheme: S,
    intervals: Intervals,
    random: Rng,
    clock: Duration,
    /// The ids of the timers that are outstanding, in no order.
    outstanding: Vec<u32>,
    /// For each id, where it is in `outstanding`.
    place: Vec<u32>,
    handles: Vec<Option<S::Handle>>,
    spare: Vec<u32>,
    // Kept from call to call, so that no call allocates while it is timed.
    to_start: Vec<(u32, u32)>,
    started: Vec<S::Handle>,
    to_stop: Vec<S::Handle>,
    fired: Vec<u32>,
}

impl<S: Scheme> Population<S> {
    /// `size` timers, started and then replaced one by one in random order, so that they lie in memory as they will
    /// after a long run. `clock` is what reading the clock costs.
    pub(crate) fn new(size: u32, intervals: Intervals, seed: u64, clock: Duration) -> Self {
        Self::with_rests(size, intervals, seed, clock, |random| intervals.draw_rest(random))
    }

    /// The same with the intervals of the first population given.
    pub(crate) fn with_rests(
        size: u32,
        intervals: Intervals,
        seed: u64,
        clock: Duration,
        mut rest: impl FnMut(&mut Rng) -> u32,
    ) -> Self {
        assert!(intervals.longest() <= S::LONGEST, "{} takes no interval that long", S::NAME);
        let mut population = Population {
            scheme: S::new(),
            intervals,
            random: Rng::with_seed(seed),
            clock,
            outstanding: Vec::new(),
            place: Vec::new(),
            handles: Vec::new(),
            spare: Vec::new(),
            to_start: Vec::new(),
            started: Vec::new(),
            to_stop: Vec::new(),
            fired: Vec::new(),
        };
        population.start_with(size, &mut rest);
        for _ in 0..size {
            population.stop(1);
            population.start_with(1, &mut rest);
        }
        population
    }

    pub(crate) fn len(&self) -> u32 {
        self.outstanding.len() as u32
    }

    /// Starts timers; says how long that took.
    pub(crate) fn start(&mut self, count: u32) -> Duration {
        let intervals = self.intervals;
        self.start_with(count, &mut |random| intervals.draw(random))
    }

    fn start_with(&mut self, count: u32, interval: &mut impl FnMut(&mut Rng) -> u32) -> Duration {
        self.to_start.clear();
        for _ in 0..count {
            let id = self.spare.pop().unwrap_or_else(|| {
                self.handles.push(None);
                self.place.push(0);
                self.handles.len() as u32 - 1
            });
            self.to_start.push((interval(&mut self.random), id));
        }
        self.started.clear();
        self.started.reserve(count as usize);
        let begin = Instant::now();
        for &(interval, id) in &self.to_start {
            self.started.push(self.scheme.start(interval, id));
        }
        let took = begin.elapsed().saturating_sub(self.clock);
        for (&(_, id), &handle) in self.to_start.iter().zip(&self.started) {
            self.handles[id as usize] = Some(handle);
            self.place[id as usize] = self.outstanding.len() as u32;
            self.outstanding.push(id);
        }
        took
    }

    /// Stops timers picked at random; says how long that took.
    pub(crate) fn stop(&mut self, count: u32) -> Duration {
        self.to_stop.clear();
        for _ in 0..count {
            let at = self.random.u32(..self.len()) as usize;
            let id = self.outstanding[at];
            self.to_stop.push(self.handles[id as usize].expect("an outstanding timer has a handle"));
            self.forget(id);
        }
        let begin = Instant::now();
        for &handle in &self.to_stop {
            self.scheme.stop(handle);
        }
        begin.elapsed().saturating_sub(self.clock)
    }

    /// Lets ticks pass without starting anew what fires; says how long that took.
    pub(crate) fn tick(&mut self, ticks: u32) -> Duration {
        let mut fired = std::mem::take(&mut self.fired);
        fired.clear();
        // All may fire if the population is small.
        fired.reserve(self.outstanding.len());
        let begin = Instant::now();
        for _ in 0..ticks {
            self.scheme.per_tick(&mut |id| fired.push(id));
        }
        let took = begin.elapsed().saturating_sub(self.clock);
        for &id in &fired {
            self.forget(id);
        }
        self.fired = fired;
        took
    }

    fn forget(&mut self, id: u32) {
        let at = self.place[id as usize];
        self.outstanding.swap_remove(at as usize);
        if let Some(&moved) = self.outstanding.get(at as usize) {
            self.place[moved as usize] = at;
        }
        self.handles[id as usize] = None;
        self.spare.push(id);
    }
}

/// What it costs to read the clock twice: part of whatever is timed.
pub(crate) fn clock_cost() -> Duration {
    let mut costs: Vec<Duration> = (0..1_001).map(|_| Instant::now().elapsed()).collect();
    costs.sort_unstable();
    costs[costs.len() / 2]
}
