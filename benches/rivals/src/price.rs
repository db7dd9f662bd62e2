//! What a timer costs that fires: processor time and system calls, from few timers to many.
//!
//! Each figure comes from a fresh process of this program; the contenders take turns, and another one begins each time.

use std::collections::HashMap;
use std::error::Error;
use std::process::{self, Command};
use std::time::Duration;
use std::{env, fs};

use clap::Args;
use tools::table;

use crate::cell::{Cell, Outcome, Row, child};
use crate::contenders::{Contender, TIMERFD, chosen};
use crate::rival::Rival;
use crate::rivals::{AsyncIo, Hairspring, Tokio};
use crate::{in_words, machine_line, save, verdict};

/// About 170, 890, 3,600, 8,900, 25,000, 84,000 and 330,000 timers a second.
const DENSITIES: [u32; 7] = [1, 5, 20, 50, 150, 500, 2_000];
const WHOLE_RUN: u32 = 5;
const CALLS: [&str; 5] = ["futex", "epoll_wait", "timerfd_settime", "write", "read"];

#[derive(Debug, Args)]
pub struct Options {
    /// How many tasks sleep 1 to 10 ms again and again, one table for each
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = DENSITIES)]
    tasks: Vec<u32>,
    /// Only the contender of that name, or, if there is none, those that have it in their names
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// How often each takes its turn
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=60))]
    rounds: u32,
    /// How long a turn is
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Leaves out the system calls
    #[arg(long)]
    no_calls: bool,
    /// Leaves out all but the system calls
    #[arg(long, conflicts_with = "no_calls")]
    only_calls: bool,
}

impl Options {
    fn cell(&self, contender: &Contender, tasks: u32, round: u32) -> Cell {
        Cell {
            contender: contender.name.to_owned(),
            tasks,
            workers: 2,
            shortest: 1_000,
            longest: 10_000,
            millis: (self.seconds * 1e3) as u64,
            seed: u64::from(round),
            has_blocked: false,
        }
    }
}

const COLUMNS: &str = "contender,fired a second,processor percent,least percent,most percent,ns each,least ns,most ns,\
                       ns times tokio's,p50,p50 times tokio's,p99,p99 times tokio's,turns a second,early";

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let chosen = chosen(&options.only)?;
    if !options.only_calls {
        let columns: Vec<_> = COLUMNS.split(',').collect();
        let mut lines = Vec::new();
        for &tasks in &options.tasks {
            let too_many = chosen.iter().filter(|contender| tasks > contender.most_tasks);
            let left_out: Vec<_> = too_many.map(|contender| contender.name).collect();
            let rows = Density::measure(options, &chosen, tasks).print(&columns, &left_out);
            lines.extend(rows.into_iter().map(|row| [vec![tasks.to_string()], row].concat()));
        }
        // Only a whole run is worth keeping.
        let is_whole = options.only.is_empty() && options.rounds >= WHOLE_RUN && options.tasks == DENSITIES;
        let name = if is_whole { "price" } else { "quick" };
        save(name, &[&["tasks"], &columns[..]].concat(), &lines)?;
    }
    if !options.no_calls {
        system_calls(options, &chosen);
    }
    Ok(())
}

/// All that was measured with so many tasks.
struct Density {
    tasks: u32,
    rows: Vec<Row>,
}

impl Density {
    fn measure(options: &Options, chosen: &[&'static Contender], tasks: u32) -> Self {
        let able: Vec<_> = chosen.iter().copied().filter(|contender| tasks <= contender.most_tasks).collect();
        let measure = |contender: &Contender, round| options.cell(contender, tasks, round).in_child();
        Density { tasks, rows: Row::measure(&format!("{tasks} tasks"), &able, options.rounds, measure) }
    }

    fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.who.name == name)
    }

    /// Prints it, and returns the lines of the table.
    fn print(&self, columns: &[&str], left_out: &[&str]) -> Vec<Vec<String>> {
        let rows: Vec<_> = self.rows.iter().map(|row| cells(row, self.row(Tokio::NAME))).collect();
        println!("\ntasks: {}\n{}", self.tasks, table(columns, &rows));
        if !left_out.is_empty() {
            println!("left out, as each task takes a file: {}", left_out.join(", "));
        }
        self.verdicts();
        rows
    }

    /// What is promised, held against what was measured.
    fn verdicts(&self) {
        let Some(tokio) = self.row(Tokio::NAME) else { return };
        let verdict = |who: &str, what: &str, times: f64, most: f64| {
            verdict::line(times <= most, &format!("{who}: {what} {times:.2} times tokio's, at most {most:.2}"));
        };
        for (name, most) in [(Hairspring::NAME, 1.5), (TIMERFD, 1.2)] {
            if let Some(row) = self.row(name) {
                verdict(name, "processor time for each", price(row) / price(tokio), most);
            }
        }
        let Some(row) = self.row(Hairspring::NAME) else { return };
        let [p50, p99] = [50.0, 99.0].map(|percent| tokio.all.percentile(percent));
        let half = match self.row(AsyncIo::NAME) {
            // Below 200 a second.
            Some(other) if self.tasks == 1 => other.all.percentile(50.0).max(Duration::from_micros(200)).min(p50 / 2),
            _ => p50 / 2,
        };
        verdict(row.who.name, "p50", row.all.percentile(50.0).div_duration_f64(p50), half.div_duration_f64(p50));
        verdict(row.who.name, "p99", row.all.percentile(99.0).div_duration_f64(p99), 0.6);
    }
}

