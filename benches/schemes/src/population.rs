//! A scheme with a number of pending timers. Only the scheme's own work is timed, not the bookkeeping around it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tools::Rng;

use crate::schemes::Scheme;

/// The mean interval of the timers, in ticks.
pub(crate) const MEAN: u32 = 4_096;
/// The longest interval. The limit shortens one exponential interval in nine million.
pub(crate) const LONGEST: u32 = MEAN * 16 - 1;

/// What reading the clock twice takes. Every timing includes it, so it is subtracted.
static CLOCK: LazyLock<Duration> = LazyLock::new(|| {
    let mut readings: Vec<Duration> = (0..1_001).map(|_| Instant::now().elapsed()).collect();
    readings.sort_unstable();
    readings[readings.len() / 2]
});

fn timed(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed().saturating_sub(*CLOCK)
}

/// An interval, exponentially distributed. That distribution has no memory, so the remaining time of a timer that was
/// started earlier is distributed in the same way.
fn interval(random: &mut Rng) -> u32 {
    ((-f64::from(MEAN) * (1.0 - random.f64()).ln()).ceil() as u32).clamp(1, LONGEST)
}

pub(crate) struct Population<S: Scheme> {
    scheme: S,
    random: Rng,
    /// By id; `None` if the timer is not pending.
    handles: Vec<Option<S::Handle>>,
    /// Ids that are not in use.
    spare: Vec<u32>,
    fired: Vec<u32>,
}

impl<S: Scheme> Population<S> {
    /// A population in its steady state. Each of its timers has been replaced at random, which leaves them in memory as
    /// after a long run.
    pub(crate) fn new(size: u32, seed: u64) -> Self {
        let (handles, spare, fired) = (Vec::new(), Vec::new(), Vec::new());
        let mut population = Population { scheme: S::default(), random: Rng::with_seed(seed), handles, spare, fired };
        population.start(size);
        for _ in 0..size {
            population.stop(1);
            population.start(1);
        }
        population
    }

    /// How many timers are pending.
    pub(crate) fn len(&self) -> u32 {
        (self.handles.len() - self.spare.len()) as u32
    }

    /// Starts timers and returns how long that took.
    pub(crate) fn start(&mut self, count: u32) -> Duration {
        let mut to_start = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let id = self.spare.pop().unwrap_or_else(|| {
                self.handles.push(None);
                self.handles.len() as u32 - 1
            });
            to_start.push((interval(&mut self.random), id));
        }
        let mut started = Vec::with_capacity(count as usize);
        let took = timed(|| to_start.iter().for_each(|&(interval, id)| started.push(self.scheme.start(interval, id))));
        for ((_, id), handle) in to_start.into_iter().zip(started) {
            self.handles[id as usize] = Some(handle);
        }
        took
    }

    /// Stops timers picked at random and returns how long that took.
    pub(crate) fn stop(&mut self, count: u32) -> Duration {
        let mut to_stop = Vec::with_capacity(count as usize);
        while to_stop.len() < count as usize {
            let id = self.random.usize(..self.handles.len());
            if let Some(handle) = self.handles[id].take() {
                to_stop.push(handle);
                self.spare.push(id as u32);
            }
        }
        timed(|| to_stop.iter().for_each(|&handle| self.scheme.stop(handle)))
    }

    /// Lets ticks pass and returns how long that took. Timers that fire are not started again.
    pub(crate) fn tick(&mut self, ticks: u32) -> Duration {
        self.fired.clear();
        self.fired.reserve(self.len() as usize);
        let took = timed(|| (0..ticks).for_each(|_| self.scheme.per_tick(&mut |id| self.fired.push(id))));
        for &id in &self.fired {
            self.handles[id as usize] = None;
            self.spare.push(id);
        }
        took
    }
}
