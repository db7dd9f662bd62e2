//! Tasks that sleep again and again, by one contender, in a process of its own: so all processor time of that process
//! is its, and what a library leaves behind is gone with it.

use std::env;
use std::error::Error;
use std::fmt::{self, Display};
use std::ops::Range;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tools::machine::Meter;
use tools::{Histogram, Rng, between, median, progress, table};

use crate::contenders::{Contender, named};
use crate::in_words;
use crate::rival::Rival;
use crate::rivals::Tokio;

/// How long the tasks sleep before anything is counted.
const WARM_UP: Duration = Duration::from_millis(150);

/// What is measured once.
#[derive(Debug, Clone, Args)]
pub struct Cell {
    pub contender: String,
    pub tasks: u32,
    pub workers: usize,
    /// The length of a sleep, in microseconds.
    pub shortest: u64,
    pub longest: u64,
    /// For how long, in milliseconds.
    pub millis: u64,
    pub seed: u64,
    /// Whether a task keeps one worker blocked half of the time.
    #[arg(long)]
    pub has_blocked: bool,
}

impl Default for Cell {
    fn default() -> Self {
        let (contender, [shortest, longest, millis]) = (String::new(), [1_000, 10_000, 1_000]);
        Cell { contender, tasks: 1, workers: 2, shortest, longest, millis, seed: 0, has_blocked: false }
    }
}

impl Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { tasks, workers, has_blocked, .. } = self;
        let plural = if *tasks == 1 { "" } else { "s" };
        write!(f, "{tasks} task{plural}, {workers} workers")?;
        if *has_blocked { f.write_str(", one blocked 20 ms in every 40") } else { Ok(()) }
    }
}

impl Cell {
    pub fn of(&self, contender: &Contender, round: u32) -> Self {
        Cell { contender: contender.name.to_owned(), seed: u64::from(round), ..self.clone() }
    }

    /// Lets all take turns that can, prints a table, adds it to the lines of a file, and returns the rows.
    pub fn compare(&self, chosen: &[&'static Contender], rounds: u32, lines: &mut Vec<Vec<String>>) -> Vec<Row> {
        let (able, left_out): (Vec<_>, Vec<_>) =
            chosen.iter().partition(|contender| self.tasks <= contender.most_tasks);
        let rows =
            Row::measure(&self.to_string(), &able, rounds, |contender, round| self.of(contender, round).in_child());
        let base = row(&rows, Tokio::NAME);
        let cells: Vec<_> = rows.iter().map(|row| row.cells(base)).collect();
        println!("\n{self}\n{}", table(&COLUMNS, &cells));
        for contender in left_out {
            println!("left out, as each task takes a file: {}", contender.name);
        }
        lines.extend(cells.into_iter().map(|cells| [vec![self.to_string()], cells].concat()));
        rows
    }

    /// What this program is started with.
    pub fn arguments(&self) -> Vec<String> {
        let Cell { contender, tasks, workers, shortest, longest, millis, seed, has_blocked } = self;
        let numbers = [u64::from(*tasks), *workers as u64, *shortest, *longest, *millis, *seed].map(|n| n.to_string());
        let flag = has_blocked.then(|| "--has-blocked".to_owned());
        ["cell".to_owned(), contender.clone()].into_iter().chain(numbers).chain(flag).collect()
    }

    pub fn in_child(&self) -> Outcome {
        Outcome::of(&child(&self.arguments(), None))
    }

    /// In the process that was started for it.
    pub fn run(&self) {
        let contender = named(&self.contender);
        println!("{}", (contender.measure)(contender, self).in_numbers());
    }

    pub fn length(&self, random: &mut Rng) -> Duration {
        let [shortest, longest] = [self.shortest, self.longest].map(Duration::from_micros);
        between(random, shortest, longest)
    }

    pub fn random(&self, task: u32) -> Rng {
        Rng::with_seed((self.seed << 32) + u64::from(task))
    }

    /// When it is counted what ends.
    pub fn window(&self) -> Range<Instant> {
        let begin = Instant::now() + WARM_UP;
        begin..begin + Duration::from_millis(self.millis)
    }
}

/// What came of it.
pub struct Outcome {
    pub took: Duration,
    /// Of all threads.
    pub processor: Duration,
    /// The longest that an arm and a cancel took.
    pub slowest: Duration,
    /// The latest that a thread of its own came back from its sleeps meanwhile: what the machine does to anybody.
    pub stalled: Duration,
    /// Of our driver, and of the floor's thread.
    pub turns: u64,
    pub early: u64,
    /// Bytes that the pending timers took.
    pub resident: u64,
    /// Nanoseconds.
    pub lateness: Histogram<u64>,
}

impl Default for Outcome {
    fn default() -> Self {
        let [took, processor, slowest, stalled] = [Duration::ZERO; 4];
        let lateness = Histogram::new(3).expect("three digits are allowed");
        Outcome { took, processor, slowest, stalled, turns: 0, early: 0, resident: 0, lateness }
    }
}

impl Outcome {
    /// Of what a child has printed.
    pub fn of(numbers: &[u64]) -> Self {
        let [took, processor, slowest, stalled, turns, early, resident, lateness @ ..] = numbers else {
            panic!("too few: {numbers:?}")
        };
        let [took, processor, slowest, stalled] =
            [took, processor, slowest, stalled].map(|nanos| Duration::from_nanos(*nanos));
        let [turns, early, resident] = [*turns, *early, *resident];
        let mut outcome = Outcome { took, processor, slowest, stalled, turns, early, resident, ..Outcome::default() };
        for pair in lateness.chunks_exact(2) {
            outcome.lateness.record_n(pair[0], pair[1]).expect("it resizes");
        }
        outcome
    }

