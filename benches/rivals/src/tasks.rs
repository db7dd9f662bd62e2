//! End to end: many tasks that sleep shortly, again and again.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::firing::{two_workers, warm_up};
use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Until;
use crate::rivals::{Hairspring, Tokio};
use crate::{Options, machine, terminal};

pub const WALL: &str = "tasks sleep 1 to 3 ms";
pub const PROCESSOR: &str = "tasks sleep 1 to 3 ms: processor time";
pub const TASKS: usize = 10_000;
const SLEEPS: u64 = 30;

pub fn case(workload: &'static str) -> Case {
    Case { workload, runtime: RuntimeKind::Workers, tasks: TASKS, standing: None, population: TASKS }
}

pub fn run(options: &Options, record: &mut Record) {
    let mut hairspring = Team::new::<Hairspring>();
    let mut tokio = Team::new::<Tokio>();
    for _ in 0..options.firing_rounds() {
        hairspring.round::<Hairspring>();
        tokio.round::<Tokio>();
    }
    for team in [hairspring, tokio] {
        record.add(case(WALL), team.name, "ns", team.wall);
        record.add(case(PROCESSOR), team.name, "ns", team.processor);
    }
    terminal::tasks(record);
}

struct Team {
    name: &'static str,
    runtime: Runtime,
    wall: Vec<f64>,
    processor: Vec<f64>,
}

impl Team {
    fn new<U: Until>() -> Self {
        let runtime = two_workers();
        runtime.block_on(runtime.spawn(warm_up::<U>())).expect("nothing panics");
        Team { name: U::NAME, runtime, wall: Vec::new(), processor: Vec::new() }
    }

    /// Nanoseconds for each sleep, its task's part in it included.
    fn round<U: Until>(&mut self) {
        let (begun, before) = (Instant::now(), machine::processor_time());
        let tasks: Vec<_> = (0..TASKS as u64).map(|number| self.runtime.spawn(sleep_often::<U>(number))).collect();
        for task in tasks {
            self.runtime.block_on(task).expect("nothing panics");
        }
        let fired = TASKS as f64 * SLEEPS as f64;
        self.wall.push(begun.elapsed().as_nanos() as f64 / fired);
        self.processor.push((machine::processor_time() - before) / fired);
    }
}

async fn sleep_often<U: Until>(number: u64) {
    for turn in 0..SLEEPS {
        let micros = 1_000 + (number * SLEEPS + turn).wrapping_mul(2_654_435_761) % 2_000;
        U::sleep_until(Instant::now() + Duration::from_micros(micros)).await;
    }
}
