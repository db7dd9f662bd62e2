//! The metrics of the last few seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hairspring::timer::Metrics;

/// How far back the dashboard looks.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);

/// The metrics as they were read, the latest last.
pub(crate) struct Readings(VecDeque<(Instant, Metrics)>);

type Count = fn(&Metrics) -> u64;

impl Readings {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Readings([(Instant::now(), metrics)].into())
    }

    pub(crate) fn add(&mut self, metrics: Metrics) {
        self.0.push_back((Instant::now(), metrics));
        self.0.retain(|(at, _)| at.elapsed() <= WINDOW);
    }

    pub(crate) fn latest(&self) -> &Metrics {
        &self.0[self.0.len() - 1].1
    }

    /// Each count: its name, and by how much it grows per second.
    pub(crate) fn rates(&self) -> [(&'static str, u64); 5] {
        let ((start, before), (end, now)) = (&self.0[0], &self.0[self.0.len() - 1]);
        let seconds = end.duration_since(*start).as_secs_f64().max(1e-9);
        let counts: [(&str, Count); 5] = [
            ("registered", Metrics::registered),
            ("fired", Metrics::fired),
            ("cancelled", Metrics::cancelled),
            ("turns", Metrics::turns),
            ("cascaded", Metrics::cascaded),
        ];
        counts.map(|(name, count)| (name, ((count(now) - count(before)) as f64 / seconds).round() as u64))
    }
}