    /// For [`Outcome::of`].
    pub fn in_numbers(&self) -> String {
        let times = [self.took, self.processor, self.slowest, self.stalled].map(|time| time.as_nanos() as u64);
        let lateness = self.lateness.iter_recorded();
        let lateness = lateness.flat_map(|step| [step.value_iterated_to(), step.count_since_last_iteration()]);
        let counts = [self.turns, self.early, self.resident];
        let numbers = times.into_iter().chain(counts).chain(lateness);
        numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    }

    /// Lets time pass until the end of the window, and takes the processor's.
    pub fn metered(window: &Range<Instant>, turns: impl Fn() -> u64) -> Self {
        thread::sleep(window.start.saturating_duration_since(Instant::now()));
        let (begun, meter, before) =
            (Instant::now(), Meter::start().expect("Linux tells of a process's threads"), turns());
        thread::sleep(window.end.saturating_duration_since(Instant::now()));
        let processor = meter.used().expect("Linux tells of a process's threads");
        Outcome { took: begun.elapsed(), processor, turns: turns() - before, ..Outcome::default() }
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
        self.processor += other.processor;
        self.slowest = self.slowest.max(other.slowest);
        self.stalled = self.stalled.max(other.stalled);
        self.turns += other.turns;
        self.early += other.early;
        self.resident += other.resident;
        self.lateness += &other.lateness;
    }

    pub fn sleeps(&self) -> f64 {
        (self.lateness.len() + self.early) as f64
    }

    /// Nanoseconds of processor time for each sleep.
    pub fn price(&self) -> f64 {
        self.processor.as_nanos() as f64 / self.sleeps()
    }

    pub fn processor_percent(&self) -> f64 {
        100.0 * self.processor.div_duration_f64(self.took)
    }

    pub fn a_second(&self, count: f64) -> f64 {
        count / self.took.as_secs_f64()
    }

    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.lateness.value_at_quantile(percent / 100.0))
    }
}

/// Starts this program, within another program or by itself, and returns the numbers that it prints.
pub fn child(arguments: &[String], within: Option<&mut Command>) -> Vec<u64> {
    let program = env::current_exe().expect("this program has a path");
    let mut alone = Command::new(&program);
    let command = within.map_or(&mut alone, |within| within.arg(&program));
    let output = command.args(arguments).output().expect("this program can be started");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    numbers(&String::from_utf8(output.stdout).expect("numbers"))
}

fn numbers(printed: &str) -> Vec<u64> {
    printed.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}

/// How late a sleep was; `None` for one that ended before its deadline.
pub type Late = Option<Duration>;

