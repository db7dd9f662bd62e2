//! What was measured in one scenario, on hairspring and on `tokio::time`.
//!
//! `benches/rivals` uses this file too.

use super::distribution::Distribution;

pub(crate) struct Comparison {
    pub(crate) scenario: String,
    pub(crate) hairspring: Outcome,
    pub(crate) tokio: Outcome,
}

pub(crate) struct Outcome {
    pub(crate) lateness: Distribution,
    /// Processor time in per cent of the time that passed. Not known on all systems.
    pub(crate) processor: Option<f64>,
}
