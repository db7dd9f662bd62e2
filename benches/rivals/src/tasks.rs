//! End to end: many tasks that sleep shortly, again and again.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tools::machine::Meter;

use crate::Options;
use crate::firing::{two_workers, warm_up};
use crate::record::{Case, Record, RuntimeKind};
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};

pub const WALL: &str = "tasks sleep 1 to 3 ms";
pub const PROCESSOR: &str = "tasks sleep 1 to 3 ms: processor time";
pub const TASKS: usize = 10_000;
const SLEEPS: u64 = 30;

pub fn case(workload: &'static str) -> Case {
    Case { workload, runtime: RuntimeKind::Workers, tasks: TASKS, standing: None, population: TASKS }
}

pub fn run(options: &Options, record: &mut Record) {
    let runtimes = [two_workers(), two_workers()];
    let mut figures = [const { (Vec::new(), Vec::new()) }; 2];
    for _ in 0..options.firing_rounds() {
        let rounds = [round::<Hairspring>(&runtimes[0]), round::<Tokio>(&runtimes[1])];
        for ((wall, processor), round) in figures.iter_mut().zip(rounds) {
            wall.push(round[0]);
            processor.push(round[1]);
        }
    }
    for (name, (wall, processor)) in [Hairspring::NAME, Tokio::NAME].into_iter().zip(figures) {
        record.add(case(WALL), name, "ns", wall);
        record.add(case(PROCESSOR), name, "ns", processor);
    }
    record.print_beside_tokio(&format!("{TASKS} tasks that sleep shortly"), &[WALL, PROCESSOR].map(case));
}

/// Nanoseconds for each sleep, its task's part in it included, and of processor time.
fn round<U: Until>(runtime: &Runtime) -> [f64; 2] {
    runtime.block_on(runtime.spawn(warm_up::<U>())).expect("nothing panics");
    let (begun, meter) = (Instant::now(), Meter::start().expect("Linux tells of a process's threads"));
    let tasks: Vec<_> = (0..TASKS as u64).map(|number| runtime.spawn(sleep_often::<U>(number))).collect();
    for task in tasks {
        runtime.block_on(task).expect("nothing panics");
    }
    let used = meter.used().expect("Linux tells of a process's threads");
    [begun.elapsed(), used].map(|time| time.as_nanos() as f64 / (TASKS as f64 * SLEEPS as f64))
}

async fn sleep_often<U: Until>(number: u64) {
    for turn in 0..SLEEPS {
        let micros = 1_000 + (number * SLEEPS + turn).wrapping_mul(2_654_435_761) % 2_000;
        U::sleep_until(Instant::now() + Duration::from_micros(micros)).await;
    }
}
