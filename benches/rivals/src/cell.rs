//! Tasks of one contender that sleep in a loop, in a separate process. All CPU time of that process is the contender's,
//! and the next contender finds nothing that a library left behind.

use std::fmt::{self, Display};
use std::ops::Range;
use std::time::{Duration, Instant};

use clap::Args;
use tools::{Rng, between};

/// The length of a sleep.
pub fn length(random: &mut Rng) -> Duration {
    between(random, Duration::from_millis(1), Duration::from_millis(10))
}

/// How long the tasks sleep before anything is counted.
const WARM_UP: Duration = Duration::from_millis(150);

#[derive(Debug, Clone, Args)]
pub struct Cell {
    pub contender: String,
    /// On each runtime.
    pub tasks: u32,
    /// Zero for a current-thread runtime.
    pub workers: usize,
    /// How many runtimes there are, each on a thread of its own, as in a server that shares nothing between its threads.
    pub runtimes: usize,
    /// How long a turn is, in milliseconds.
    pub millis: u64,
    pub seed: u64,
    /// Whether a task blocks one worker half of the time.
    #[arg(long)]
    pub has_blocked: bool,
}

impl Default for Cell {
    fn default() -> Self {
        let (contender, millis) = (String::new(), 1_000);
        let (tasks, workers, runtimes, seed, has_blocked) = (1, 2, 1, 0, false);
        Cell { contender, tasks, workers, runtimes, millis, seed, has_blocked }
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { tasks, workers, runtimes, has_blocked, .. } = self;
        let plural = if *tasks == 1 { "" } else { "s" };
        write!(f, "{tasks} task{plural}, ")?;
        match (workers, runtimes) {
            (0, 1) => f.write_str("current thread")?,
            (0, _) => write!(f, "on each of {runtimes} current threads")?,
            _ => write!(f, "{workers} workers")?,
        }
        if *has_blocked { f.write_str(", one blocked 20 ms in every 40") } else { Ok(()) }
    }
}

impl Cell {
    /// The command line of the child process.
    pub fn arguments(&self) -> Vec<String> {
        let Cell { contender, tasks, workers, runtimes, millis, seed, has_blocked } = self;
        let numbers = [u64::from(*tasks), *workers as u64, *runtimes as u64, *millis, *seed];
        let numbers = numbers.map(|number| number.to_string());
        let flag = has_blocked.then(|| "--has-blocked".to_owned());
        ["cell".to_owned(), contender.clone()].into_iter().chain(numbers).chain(flag).collect()
    }

    pub fn random(&self, task: u32) -> Rng {
        Rng::with_seed((self.seed << 32) + u64::from(task))
    }

    /// Sleeps that end in this time are counted.
    pub fn window(&self) -> Range<Instant> {
        let start = Instant::now() + WARM_UP;
        start..start + Duration::from_millis(self.millis)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_cell_survives_its_command_line() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            cell: Cell,
        }
        let cell = Cell { contender: "hairspring, timerfd".to_owned(), tasks: 3, has_blocked: true, ..Cell::default() };
        assert_eq!(Line::parse_from(cell.arguments()).cell.arguments(), cell.arguments());
    }
}
