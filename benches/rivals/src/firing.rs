//! Firing a mass of timers, by itself and while another task arms and cancels.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task;
use tools::machine::Meter;

use crate::Options;
use crate::population::{Count, Population, arm_cancel, evenly};
use crate::record::{Case, Record};
use crate::rival::{Rival, Until, workers};
use crate::rivals::{Hairspring, Tokio};
use crate::session::take_turns;

/// The figures if all are due in one tick, and if they are spread.
pub const ONE_TICK: [&str; 4] = [
    "fire in one tick",
    "fire in one tick: processor time",
    "fire in one tick: longest arm",
    "fire in one tick: whole expiry with arms",
];

pub const SPREAD: [&str; 4] = [
    "fire over 50 ms",
    "fire over 50 ms: processor time",
    "fire over 50 ms: longest arm",
    "fire over 50 ms: whole expiry with arms",
];

pub fn run(options: &Options, record: &mut Record) {
    let size = options.firing();
    for (over, workloads) in [(Duration::ZERO, ONE_TICK), (Duration::from_millis(50), SPREAD)] {
        let contenders = [(Hairspring::NAME, round::<Hairspring> as fn(_, _) -> _), (Tokio::NAME, round::<Tokio>)];
        let turns = take_turns(workloads[0], options.firing_rounds(), 2, |place, _| contenders[place].1(over, size));
        for ((name, _), rounds) in contenders.into_iter().zip(turns) {
            for (place, (workload, unit)) in workloads.into_iter().zip(["ns", "ns", "us", "us"]).enumerate() {
                let figures = rounds.iter().map(|round: &[f64; 4]| round[place]).collect();
                record.add(Case::of(workload, size), name, unit, figures);
            }
        }
        let columns = ["ns each", "CPU time, ns each", "longest arm, us", "expiry while arming, us"];
        let cases = workloads.map(|workload| Case::of(workload, size));
        record.print(&format!("{}: {size} timers", workloads[0]), &columns, &cases);
    }
}

/// One expiry by itself, and one during which another task arms.
fn round<U: Until>(over: Duration, size: usize) -> [f64; 4] {
    let [took, cpu, _] = expire::<U>(over, size, false);
    let [whole, _, longest] = expire::<U>(over, size, true);
    [took / size as f64, cpu / size as f64, longest / 1e3, whole / 1e3]
}

/// Nanoseconds: from the first deadline until the last waker was called; CPU time of all threads; the slowest arm.
fn expire<U: Until>(over: Duration, size: usize, arms: bool) -> [f64; 3] {
    let runtime = workers(2, U::configure);
    let mut lead = Duration::from_millis(500);
    let (due, population) = loop {
        let due = Instant::now() + lead;
        let boxed = |deadline| Box::pin(U::sleep_until(deadline));
        if let Some(population) = Population::arm::<U>(&runtime, size, due, evenly(due, over, size), boxed) {
            break (due, population);
        }
        lead *= 2;
    };
    let count = &population.count;
    thread::sleep(due.saturating_duration_since(Instant::now()).saturating_sub(Duration::from_millis(5)));
    let meter = Meter::start();
    let armer = arms.then(|| runtime.spawn(arm_until_all_fired::<U>(Arc::clone(count))));
    count.wait(Duration::from_millis(1), || {});
    let cpu = meter.used();
    let longest = armer.map_or(0, |armer| runtime.block_on(armer).expect("nothing panics"));
    [count.completed_after(due).as_nanos() as f64, cpu.as_nanos() as f64, longest as f64]
}

/// Arms and cancels until the last waker was called. Returns the longest time that took since the first one.
async fn arm_until_all_fired<U: Until>(count: Arc<Count>) -> u64 {
    let mut longest = 0;
    for turn in 1_u32.. {
        let took = arm_cancel::<U>().await;
        if count.has_started() {
            longest = longest.max(took);
        }
        if count.is_complete() {
            break;
        }
        if turn % 64 == 0 {
            task::yield_now().await;
        }
    }
    longest
}
