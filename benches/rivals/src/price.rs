//! What a timer costs that fires: CPU time and system calls, from few timers to many.
//!
//! Each figure comes from a fresh process of this program; the contenders take turns, and another one begins each time.

use std::collections::HashMap;
use std::error::Error;
use std::process::{self, Command};
use std::{env, fs};

use clap::Args;
use tools::table;

use crate::cell::{Cell, Outcome, Row, child, row, save};
use crate::contenders::{Contender, TIMERFD, chosen};
use crate::rival::Rival;
use crate::rivals::{Hairspring, Tokio};
use crate::{machine_line, verdict};

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

pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let chosen = chosen(&options.only)?;
    if !options.only_calls {
        let mut lines = Vec::new();
        for &tasks in &options.tasks {
            let cell = Cell { tasks, millis: (options.seconds * 1e3) as u64, ..Cell::default() };
            verdicts(tasks, &cell.compare(&chosen, options.rounds, &mut lines));
        }
        // Only a whole run is worth keeping.
        let is_whole = options.only.is_empty() && options.rounds >= WHOLE_RUN && options.tasks == DENSITIES;
        let name = if is_whole { "price" } else { "quick" };
        save(name, &lines)?;
    }
    if !options.no_calls {
        system_calls(&chosen);
    }
    Ok(())
}

/// Prints what is promised, held against what was measured.
fn verdicts(tasks: u32, rows: &[Row]) {
    let Some(tokio) = row(rows, Tokio::NAME) else { return };
    let verdict = |who: &str, what: &str, times: f64, most: f64| {
        verdict::line(times <= most, &format!("{who}: {what} {times:.2} times tokio's, at most {most:.2}"));
    };
    for row in [Hairspring::NAME, TIMERFD].into_iter().filter_map(|name| row(rows, name)) {
        verdict(row.who.name, "CPU time for each", row.price() / tokio.price(), 1.15);
        // Sparse timers do not wait for company.
        let most = if tasks > 5 { 0.7 } else { 0.3 };
        for percent in [50.0, 99.0] {
            let [ours, tokios] = [row, tokio].map(|row| row.all.percentile(percent));
            verdict(row.who.name, &format!("p{percent}"), ours.div_duration_f64(tokios), most);
        }
    }
}

/// With so many digits; a dash for what is not known.
fn figure(number: f64, is_known: bool, digits: usize) -> String {
    if is_known { format!("{number:.digits$}") } else { "-".to_owned() }
}

/// Prints how many system calls a firing takes, and a turn: those of a longer run less those of a shorter one, so
/// without what the start of a process takes.
fn system_calls(chosen: &[&'static Contender]) {
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
            let [(short, less), (long, more)] = millis
                .map(|millis| traced(&Cell { tasks, shortest, longest, millis, ..Cell::default() }.of(contender, 0)));
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
