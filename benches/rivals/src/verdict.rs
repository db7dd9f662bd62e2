//! What the crate promises, held against the run.

use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Rival;
use crate::rivals::{Floor, Hairspring, Handle, Pingora, Tokio};
use crate::{Options, arm_cancel, firing, memory, tasks};

const TOKIO_ALT: &str = "tokio, alternative";

/// Prints a line for each promise whose figures were taken.
pub fn print(options: &Options, record: &Record) {
    let check = Check { record };
    println!("what is promised");
    // Two tasks that share nothing slow each other down only where there are no two free cores.
    if let (Some(one), Some(two)) =
        (record.median(workers(1, true, 0), Floor::NAME), record.median(workers(2, true, 0), Floor::NAME))
    {
        let quiet = if two / one <= 1.1 { "the machine was quiet" } else { "the machine was NOT quiet, measure again" };
        println!("  {quiet}: two tasks at the floor took {:.2} times one task", two / one);
    }
    for (standing, least, aim) in [(true, 4.0, " (aim 6)"), (false, 8.0, " (aim 12)")] {
        check.faster(Tokio::NAME, standing, least, aim);
    }
    for standing in [true, false] {
        check.faster(TOKIO_ALT, standing, 2.2, "");
        check.faster(Pingora::NAME, standing, 1.5, "");
    }
    for standing in [true, false] {
        let (one, two) = (workers(1, standing, 0), workers(2, standing, 0));
        check.between(&format!("two tasks against one, {}", state(standing)), two, one, 1.15);
    }
    let most = options.populations().last().copied().unwrap_or(0);
    for (place, many, none) in [
        ("1 task", workers(1, true, most), workers(1, true, 0)),
        ("2 tasks", workers(2, true, most), workers(2, true, 0)),
        ("current thread", current_thread(most), current_thread(0)),
    ] {
        check.between(&format!("{most} timers pending against none, {place}"), many, none, 1.3);
    }
    for (place, case) in [("one of 2 workers", workers(1, true, 0)), ("current thread", current_thread(0))] {
        let floor = record.median(case, Floor::NAME);
        at_most(&format!("one thread against the floor, {place}"), check.ours(case), floor, 1.5, " (aim 1.2)");
    }
    let fired = options.firing();
    for case in [
        firing::case(firing::ONE_TICK[0], fired),
        firing::case(firing::SPREAD[1], fired),
        tasks::case(tasks::PROCESSOR),
    ] {
        at_most(&format!("{} against tokio", case.workload), check.ours(case), check.tokio(case), 1.0, "");
    }
    for [_, _, longest, whole] in [firing::ONE_TICK, firing::SPREAD] {
        let (longest, whole) = (firing::case(longest, fired), firing::case(whole, fired));
        at_most(&format!("{} against the whole", longest.workload), check.ours(longest), check.ours(whole), 0.1, "");
        at_most(&format!("{} against tokio's", longest.workload), check.ours(longest), check.tokio(longest), 1.0, "");
    }
    for tasks in [1, 2] {
        let case = workers(tasks, true, 0);
        if let (Some(free), Some(handle)) = (check.ours(case), record.median(case, Handle::NAME)) {
            let more = free - handle;
            line(
                more <= 10.0,
                &format!("free functions against a handle, {tasks} at once: {more:.1} ns more, at most 10"),
            );
        }
    }
    for &population in options.memory() {
        if let Some(bytes) = record.median(memory::case(memory::PENDING, population), memory::IN_PLACE) {
            line(bytes <= 96.0, &format!("a pending timer among {population}: {bytes:.1} bytes, at most 96"));
        }
    }
}

struct Check<'a> {
    record: &'a Record,
}

impl Check<'_> {
    fn ours(&self, case: Case) -> Option<f64> {
        self.record.median(case, Hairspring::NAME)
    }

    fn tokio(&self, case: Case) -> Option<f64> {
        self.record.median(case, Tokio::NAME)
    }

    /// Two cases were not measured in turns, so what the floor took beside them tells how much is the machine's.
    fn between(&self, what: &str, case: Case, base: Case, most: f64) {
        let floor = |case| self.record.median(case, Floor::NAME);
        let beside = match (floor(case), floor(base)) {
            (Some(figure), Some(base)) => format!(" (the floor: {:.2})", figure / base),
            _ => String::new(),
        };
        at_most(what, self.ours(case), self.ours(base), most, &beside);
    }

    fn faster(&self, rival: &str, standing: bool, least: f64, aim: &str) {
        let case = workers(2, standing, 0);
        if let (Some(ours), Some(theirs)) = (self.ours(case), self.record.median(case, rival)) {
            let times = theirs / ours;
            let state = state(standing);
            line(
                times >= least,
                &format!("2 tasks, {state}: {times:.2} times faster than {rival}, at least {least}{aim}"),
            );
        }
    }
}

fn at_most(what: &str, figure: Option<f64>, base: Option<f64>, most: f64, note: &str) {
    if let (Some(figure), Some(base)) = (figure, base) {
        let times = figure / base;
        line(times <= most, &format!("{what}: {times:.2} times, at most {most}{note}"));
    }
}

fn line(holds: bool, what: &str) {
    println!("  {}  {what}", if holds { "PASS " } else { "short" });
}

fn workers(tasks: usize, standing: bool, population: usize) -> Case {
    let workload = arm_cancel::WORKLOAD;
    Case { workload, runtime: RuntimeKind::Workers, tasks, standing: Some(standing), population }
}

fn current_thread(population: usize) -> Case {
    Case { runtime: RuntimeKind::CurrentThread, ..workers(1, true, population) }
}

fn state(standing: bool) -> &'static str {
    if standing { "an earlier timer standing" } else { "none standing" }
}
