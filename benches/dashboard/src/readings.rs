//! The metrics of the last second, and what they say about it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hairspring::timer::Metrics;

/// Over how long a rate is taken.
const SPAN: Duration = Duration::from_secs(1);
/// How long a slot is remembered that was occupied.
const MEMORY: Duration = Duration::from_millis(400);

pub(crate) struct Readings {
    latest: Metrics,
    /// From the earliest on; the latest is among them.
    recent: VecDeque<Reading>,
}

struct Reading {
    at: Instant,
    counts: [u64; 5],
    occupied: Vec<u64>,
}

const NAMES: [&str; 5] = ["registered", "fired", "cancelled", "turns", "cascaded"];

impl Readings {
    pub(crate) fn new(metrics: Metrics) -> Self {
        let recent = VecDeque::from([Reading::of(&metrics)]);
        Readings { latest: metrics, recent }
    }

    pub(crate) fn add(&mut self, metrics: Metrics) {
        let reading = Reading::of(&metrics);
        while self.recent.front().is_some_and(|first| reading.at.duration_since(first.at) > SPAN) {
            self.recent.pop_front();
        }
        self.recent.push_back(reading);
        self.latest = metrics;
    }

    pub(crate) fn latest(&self) -> &Metrics {
        &self.latest
    }

    /// Each count: its name, what it is, and by how much it grows in a second.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64, u64)> {
        let (first, last) = (&self.recent[0], &self.recent[self.recent.len() - 1]);
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        let count = |(place, name)| {
            let (before, total) = (first.counts[place], last.counts[place]);
            let rate = if seconds > 0.0 { (total - before) as f64 / seconds } else { 0.0 };
            (name, total, rate.round() as u64)
        };
        NAMES.into_iter().enumerate().map(count).collect()
    }

    /// The slots of each level that were occupied a moment ago, or are.
    pub(crate) fn recently_occupied(&self) -> Vec<u64> {
        let mut slots = vec![0; self.latest.occupancy().len()];
        let last = self.recent[self.recent.len() - 1].at;
        for reading in self.recent.iter().filter(|reading| last.duration_since(reading.at) <= MEMORY) {
            for (sum, occupied) in slots.iter_mut().zip(&reading.occupied) {
                *sum |= occupied;
            }
        }
        slots
    }
}

impl Reading {
    fn of(metrics: &Metrics) -> Self {
        let counts = [metrics.registered(), metrics.fired(), metrics.cancelled(), metrics.turns(), metrics.cascaded()];
        Reading { at: Instant::now(), counts, occupied: metrics.occupancy().to_vec() }
    }
}
