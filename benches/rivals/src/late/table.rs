//! The table: a group of lines for each scenario, a line for each contender.

use std::time::Duration;

use super::distribution::in_words;
use super::load::{Run, Scenario};
use super::{BASE, Contender};

const PERCENTILES: [usize; 2] = [50, 99];

pub fn head() -> String {
    let groups = ["late by", "processor time", "sleeps", "times tokio's"].map(|group| format!("{group:>22}")).concat();
    let columns = ["p50", "p99", "of a core", "a sleep", "a second", "early", "p99", "processor"];
    format!("{:28}{groups}\n", "") + &line("", columns.map(String::from))
}

pub fn lines(scenario: Scenario, runs: &[(Contender, Run)]) -> String {
    let figures: Vec<_> = runs.iter().map(|(contender, run)| (contender.name, Figures::of(run))).collect();
    let (_, base) = figures.iter().find(|(name, _)| *name == BASE.name).expect("it takes part");
    let mut text = format!("{scenario}\n");
    for (name, figures) in &figures {
        text.push_str(&line(name, figures.cells(base)));
    }
    text
}

struct Figures {
    late_by: [Duration; 2],
    processor_percent: f64,
    nanos_each: f64,
    sleeps_a_second: f64,
    early: usize,
}

impl Figures {
    fn of(run: &Run) -> Self {
        let lateness = run.lateness();
        Figures {
            late_by: PERCENTILES.map(|percent| lateness.percentile(percent)),
            processor_percent: run.processor_percent(),
            nanos_each: run.nanos_each(),
            sleeps_a_second: run.sleeps_a_second(),
            early: run.early,
        }
    }

    fn cells(&self, base: &Figures) -> [String; 8] {
        let [p50, p99] = self.late_by;
        [
            in_words(p50),
            in_words(p99),
            format!("{:.1} %", self.processor_percent),
            format!("{:.0} ns", self.nanos_each),
            format!("{:.0}", self.sleeps_a_second),
            self.early.to_string(),
            format!("{:.3}", p99.div_duration_f64(base.late_by[1])),
            format!("{:.2}", self.processor_percent / base.processor_percent),
        ]
    }
}

fn line(name: &str, cells: [String; 8]) -> String {
    let cells = cells.map(|cell| format!("{cell:>11}")).concat();
    format!("  {name:26}{cells}\n")
}
