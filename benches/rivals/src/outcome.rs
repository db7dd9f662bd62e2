//! The figures of one turn, and how a child process reports them.

use std::env;
use std::ops::Range;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tools::Histogram;
use tools::machine::Meter;

/// How late a sleep was; `None` if it ended before its deadline.
pub type Late = Option<Duration>;

/// All durations are in nanoseconds.
pub struct Outcome {
    pub took: u64,
    /// CPU time of all threads.
    pub cpu: u64,
    /// The slowest arming and cancelling.
    pub slowest: u64,
    /// How late a plain thread woke at most: the share of the machine.
    pub stalled: u64,
    /// Turns of our driver, or of a floor's thread.
    pub turns: u64,
    pub early: u64,
    /// Bytes that the pending timers take.
    pub resident: u64,
    pub lateness: Histogram<u64>,
}

impl Default for Outcome {
    fn default() -> Self {
        Outcome::of(&[0; 7])
    }
}

impl Outcome {
    /// Parses [`Outcome::numbers`].
    pub fn of(numbers: &[u64]) -> Self {
        let &[took, cpu, slowest, stalled, turns, early, resident, ref counts @ ..] = numbers else {
            panic!("too few numbers: {numbers:?}")
        };
        let mut lateness = Histogram::new(3).expect("three digits are allowed");
        for count in counts.chunks_exact(2) {
            lateness.record_n(count[0], count[1]).expect("it resizes");
        }
        Outcome { took, cpu, slowest, stalled, turns, early, resident, lateness }
    }

    pub fn numbers(&self) -> Vec<u64> {
        let Outcome { took, cpu, slowest, stalled, turns, early, resident, lateness } = self;
        let counts = lateness.iter_recorded();
        let counts = counts.flat_map(|step| [step.value_iterated_to(), step.count_since_last_iteration()]);
        [*took, *cpu, *slowest, *stalled, *turns, *early, *resident].into_iter().chain(counts).collect()
    }

    /// Waits until the end of the window and measures the CPU time in it.
    pub fn metered(window: &Range<Instant>, turns: impl Fn() -> u64) -> Self {
        thread::sleep(window.start.saturating_duration_since(Instant::now()));
        let (start, meter, turned) = (Instant::now(), Meter::start(), turns());
        thread::sleep(window.end.saturating_duration_since(Instant::now()));
        let cpu = meter.used().as_nanos() as u64;
        Outcome { took: start.elapsed().as_nanos() as u64, cpu, turns: turns() - turned, ..Outcome::default() }
    }

    pub fn note(&mut self, sleeps: impl IntoIterator<Item = Late>) {
        for late in sleeps {
            match late {
                Some(late) => self.lateness += late.as_nanos() as u64,
                None => self.early += 1,
            }
        }
    }

    pub fn add(&mut self, other: &Outcome) {
        self.took += other.took;
        self.turns += other.turns;
        self.early += other.early;
        self.lateness += &other.lateness;
    }

    pub fn sleeps(&self) -> f64 {
        (self.lateness.len() + self.early) as f64
    }

    /// CPU time per sleep.
    pub fn price(&self) -> f64 {
        self.cpu as f64 / self.sleeps()
    }

    pub fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu as f64 / self.took as f64
    }

    pub fn per_second(&self, count: f64) -> f64 {
        1e9 * count / self.took as f64
    }

    pub fn percentile(&self, percent: f64) -> f64 {
        self.lateness.value_at_quantile(percent / 100.0) as f64
    }
}

/// Runs this program again with these arguments and returns the numbers that it prints.
pub fn child(arguments: &[&str]) -> Vec<u64> {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(arguments).output().expect("this program can be started");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("numbers");
    printed.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// Prints the numbers for [`child`].
pub fn report(numbers: &[u64]) {
    println!("{}", numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_survives_the_pipe() {
        let mut outcome = Outcome::of(&[1, 2, 3, 4, 5, 6, 7]);
        outcome.note([Some(Duration::from_millis(3)), Some(Duration::from_micros(2)), None]);
        let read = Outcome::of(&outcome.numbers());
        assert_eq!(read.numbers()[..7], [1, 2, 3, 4, 5, 7, 7]);
        assert_eq!(read.sleeps().to_string(), "9");
        assert_eq!(read.percentile(99.0).to_string(), outcome.percentile(99.0).to_string());
    }
}
