//! The tables on the terminal.

use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Rival;
use crate::rivals::Hairspring;
use crate::{arm_cancel, firing, memory, tasks};

/// One table for a population: a line for each rival, a column for each number of tasks and state.
pub fn arm_cancel(record: &Record, runtime: RuntimeKind, population: usize) {
    let mut cases = Vec::new();
    for standing in [true, false] {
        for tasks in 1..=runtime.most_tasks() {
            let case = Case { workload: arm_cancel::WORKLOAD, runtime, tasks, standing: Some(standing), population };
            cases.push(case);
        }
    }
    let runtime = runtime.name();
    println!("arm and cancel, ns: {runtime}, {population} more timers pending; p25..p75, times hairspring");
    print!("  {:30}", "");
    for case in &cases {
        let tasks = if case.tasks == 1 { "1 task" } else { "2 tasks" };
        let state = if case.standing == Some(true) { "earlier timer" } else { "no earlier timer" };
        print!("{:>29}", format!("{tasks}, {state}"));
    }
    println!();
    let mut rivals: Vec<&str> = Vec::new();
    for row in record.rows.iter().filter(|row| cases.contains(&row.case)) {
        if !rivals.contains(&row.rival) {
            rivals.push(row.rival);
        }
    }
    for rival in rivals {
        print!("  {rival:30}");
        for &case in &cases {
            print!("{:>29}", cell(record, case, rival));
        }
        println!();
    }
    println!();
}

fn cell(record: &Record, case: Case, rival: &str) -> String {
    let (Some(spread), Some(ours)) = (record.get(case, rival), record.median(case, Hairspring::NAME)) else {
        return "-".to_owned();
    };
    format!("{:.0} ({:.0}..{:.0}) {:>6.2}x", spread.median, spread.p25, spread.p75, spread.median / ours)
}

pub fn firing(record: &Record, population: usize) {
    println!("firing {population} timers whose wakers count; p25..p75, times hairspring");
    let rows = firing::ONE_TICK.into_iter().chain(firing::SPREAD);
    beside_tokio(record, rows.map(|workload| firing::case(workload, population)));
}

pub fn tasks(record: &Record) {
    println!("{} tasks that sleep shortly; p25..p75, times hairspring", tasks::TASKS);
    beside_tokio(record, [tasks::WALL, tasks::PROCESSOR].into_iter().map(tasks::case));
}

fn beside_tokio(record: &Record, cases: impl Iterator<Item = Case>) {
    println!("  {:42}{:>10}{:>32}{:>32}", "", "unit", "hairspring", "tokio::time");
    for case in cases {
        let unit = record.rows.iter().find(|row| row.case == case).map_or("", |row| row.unit);
        let (ours, theirs) = (cell(record, case, Hairspring::NAME), cell(record, case, "tokio::time"));
        println!("  {:42}{unit:>10}{ours:>32}{theirs:>32}", case.workload);
    }
    println!();
}

pub fn memory(record: &Record, population: usize) {
    println!("memory at {population} timers, bytes for each");
    println!("  {:30}{:>12}{:>18}{:>18}", "", "pending", "after cancelling", "after firing");
    for contender in memory::ALL {
        let bytes = |workload| record.median(memory::case(workload, population), contender).unwrap_or(f64::NAN);
        println!(
            "  {contender:30}{:>12.1}{:>18.1}{:>18.1}",
            bytes(memory::PENDING),
            bytes(memory::CANCELLED),
            bytes(memory::FIRED)
        );
    }
    println!();
}
