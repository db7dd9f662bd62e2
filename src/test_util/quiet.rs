//! [`Quiet`]: for how long nothing has run in a runtime, in real time.

use std::time::{Duration, Instant};

use crate::test_util::idle::Watch;

pub(super) struct Quiet {
    /// What the workers had counted at the last look; `None` if one ran.
    steps: Option<u64>,
    since: Instant,
}

impl Quiet {
    pub(super) fn begin() -> Quiet {
        Quiet { steps: None, since: Instant::now() }
    }

    /// Looks, and returns for how long looks have found that nothing ran in between.
    pub(super) fn lasts(&mut self, watch: &Watch) -> Duration {
        let steps = watch.steps();
        if steps.is_none() || steps != self.steps {
            *self = Quiet { steps, since: Instant::now() };
        }
        self.since.elapsed()
    }
}