/// What is reported of a contender; ratios are to tokio, if it takes part.
const COLUMNS: [&str; 16] = [
    "contender",
    "sleeps a second",
    "processor percent",
    "least percent",
    "most percent",
    "processor times tokio's",
    "ns a sleep",
    "least ns",
    "most ns",
    "ns times tokio's",
    "p50",
    "p50 times tokio's",
    "p99",
    "p99 times tokio's",
    "turns a second",
    "early",
];

/// Writes what [`Cell::compare`] has added.
pub fn save(name: &str, lines: &[Vec<String>]) -> Result<(), Box<dyn Error>> {
    crate::save(name, &[&["scenario"], &COLUMNS[..]].concat(), lines)
}

/// The row of that contender.
pub fn row<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.who.name == name)
}

/// What one contender took, in each round and in all.
pub struct Row {
    pub who: &'static Contender,
    pub rounds: Vec<Outcome>,
    pub all: Outcome,
}

impl Row {
    /// Lets them take turns; another one begins each time.
    pub fn measure(
        what: &str,
        chosen: &[&'static Contender],
        rounds: u32,
        measure: impl Fn(&Contender, u32) -> Outcome,
    ) -> Vec<Row> {
        let row = |who: &&'static Contender| Row { who, rounds: Vec::new(), all: Outcome::default() };
        let mut rows: Vec<_> = chosen.iter().map(row).collect();
        let bar = progress(what, u64::from(rounds) * rows.len() as u64);
        for round in 0..rounds {
            let (later, sooner) = rows.split_at_mut(round as usize % chosen.len().max(1));
            for row in sooner.iter_mut().chain(later) {
                let outcome = measure(row.who, round);
                row.all.add(&outcome);
                row.rounds.push(outcome);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        rows
    }

    /// Nanoseconds of processor time for each sleep.
    pub fn price(&self) -> f64 {
        self.spread(Outcome::price)[0]
    }

    /// For [`COLUMNS`].
    fn cells(&self, base: Option<&Row>) -> Vec<String> {
        let all = &self.all;
        let times =
            |of: &dyn Fn(&Row) -> f64| base.map_or("-".to_owned(), |base| format!("{:.3}", of(self) / of(base)));
        let mut cells = vec![self.who.name.to_owned(), format!("{:.0}", all.a_second(all.sleeps()))];
        cells.extend(self.spread(Outcome::processor_percent).map(|percent| format!("{percent:.1}")));
        cells.push(times(&|row| row.spread(Outcome::processor_percent)[0]));
        cells.extend(self.spread(Outcome::price).map(|nanos| format!("{nanos:.0}")));
        cells.push(times(&Row::price));
        for percent in [50.0, 99.0] {
            cells.extend([in_words(all.percentile(percent)), times(&|row| row.all.percentile(percent).as_secs_f64())]);
        }
        cells.push(if all.turns > 0 { format!("{:.0}", all.a_second(all.turns as f64)) } else { "-".to_owned() });
        cells.push(all.early.to_string());
        cells
    }

    /// In the middle of all rounds, the least and the most.
    pub fn spread(&self, figure: impl Fn(&Outcome) -> f64) -> [f64; 3] {
        let figures: Vec<f64> = self.rounds.iter().map(figure).collect();
        let [least, most] = [f64::min, f64::max].map(|of| figures.iter().copied().reduce(of).unwrap_or(f64::NAN));
        [median(figures), least, most]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_cell_and_its_outcome_reach_the_other_process() {
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            cell: Cell,
        }
        let [shortest, longest] = [1_000, 10_000];
        let contender = "hairspring, timerfd".to_owned();
        let cell = Cell { contender, tasks: 3, workers: 2, shortest, longest, millis: 100, seed: 7, has_blocked: true };
        assert_eq!(Line::parse_from(cell.arguments()).cell.arguments(), cell.arguments());

        let outcome = (named(&cell.contender).measure)(named(&cell.contender), &cell);
        let read = Outcome::of(&numbers(&outcome.in_numbers()));
        assert_eq!((read.early, read.turns, read.lateness.len()), (0, outcome.turns, outcome.lateness.len()));
        assert_eq!(read.percentile(99.0), outcome.percentile(99.0));
    }
}
