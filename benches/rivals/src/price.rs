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

use crate::cell::{Cell, Outcome, Row, child, row, save};
use crate::contenders::{Contender, TIMERFD, chosen};
use crate::rival::Rival;
use crate::rivals::{AsyncIo, Hairspring, Tokio};
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
    for (name, most) in [(Hairspring::NAME, 1.5), (TIMERFD, 1.2)] {
        if let Some(row) = row(rows, name) {
            verdict(name, "processor time for each", row.price() / tokio.price(), most);
        }
    }
    let Some(ours) = row(rows, Hairspring::NAME) else { return };
    let [p50, p99] = [50.0, 99.0].map(|percent| tokio.all.percentile(percent));
    let half = match row(rows, AsyncIo::NAME) {
        // Below 200 a second.
        Some(other) if tasks == 1 => other.all.percentile(50.0).max(Duration::from_micros(200)).min(p50 / 2),
        _ => p50 / 2,
    };
    verdict(ours.who.name, "p50", ours.all.percentile(50.0).div_duration_f64(p50), half.div_duration_f64(p50));
    verdict(ours.who.name, "p99", ours.all.percentile(99.0).div_duration_f64(p99), 0.6);
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
