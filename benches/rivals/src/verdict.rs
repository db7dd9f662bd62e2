//! Compares a run with the promised ratios.

use crate::record::{CURRENT_THREAD, Case, Record, WORKERS};
use crate::rival::Rival;
use crate::rivals::{Floor, Hairspring, Handle, Pingora, Tokio};
use crate::session::verdict;
use crate::{Options, arm_cancel, firing, memory};

/// A rival's figure.
type Figure<'a> = (Case, &'a str);

/// Prints a line for each promise that the run has figures for.
pub fn print(options: &Options, record: &Record) {
    let ratio =
        |figure: Figure, base: Figure| Some(record.median(figure.0, figure.1)? / record.median(base.0, base.1)?);
    let at_most = |what: &str, figure: Figure, base: Figure, most: f64, note: &str| {
        if let Some(times) = ratio(figure, base) {
            verdict(times <= most, &format!("{what}: {times:.2} times, at most {most}{note}"));
        }
    };
    println!("\npromises");
    // Two tasks that share nothing slow each other only if fewer than two cores are free.
    if let Some(times) = ratio((workers(2, true), Floor::NAME), (workers(1, true), Floor::NAME)) {
        let state = if times <= 1.1 { "the machine was idle" } else { "the machine was BUSY, measure again" };
        println!("  {state}: two tasks at the floor took {times:.2} times as long as one");
    }
    for (rival, standing, least, aim) in [
        (Tokio::NAME, true, 4.0, " (aim 6)"),
        (Tokio::NAME, false, 8.0, " (aim 12)"),
        ("tokio, alternative", true, 2.2, ""),
        (Pingora::NAME, true, 1.5, ""),
        ("tokio, alternative", false, 2.2, ""),
        (Pingora::NAME, false, 1.5, ""),
    ] {
        let (case, earlier) = (workers(2, standing), earlier(standing));
        if let Some(times) = ratio((case, rival), ours(case)) {
            let what = format!("2 tasks, {earlier}: {times:.2} times faster than {rival}, at least {least}{aim}");
            verdict(times >= least, &what);
        }
    }
    // The cases did not take turns. The floor, which did with each, shows the share of the machine.
    let between = |what: &str, case: Case, base: Case, most: f64| {
        let floor = ratio((case, Floor::NAME), (base, Floor::NAME));
        let note = floor.map_or(String::new(), |times| format!(" (the floor: {times:.2})"));
        at_most(what, ours(case), ours(base), most, &note);
    };
    for standing in [true, false] {
        let what = format!("two tasks against one, {}", earlier(standing));
        between(&what, workers(2, standing), workers(1, standing), 1.15);
    }
    let most = options.populations().last().copied().unwrap_or(0);
    for (place, case) in
        [("1 task", workers(1, true)), ("2 tasks", workers(2, true)), ("current thread", current_thread())]
    {
        let what = format!("{most} timers pending against none, {place}");
        between(&what, Case { population: most, ..case }, case, 1.3);
    }
    for (place, case) in [("one of 2 workers", workers(1, true)), ("current thread", current_thread())] {
        let what = format!("one thread against the floor, {place}");
        at_most(&what, ours(case), (case, Floor::NAME), 1.5, " (aim 1.2)");
    }
    let fired = options.firing();
    let [tick, spread] = [firing::ONE_TICK, firing::SPREAD].map(|names| names.map(|name| Case::of(name, fired)));
    for case in [tick[0], spread[1], tick[2], spread[2]] {
        at_most(&format!("{} against tokio's", case.workload), ours(case), (case, Tokio::NAME), 1.0, "");
    }
    for [_, _, longest, whole] in [tick, spread] {
        at_most(&format!("{} against the whole", longest.workload), ours(longest), ours(whole), 0.1, "");
    }
    for tasks in [1, 2] {
        let case = workers(tasks, true);
        if let [Some(free), Some(handle)] = [Hairspring::NAME, Handle::NAME].map(|name| record.median(case, name)) {
            let what = format!("free functions against a handle, {tasks} tasks: {:.1} ns more", free - handle);
            verdict(free - handle <= 10.0, &format!("{what}, at most 10"));
        }
    }
    // Among fewer, what the process has once counts.
    for &population in options.memory().iter().filter(|&&population| population >= 100_000) {
        if let Some(bytes) = record.median(Case::of(memory::PENDING, population), memory::IN_PLACE) {
            verdict(bytes <= 96.0, &format!("a pending timer among {population}: {bytes:.1} bytes, at most 96"));
        }
    }
}

fn ours(case: Case) -> Figure<'static> {
    (case, Hairspring::NAME)
}

fn workers(tasks: usize, standing: bool) -> Case {
    arm_cancel::case(WORKERS, tasks, standing, 0)
}

fn current_thread() -> Case {
    arm_cancel::case(CURRENT_THREAD, 1, true, 0)
}

fn earlier(standing: bool) -> &'static str {
    if standing { "an earlier timer pending" } else { "no earlier timer" }
}
