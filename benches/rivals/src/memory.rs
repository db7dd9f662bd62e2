//! Memory that a pending timer takes, and what is given back when the timers are gone.
//!
//! Each figure comes from a fresh process of this program, so that none finds memory that another has left behind.

use std::future::Future;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use tools::{machine, table};

use crate::Options;
use crate::cell::child;
use crate::firing::{Count, arm, evenly, two_workers, warm_up};
use crate::record::{Case, Record};
use crate::rival::{Rival, Until};
use crate::rivals::{Hairspring, Tokio};

pub const PENDING: &str = "memory: pending";
pub const CANCELLED: &str = "memory: after cancelling";
pub const FIRED: &str = "memory: after firing";
/// Of one timer, without what the library keeps of it elsewhere.
pub const SLEEP: &str = "memory: the sleep itself";

/// The sleeps side by side in a `Vec`, as only sleeps that are `Unpin` can be.
pub const IN_PLACE: &str = "hairspring, in a Vec";
pub const BOXED: &str = "hairspring, boxed";
pub const TOKIO: &str = "tokio::time, boxed";
pub const ALL: [&str; 3] = [IN_PLACE, BOXED, TOKIO];

const HOUR: Duration = Duration::from_hours(1);

pub fn run(options: &Options, record: &mut Record) {
    for &population in options.memory() {
        for contender in ALL {
            let [pending, cancelled] = in_child(contender, population, "cancel");
            let [_, fired] = in_child(contender, population, "fire");
            for (workload, bytes) in [(PENDING, pending), (CANCELLED, cancelled), (FIRED, fired)] {
                record.add(Case::of(workload, population), contender, "bytes a timer", vec![bytes / population as f64]);
            }
        }
        print(record, population);
    }
    let [ours, tokio] = [size_of::<hairspring::Sleep>(), size_of::<tokio::time::Sleep>()];
    println!("  of a pending timer, the sleep itself: hairspring {ours} bytes, tokio {tokio} bytes\n");
    record.add(Case::of(SLEEP, 1), Hairspring::NAME, "bytes", vec![ours as f64]);
    record.add(Case::of(SLEEP, 1), Tokio::NAME, "bytes", vec![tokio as f64]);
}

fn print(record: &Record, population: usize) {
    let line = |contender: &'static str| {
        let bytes =
            [PENDING, CANCELLED, FIRED].map(|workload| record.median(Case::of(workload, population), contender));
        let cells = bytes.map(|bytes| format!("{:.1}", bytes.unwrap_or(f64::NAN)));
        [contender.to_owned()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    println!("memory at {population} timers, bytes for each");
    println!("{}\n", table(&["", "pending", "after cancelling", "after firing"], &ALL.map(line)));
}

/// Bytes that are resident more than before: with all timers pending, and after their end.
fn in_child(contender: &str, population: usize, end: &str) -> [f64; 2] {
    let arguments = ["memory", contender, &population.to_string(), end].map(str::to_owned);
    let numbers = child(&arguments, None);
    let [pending, after] = numbers[..] else { panic!("not two numbers: {numbers:?}") };
    [pending, after].map(|bytes| bytes as f64)
}

/// What a process measures that was started for it.
#[derive(Debug, Args)]
pub struct Child {
    contender: String,
    population: usize,
    end: String,
}

impl Child {
    pub fn run(&self) {
        let (population, fire) = (self.population, self.end == "fire");
        let [pending, after] = match self.contender.as_str() {
            IN_PLACE => measure::<Hairspring, _>(hairspring_until, population, fire),
            BOXED => measure::<Hairspring, _>(|deadline| Box::pin(hairspring_until(deadline)), population, fire),
            TOKIO => measure::<Tokio, _>(|deadline| Box::pin(Tokio::sleep_until(deadline)), population, fire),
            other => panic!("no contender {other}"),
        };
        println!("{pending} {after}");
    }
}

pub fn resident() -> u64 {
    machine::resident().expect("Linux tells of a process's memory")
}

pub fn hairspring_until(deadline: Instant) -> hairspring::Sleep {
    hairspring::sleep_until(deadline.into())
}

/// Bytes that are resident more than before.
pub fn more_than(before: u64) -> u64 {
    resident().saturating_sub(before)
}

fn measure<U: Until, F>(sleep_until: fn(Instant) -> F, population: usize, fire: bool) -> [u64; 2]
where
    F: Future + Unpin + Send + 'static,
{
    let runtime = two_workers();
    for task in [warm_up::<U>(), warm_up::<U>()].map(|warm_up| runtime.spawn(warm_up)) {
        runtime.block_on(task).expect("nothing panics");
    }
    let before = resident();
    let count = Arc::new(Count::new(population));
    // Five microseconds for each to be armed in.
    let lead = if fire { Duration::from_micros(5 * population as u64).max(Duration::from_secs(1)) } else { HOUR };
    let due = Instant::now() + lead;
    let over = Duration::from_nanos(50 * population as u64);
    let timers = arm::<U, F>(&runtime, &count, evenly(due, over, population), sleep_until);
    assert!(Instant::now() < due, "armed in time");
    let pending = more_than(before);
    while fire && !count.is_complete() {
        thread::sleep(Duration::from_millis(10));
        assert!(due.elapsed() < Duration::from_mins(1), "all fire");
    }
    drop(timers);
    thread::sleep(Duration::from_millis(100));
    [pending, more_than(before)]
}
