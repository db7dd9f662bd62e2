//! End to end: many tasks that sleep briefly in a loop.

use crate::Options;
use crate::cell::Cell;
use crate::contenders::named;
use crate::outcome::Outcome;
use crate::record::{Case, Record};
use crate::rival::Rival;
use crate::rivals::{Hairspring, Tokio};

const WALL: &str = "tasks sleep 1 to 3 ms";
pub const CPU: &str = "tasks sleep 1 to 3 ms: processor time";
const TASKS: usize = 10_000;

pub fn case(workload: &'static str) -> Case {
    Case { tasks: TASKS, ..Case::of(workload, TASKS) }
}

pub fn run(options: &Options, record: &mut Record) {
    let cell = Cell { tasks: TASKS as u32, shortest: 1_000, longest: 3_000, millis: 300, ..Cell::default() };
    for row in cell.measure(WALL, &[Hairspring::NAME, Tokio::NAME].map(named), options.firing_rounds()) {
        let figures = |of: fn(&Outcome) -> f64| row.rounds.iter().map(of).collect();
        record.add(case(WALL), row.who.name, "ns", figures(|outcome| 1e9 / outcome.per_second(outcome.sleeps())));
        record.add(case(CPU), row.who.name, "ns", figures(Outcome::price));
    }
    let title = format!("{TASKS} tasks that sleep 1 to 3 ms, ns each");
    record.print(&title, &["time", "CPU time"], &[WALL, CPU].map(case));
}
