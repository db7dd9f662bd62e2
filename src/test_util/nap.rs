//! What the threads do that look at a runtime until it is idle: how they wait between looks, and how they report.

use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};

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

/// Prints at once. `eprintln` does not: a test harness keeps its output until the test ends, and this one may never end.
pub(super) fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
