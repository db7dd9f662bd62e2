//! Resident memory of pending timers, and after they are gone; and what one more idle runtime costs.
//!
//! Each figure comes from a new process, because an allocator reuses memory.

use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::Args;
use tools::machine::{Meter, resident};

use crate::Options;
use crate::outcome::{child, report};
use crate::population::{Population, evenly};
use crate::record::{Case, Record};
use crate::rival::{Rival, Until, workers};
use crate::rivals::{Hairspring, Tokio};

pub const PENDING: &str = "memory: pending";
const CANCELLED: &str = "memory: after cancelling";
const FIRED: &str = "memory: after firing";
/// The future alone.
const SLEEP: &str = "memory: the sleep itself";

/// What an idle runtime costs, in which some sleeps have ended.
const IDLE: [(&str, &str); 3] =
    [("idle runtime: memory", "bytes"), ("idle runtime: files", "files"), ("idle runtime: CPU time", "ns a second")];
const RUNTIMES: usize = 50;

/// Our sleeps side by side in a `Vec`, as they are `Unpin`.
pub const IN_PLACE: &str = "hairspring, in a Vec";
const BOXED: &str = "hairspring, boxed";
const TOKIO: &str = "tokio::time, boxed";

pub fn run(options: &Options, record: &mut Record) {
    for &population in options.memory() {
        let cases = [PENDING, CANCELLED, FIRED].map(|workload| Case::of(workload, population));
        for contender in [IN_PLACE, BOXED, TOKIO] {
            let [cancel, fire] =
                ["cancel", "fire"].map(|end| child(&["memory", contender, &population.to_string(), end]));
            for (case, bytes) in cases.into_iter().zip([cancel[0], cancel[1], fire[1]]) {
                record.add(case, contender, "bytes a timer", vec![bytes as f64 / population as f64]);
            }
        }
        let title = format!("memory at {population} timers, bytes each");
        record.print(&title, &["pending", "after cancelling", "after firing"], &cases);
    }
    let [ours, tokio] = [size_of::<hairspring::Sleep>(), size_of::<tokio::time::Sleep>()];
    record.add(Case::of(SLEEP, 1), Hairspring::NAME, "bytes", vec![ours as f64]);
    record.add(Case::of(SLEEP, 1), Tokio::NAME, "bytes", vec![tokio as f64]);
    record.print("the sleep itself, without the memory elsewhere", &["bytes"], &[Case::of(SLEEP, 1)]);
    let cases = IDLE.map(|(workload, _)| Case::of(workload, RUNTIMES));
    for contender in [Hairspring::NAME, Tokio::NAME] {
        let figures = child(&["memory", contender, &RUNTIMES.to_string(), "idle"]);
        for ((case, (_, unit)), figure) in cases.into_iter().zip(IDLE).zip(figures) {
            record.add(case, contender, unit, vec![figure as f64 / RUNTIMES as f64]);
        }
    }
    record.print("one more idle runtime with 2 workers", &IDLE.map(|(_, unit)| unit), &cases);
}

/// Runs in the child process.
#[derive(Debug, Args)]
pub struct Child {
    contender: String,
    population: usize,
    end: String,
}

impl Child {
    pub fn run(&self) {
        match self.contender.as_str() {
            Hairspring::NAME => self.idle::<Hairspring>(),
            Tokio::NAME => self.idle::<Tokio>(),
            IN_PLACE => self.measure::<Hairspring, _>(hairspring_until),
            BOXED => self.measure::<Hairspring, _>(|deadline| Box::pin(hairspring_until(deadline))),
            TOKIO => self.measure::<Tokio, _>(|deadline| Box::pin(Tokio::sleep_until(deadline))),
            other => panic!("no contender {other}"),
        }
    }

    fn measure<U: Until, F: Future + Unpin + Send + 'static>(&self, sleep_until: fn(Instant) -> F) {
        let (runtime, size, fires) = (workers(2, U::configure), self.population, self.end == "fire");
        // Five microseconds to arm each.
        let lead = Duration::from_micros(5 * size as u64).max(Duration::from_secs(1));
        let due = Instant::now() + if fires { lead } else { Duration::from_hours(1) };
        let deadlines = evenly(due, Duration::from_nanos(50 * size as u64), size);
        let population = Population::arm::<U>(&runtime, size, due, deadlines, sleep_until).expect("armed in time");
        let pending = population.resident();
        if fires {
            population.count.wait(Duration::from_millis(10), || {});
        }
        report(&[pending, population.end()]);
    }

    fn idle<U: Until>(&self) {
        let used = || {
            let runtime = workers(2, U::configure);
            for number in 0..20 {
                let deadline = Instant::now() + Duration::from_millis(number);
                runtime.block_on(runtime.spawn(async move { U::sleep_until(deadline).await })).expect("nothing panics");
            }
            runtime
        };
        // What the process has once.
        let _first = used();
        let (memory, files) = (resident(), open_files());
        let _runtimes: Vec<_> = (0..self.population).map(|_| used()).collect();
        thread::sleep(Duration::from_secs(2));
        let (memory, files) = (resident().saturating_sub(memory), open_files() - files);
        let meter = Meter::start();
        let time = Duration::from_secs(5);
        thread::sleep(time);
        report(&[memory, files, meter.used().as_nanos() as u64 / time.as_secs()]);
    }
}

fn open_files() -> u64 {
    fs::read_dir("/proc/self/fd").expect("Linux lists open files").count() as u64
}

pub fn hairspring_until(deadline: Instant) -> hairspring::Sleep {
    hairspring::sleep_until(deadline.into())
}
