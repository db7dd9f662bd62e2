//! What the threads share that look at a runtime until it is idle: [`Nap`], how they wait between looks, [`Quiet`], for how
//! long nothing has run, and how they report.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::thread;
use std::time::{Duration, Instant};

use crate::test_util::idle::Watch;
use crate::test_util::pending::{self, Pending};

/// How long nothing may go on before it is reported, in real time.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How long to look without a break, only yielding to other threads.
const EAGER: Duration = Duration::from_micros(500);
/// How long to sleep between looks, at most.
const LONGEST: Duration = Duration::from_millis(1);

/// Rests between looks, longer and longer.
pub(super) struct Nap {
    looking_since: Instant,
}

impl Nap {
    pub(super) fn new() -> Nap {
        Nap { looking_since: Instant::now() }
    }

    pub(super) fn take(&self) {
        let looking = self.looking_since.elapsed();
        if looking < EAGER {
            thread::yield_now();
        } else {
            thread::sleep((looking / 4).min(LONGEST));
        }
    }
}

/// Says why a clock does not move.
pub(super) fn report(
    patience: Duration,
    why: Option<&str>,
    holds: &[&'static Location<'static>],
    waiting: &[Pending],
) -> String {
    let why = match why {
        _ if !holds.is_empty() => "it is held",
        Some(why) => why,
        None if !waiting.is_empty() => "tasks go on being woken",
        None => "every task waits or blocks, and no timer is left to wake one",
    };
    let mut text = format!("hairspring: the paused clock has not moved for {patience:?}: {why}.\n");
    for place in holds {
        let _ = writeln!(text, "  a hold taken at {place} is alive");
    }
    if let Some(next) = waiting.first() {
        let _ = writeln!(text, "  timers waiting: {}, the next is due in {:?}", waiting.len(), next.remaining());
        text.push_str(&pending::list(waiting));
    }
    text
}

/// Prints at once. `eprintln` does not: a test harness keeps its output until the test ends, and this one may never end.
pub(super) fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

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
