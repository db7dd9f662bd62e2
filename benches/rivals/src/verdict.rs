//! Compares a run with the promised ratios.

use crate::record::{CURRENT_THREAD, Case, Record, WORKERS};
use crate::rival::Rival;
use crate::rivals::{Floor, Hairspring, Handle, Pingora, Tokio};
use crate::session::verdict;
use crate::{Options, arm_cancel, firing, memory, tasks};

const TOKIO_ALT: &str = "tokio, alternative";

/// Prints a line for each promise that the run has figures for.
pub fn print(options: &Options, record: &Record) {
    let ours = |case| record.median(case, Hairspring::NAME);
    println!("\npromises");
    // Two tasks that share nothing slow each other only if fewer than two cores are free.
    if let (Some(one), Some(two)) =
        (record.median(workers(1, true, 0), Floor::NAME), record.median(workers(2, true, 0), Floor::NAME))
    {
        let state = if two / one <= 1.1 { "the machine was idle" } else { "the machine was BUSY, measure again" };
        println!("  {state}: two tasks at the floor took {:.2} times as long as one", two / one);
    }
    for (standing, least, aim) in [(true, 4.0, " (aim 6)"), (false, 8.0, " (aim 12)")] {
        faster(record, Tokio::NAME, standing, least, aim);
    }
    for standing in [true, false] {
        faster(record, TOKIO_ALT, standing, 2.2, "");
        faster(record, Pingora::NAME, standing, 1.5, "");
    }
    for standing in [true, false] {
        let cases = [workers(2, standing, 0), workers(1, standing, 0)];
        between(record, &format!("two tasks against one, {}", earlier(standing)), cases, 1.15);
    }
    let most = options.populations().last().copied().unwrap_or(0);
    for (place, cases) in [
        ("1 task", [workers(1, true, most), workers(1, true, 0)]),
        ("2 tasks", [workers(2, true, most), workers(2, true, 0)]),
        ("current thread", [current_thread(most), current_thread(0)]),
    ] {
        between(record, &format!("{most} timers pending against none, {place}"), cases, 1.3);
    }
    for (place, case) in [("one of 2 workers", workers(1, true, 0)), ("current thread", current_thread(0))] {
        let floor = record.median(case, Floor::NAME);
        at_most(&format!("one thread against the floor, {place}"), ours(case), floor, 1.5, " (aim 1.2)");
    }
    let fired = options.firing();
    let [tick, spread] = [firing::ONE_TICK, firing::SPREAD].map(|names| names.map(|name| Case::of(name, fired)));
    for case in [tick[0], spread[1], tasks::case(tasks::CPU), tick[2], spread[2]] {
        at_most(&format!("{} against tokio's", case.workload), ours(case), record.median(case, Tokio::NAME), 1.0, "");
    }
    for [_, _, longest, whole] in [tick, spread] {
        at_most(&format!("{} against the whole", longest.workload), ours(longest), ours(whole), 0.1, "");
    }
    for tasks in [1, 2] {
        let case = workers(tasks, true, 0);
        if let (Some(free), Some(handle)) = (ours(case), record.median(case, Handle::NAME)) {
            let what = format!("free functions against a handle, {tasks} tasks: {:.1} ns more", free - handle);
            verdict(free - handle <= 10.0, &format!("{what}, at most 10"));
        }
    }
    for &population in options.memory() {
        if let Some(bytes) = record.median(Case::of(memory::PENDING, population), memory::IN_PLACE) {
            verdict(bytes <= 96.0, &format!("a pending timer among {population}: {bytes:.1} bytes, at most 96"));
        }
    }
}

/// The two cases did not take turns. The floor, which did with each, shows the share of the machine.
fn between(record: &Record, what: &str, [case, base]: [Case; 2], most: f64) {
    let beside = match [case, base].map(|case| record.median(case, Floor::NAME)) {
        [Some(figure), Some(base)] => format!(" (the floor: {:.2})", figure / base),
        _ => String::new(),
    };
    let [figure, base] = [case, base].map(|case| record.median(case, Hairspring::NAME));
    at_most(what, figure, base, most, &beside);
}

fn faster(record: &Record, rival: &str, standing: bool, least: f64, aim: &str) {
    let case = workers(2, standing, 0);
    if let (Some(ours), Some(theirs)) = (record.median(case, Hairspring::NAME), record.median(case, rival)) {
        let (times, earlier) = (theirs / ours, earlier(standing));
        let what = format!("2 tasks, {earlier}: {times:.2} times faster than {rival}, at least {least}{aim}");
        verdict(times >= least, &what);
    }
}

fn at_most(what: &str, figure: Option<f64>, base: Option<f64>, most: f64, note: &str) {
    if let (Some(figure), Some(base)) = (figure, base) {
        let times = figure / base;
        verdict(times <= most, &format!("{what}: {times:.2} times, at most {most}{note}"));
    }
}

fn workers(tasks: usize, standing: bool, population: usize) -> Case {
    arm_cancel::case(WORKERS, tasks, standing, population)
}

fn current_thread(population: usize) -> Case {
    arm_cancel::case(CURRENT_THREAD, 1, true, population)
}

fn earlier(standing: bool) -> &'static str {
    if standing { "an earlier timer pending" } else { "no earlier timer" }
}
