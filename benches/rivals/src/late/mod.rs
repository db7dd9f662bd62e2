//! How late sleeps end and what that costs: hairspring with either alarm, `tokio::time` and async-io.
//!
//! They take turns of a second, each on a runtime that is new and with the same random numbers, and another one begins
//! each time: what else the machine does falls on all.

#[path = "../../../../examples/lateness/chart.rs"]
mod chart;
#[path = "../../../../examples/lateness/comparison.rs"]
mod comparison;
// `count` is only for the example.
#[allow(dead_code)]
#[path = "../../../../examples/lateness/distribution.rs"]
mod distribution;
#[path = "../../../../examples/lateness/jitter.rs"]
mod jitter;
mod load;
#[path = "../../../../examples/lateness/processor.rs"]
mod processor;
mod table;

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hairspring::Timer;
use hairspring::timer::{Alarm, Builder};

use self::comparison::{Comparison, Outcome};
use self::load::{Run, Scenario};
use crate::rival::Until;
use crate::rivals::{AsyncIo, Hairspring, Tokio};
use crate::{machine, usage};

/// The argument that asks for this run.
pub const COMMAND: &str = "late";

const SECONDS: RangeInclusive<u32> = 1..=60;
const WHOLE_RUN: u32 = 5;

/// One row of the table.
struct Contender {
    name: &'static str,
    /// Whether a sleep that ends early is our fault.
    is_ours: bool,
    /// Called in each new runtime.
    set_up: fn(),
    take_turn: fn(Scenario, u32, fn(), &mut Run),
}

impl Contender {
    const fn new<U: Until>(name: &'static str, is_ours: bool, set_up: fn()) -> Self {
        Contender { name, is_ours, set_up, take_turn: load::take_turn::<U> }
    }
}

/// Ratios are to this one.
const BASE: Contender = Contender::new::<Tokio>(<Tokio as Until>::NAME, false, || {});

/// With default settings.
const OURS: Contender = Contender::new::<Hairspring>(<Hairspring as Until>::NAME, true, || {});

const CONTENDERS: [Contender; 5] = [
    OURS,
    Contender::new::<Hairspring>("hairspring, timerfd", true, || install(timerfd())),
    Contender::new::<Hairspring>("hairspring, timerfd, 10 µs", true, || {
        install(timerfd().resolution(Duration::from_micros(10)));
    }),
    BASE,
    Contender::new::<AsyncIo>(<AsyncIo as Until>::NAME, false, || {}),
];

fn timerfd() -> Builder {
    Timer::builder().alarm(Alarm::Timerfd)
}

fn install(builder: Builder) {
    builder.install().expect("a runtime with `enable_all` can have it");
}

/// Measures, prints the table, and keeps it with a chart. Fails where a sleep of ours ended early.
pub fn run(arguments: &[String]) -> ExitCode {
    let seconds = seconds(arguments);
    let mut text = format!("{}\nbenches/rivals/run {COMMAND} --seconds {seconds}\n\n", machine::line());
    text.push_str(&table::head());
    print!("{text}");
    let (mut comparisons, mut early) = (Vec::new(), 0);
    for scenario in Scenario::all() {
        let runs = compare(scenario, seconds);
        let lines = table::lines(scenario, &runs);
        print!("{lines}");
        text.push_str(&lines);
        comparisons.push(comparison(scenario, &runs));
        early += runs.iter().filter(|(contender, _)| contender.is_ours).map(|(_, run)| run.early).sum::<usize>();
    }
    // Only a whole run is worth keeping.
    let name = if seconds < WHOLE_RUN { "quick" } else { "late" };
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name);
    fs::write(results.with_extension("txt"), text).expect("results can be written");
    let about = format!("hairspring with default settings; {seconds} s for each library and panel");
    fs::write(results.with_extension("svg"), chart::draw(&comparisons, &about)).expect("results can be written");
    println!("\nresults/{name}.txt and .svg written");
    if early > 0 {
        eprintln!("BAD: {early} of hairspring's sleeps ended before their deadline");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// How many turns of a second each has in each scenario.
fn seconds(arguments: &[String]) -> u32 {
    let seconds = match arguments {
        [] => Some(WHOLE_RUN),
        [name, seconds] if name == "--seconds" => seconds.parse().ok(),
        _ => None,
    };
    seconds.filter(|seconds| SECONDS.contains(seconds)).unwrap_or_else(|| usage())
}

fn compare(scenario: Scenario, seconds: u32) -> Vec<(Contender, Run)> {
    let mut runs: Vec<_> = CONTENDERS.into_iter().map(|contender| (contender, Run::default())).collect();
    let first = (0..CONTENDERS.len()).cycle();
    for (turn, first) in (0..seconds).zip(first) {
        let (later, sooner) = runs.split_at_mut(first);
        for (contender, run) in sooner.iter_mut().chain(later) {
            (contender.take_turn)(scenario, turn, contender.set_up, run);
        }
    }
    runs
}

/// What the chart shows of a scenario.
fn comparison(scenario: Scenario, runs: &[(Contender, Run)]) -> Comparison {
    let outcome = |name| {
        let (_, run) = runs.iter().find(|(contender, _)| contender.name == name).expect("it takes part");
        Outcome { lateness: run.lateness(), processor: Some(run.processor_percent()) }
    };
    Comparison { scenario: scenario.to_string(), hairspring: outcome(OURS.name), tokio: outcome(BASE.name) }
}