/// Nanoseconds of processor time for each that fired.
fn price(row: &Row) -> f64 {
    row.spread(Outcome::price)[0]
}

fn cells(row: &Row, base: Option<&Row>) -> Vec<String> {
    let all = &row.all;
    let times = |of: &dyn Fn(&Row) -> f64| base.map_or("-".to_owned(), |base| format!("{:.2}", of(row) / of(base)));
    let mut cells = vec![row.who.name.to_owned(), format!("{:.0}", all.a_second(all.sleeps()))];
    cells.extend(row.spread(Outcome::processor_percent).map(|percent| format!("{percent:.1}")));
    cells.extend(row.spread(Outcome::price).map(|nanos| format!("{nanos:.0}")));
    cells.push(times(&price));
    for percent in [50.0, 99.0] {
        cells.push(in_words(all.percentile(percent)));
        cells.push(times(&|row| row.all.percentile(percent).as_secs_f64()));
    }
    cells.extend([figure(all.a_second(all.turns as f64), all.turns > 0, 0), all.early.to_string()]);
    cells
}

/// With so many digits; a dash for what is not known.
fn figure(number: f64, is_known: bool, digits: usize) -> String {
    if is_known { format!("{number:.digits$}") } else { "-".to_owned() }
}

/// Prints how many system calls a firing takes, and a turn: those of a longer run less those of a shorter one, so
/// without what the start of a process takes.
fn system_calls(options: &Options, chosen: &[&'static Contender]) {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("\nsystem calls: left out, there is no strace");
        return;
    }
    for (what, tasks, [shortest, longest], millis) in [
        ("one task that sleeps 100 ms", 1, [100_000; 2], [500, 3_000]),
        ("50 tasks that sleep 1 to 10 ms", 50, [1_000, 10_000], [200, 1_200]),
    ] {
        let mut rows = Vec::new();
        for contender in chosen {
            let [(short, less), (long, more)] =
                millis.map(|millis| traced(&Cell { shortest, longest, millis, ..options.cell(contender, tasks, 0) }));
            let fired = long.sleeps() - short.sleeps();
            // Tokio turns in each millisecond, if something is due in it.
            let turns = match contender.name {
                Tokio::NAME => fired.min((millis[1] - millis[0]) as f64),
                _ => (long.turns - short.turns) as f64,
            };
            let mut row = vec![contender.name.to_owned(), format!("{fired:.0}"), figure(turns, turns > 0.0, 0)];
            for per in [fired, turns] {
                let calls = |name: &&str| more.get(*name).unwrap_or(&0.0) - less.get(*name).unwrap_or(&0.0);
                row.extend(CALLS.iter().map(|name| figure(calls(name) / per, per > 0.0, 2)));
            }
            rows.push(row);
        }
        let names: Vec<_> = ["contender", "fired", "turns"].into_iter().chain(CALLS).chain(CALLS).collect();
        println!("\nsystem calls, {what}: for each that fired, then for each turn\n{}", table(&names, &rows));
    }
}

/// Measures in a process whose system calls are counted.
fn traced(cell: &Cell) -> (Outcome, HashMap<String, f64>) {
    let mut strace = Command::new("strace");
    let summary = env::temp_dir().join(format!("rivals-{}.calls", process::id()));
    strace.args(["-f", "-qq", "-c", "-o"]).arg(&summary);
    let outcome = Outcome::of(&child(&cell.arguments(), Some(&mut strace)));
    let printed = fs::read_to_string(&summary).expect("strace has written it");
    fs::remove_file(&summary).expect("it is this program's");
    let calls = printed.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        // Percent, seconds, microseconds a call, calls, errors if there were any, name.
        Some(((*words.last()?).to_owned(), words.get(3)?.parse().ok()?))
    });
    (outcome, calls.collect())
}
