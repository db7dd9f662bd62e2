//! End to end: many tasks that sleep shortly, again and again.

use crate::Options;
use crate::cell::{Cell, Outcome, Row};
use crate::contenders::named;
use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Rival;
use crate::rivals::{Hairspring, Tokio};

pub const WALL: &str = "tasks sleep 1 to 3 ms";
pub const PROCESSOR: &str = "tasks sleep 1 to 3 ms: processor time";
pub const TASKS: usize = 10_000;

pub fn case(workload: &'static str) -> Case {
    Case { workload, runtime: RuntimeKind::Workers, tasks: TASKS, standing: None, population: TASKS }
}

pub fn run(options: &Options, record: &mut Record) {
    let cell = Cell { tasks: TASKS as u32, shortest: 1_000, longest: 3_000, millis: 300, ..Cell::default() };
    let rounds = options.firing_rounds() as u32;
    for row in Row::measure(WALL, &[Hairspring::NAME, Tokio::NAME].map(named), rounds, |contender, round| {
        cell.of(contender, round).in_child()
    }) {
        let figures = |of: fn(&Outcome) -> f64| row.rounds.iter().map(of).collect();
        record.add(case(WALL), row.who.name, "ns", figures(|outcome| 1e9 / outcome.a_second(outcome.sleeps())));
        record.add(case(PROCESSOR), row.who.name, "ns", figures(Outcome::price));
    }
    record.print_beside_tokio(&format!("{TASKS} tasks that sleep shortly"), &[WALL, PROCESSOR].map(case));
}
