//! Tasks of one contender that sleep in a loop, in a separate process. All CPU time of that process is the contender's,
//! and the next contender finds nothing that a library left behind.

use std::fmt::{self, Display};
use std::ops::Range;
use std::time::{Duration, Instant};

use clap::Args;
use tools::{Rng, between};

use crate::contenders::{Contender, named};
use crate::outcome::{Outcome, child, report};
use crate::rival::Rival;
use crate::rivals::Tokio;
use crate::session::{Sheet, in_words, range, ratio, take_turns};

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
    /// Measures each contender in turn, in child processes.
    pub fn measure(&self, what: &str, contenders: &[&'static Contender], rounds: u32) -> Vec<Row> {
        Row::measure(what, contenders, rounds, |contender, round| {
            let cell = Cell { contender: contender.name.to_owned(), seed: u64::from(round), ..self.clone() };
            let arguments = cell.arguments();
            Outcome::of(&child(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
        })
    }

    /// Measures the contenders that can have so many tasks, and adds them to the sheet.
    pub fn compare(&self, contenders: &[&'static Contender], rounds: u32, sheet: &mut Sheet) -> Vec<Row> {
        let is_able =
            |other: &&Contender| self.tasks <= other.most_tasks && (self.workers > 0 || other.on_current_thread);
        let able: Vec<_> = contenders.iter().copied().filter(is_able).collect();
        let rows = self.measure(&self.to_string(), &able, rounds);
        let base = find(&rows, Tokio::NAME);
        let title = self.to_string();
        sheet.add(&title, &[&title], rows.iter().map(|row| row.cells(base)).collect());
        rows
    }

    /// The command line of the child process.
    fn arguments(&self) -> Vec<String> {
        let Cell { contender, tasks, workers, runtimes, millis, seed, has_blocked } = self;
        let numbers = [u64::from(*tasks), *workers as u64, *runtimes as u64, *millis, *seed];
        let numbers = numbers.map(|number| number.to_string());
        let flag = has_blocked.then(|| "--has-blocked".to_owned());
        ["cell".to_owned(), contender.clone()].into_iter().chain(numbers).chain(flag).collect()
    }

    /// Runs in the child process.
    pub fn run(&self) {
        let contender = named(&self.contender);
        report(&(contender.measure)(contender, self).numbers());
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

/// The columns of [`Cell::compare`]. Ratios are to tokio's medians.
pub const COLUMNS: &str = "scenario|contender|sleeps a second|processor percent|least percent|most percent|processor times tokio's|\
    ns a sleep|least ns|most ns|ns times tokio's|p50|p50 times tokio's|p99|p99 times tokio's|turns a second|early";

/// The outcomes of one contender.
pub struct Row {
    pub who: &'static Contender,
    pub rounds: Vec<Outcome>,
    pub all: Outcome,
}

pub fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.who.name == name)
}

impl Row {
    pub fn measure(
        what: &str,
        contenders: &[&'static Contender],
        rounds: u32,
        measure: impl Fn(&Contender, u32) -> Outcome,
    ) -> Vec<Row> {
        let turns = take_turns(what, rounds, contenders.len(), |place, round| measure(contenders[place], round));
        let row = |(who, rounds): (&&'static Contender, Vec<Outcome>)| {
            let mut all = Outcome::default();
            for outcome in &rounds {
                all.add(outcome);
            }
            Row { who, rounds, all }
        };
        contenders.iter().zip(turns).map(row).collect()
    }

    /// Median, minimum and maximum.
    pub fn range(&self, figure: impl Fn(&Outcome) -> f64) -> [f64; 3] {
        range(self.rounds.iter().map(figure).collect())
    }

    /// How often tokio's median this is.
    pub fn times(&self, base: Option<&Row>, figure: impl Fn(&Outcome) -> f64) -> Option<f64> {
        base.map(|base| self.range(&figure)[0] / base.range(&figure)[0])
    }

    fn cells(&self, base: Option<&Row>) -> Vec<String> {
        let all = &self.all;
        let mut cells = vec![self.who.name.to_owned(), format!("{:.0}", all.per_second(all.sleeps()))];
        cells.extend(self.range(Outcome::cpu_percent).map(|percent| format!("{percent:.1}")));
        cells.push(ratio(self.times(base, Outcome::cpu_percent), 3));
        cells.extend(self.range(Outcome::price).map(|nanos| format!("{nanos:.0}")));
        cells.push(ratio(self.times(base, Outcome::price), 3));
        for percent in [50.0, 99.0] {
            let late = all.percentile(percent);
            cells.extend([in_words(late), ratio(base.map(|base| late / base.all.percentile(percent)), 3)]);
        }
        cells.push(ratio((all.turns > 0).then(|| all.per_second(all.turns as f64)), 0));
        cells.push(all.early.to_string());
        cells
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
