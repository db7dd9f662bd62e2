//! How late sleeps end, on hairspring and on `tokio::time` side by side.
//!
//! Populations of 1, 50 and 1,000 tasks sleep for 1 to 10 ms, again and again. The two libraries take turns of a
//! second, each on a runtime of its own with two workers and with the same random numbers, so that what else the
//! machine does falls on both. For each population the program prints a histogram of how late the sleeps ended and
//! what processor time that took, and it draws a chart where one is asked for. It exits with 1 where a sleep ended
//! early.
//!
//! ```text
//! cargo run --release --example lateness
//! cargo run --release --example lateness -- --seconds 10 --blocked --svg lateness.svg
//! cargo run --release --example lateness -- --alarm timerfd --resolution-us 10
//! cargo run --release --example lateness -- --help
//! ```

mod chart;
mod comparison;
mod distribution;
mod jitter;
mod load;
mod options;
mod processor;
mod terminal;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::process::ExitCode;

use crate::comparison::{Comparison, Outcome};
use crate::distribution::Distribution;
use crate::load::{Library, Run, Scenario};
use crate::options::Options;

impl From<Run> for Outcome {
    fn from(run: Run) -> Self {
        Outcome { processor: run.processor_percent(), lateness: Distribution::of(run.lateness) }
    }
}

fn main() -> ExitCode {
    let options = options::read();
    match run(&options) {
        Ok([0, 0]) => ExitCode::SUCCESS,
        Ok([ours, theirs]) => {
            eprintln!("BAD: ended before their deadline: {ours} sleeps on hairspring, {theirs} on tokio::time");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures, prints and draws. Returns how many sleeps ended early, on hairspring and on tokio.
fn run(options: &Options) -> Result<[usize; 2], Box<dyn Error>> {
    // Found out now, rather than after the measurement: a runtime that the timer cannot be built on, and a file that
    // cannot be written.
    load::check(options)?;
    if let Some(path) = &options.svg {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        file.map_err(|error| format!("--svg cannot be `{path}`: {error}"))?;
    }

    println!("{options}");
    let (mut comparisons, mut early) = (Vec::new(), [0, 0]);
    for scenario in Scenario::all(options.has_blocked) {
        let [hairspring, tokio] = take_turns(scenario, options)?;
        early = [early[0] + hairspring.early, early[1] + tokio.early];
        let scenario = scenario.to_string();
        let comparison = Comparison { scenario, hairspring: hairspring.into(), tokio: tokio.into() };
        println!("\n{}", terminal::show(&comparison));
        comparisons.push(comparison);
    }
    if let Some(path) = &options.svg {
        let about = format!("hairspring with {}; {} s for each library and panel", options.settings(), options.seconds);
        fs::write(path, chart::draw(&comparisons, &about))?;
        println!("\nThe chart is in {path}.");
    }
    Ok(early)
}

/// Lets the libraries take turns, and the one that begins as well.
fn take_turns(scenario: Scenario, options: &Options) -> Result<[Run; 2], Box<dyn Error>> {
    let mut hairspring = Run::default();
    let mut tokio = Run::default();
    for turn in 0..options.seconds {
        let mut libraries = [(Library::Hairspring, &mut hairspring), (Library::Tokio, &mut tokio)];
        if turn % 2 == 1 {
            libraries.reverse();
        }
        for (library, run) in libraries {
            load::take_turn(library, scenario, turn, options, run)?;
        }
    }
    Ok([hairspring, tokio])
}
