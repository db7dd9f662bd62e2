//! Memory that a pending timer takes, and what is given back when the timers are gone.
//!
//! Each figure comes from a fresh process of this program, so that none finds memory that another has left behind.

use std::env;
use std::future::Future;
use std::pin::Pin;
use std::process::{self, Command};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::firing::{Count, two_workers, warm_up};
use crate::gate::Gate;
use crate::record::{Case, Record, RuntimeKind};
use crate::rival::Until;
use crate::rivals::{Hairspring, Tokio};
use crate::{Options, machine, terminal};

/// The first argument of a process that measures.
pub const CHILD: &str = "--measure-memory";

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

pub fn case(workload: &'static str, population: usize) -> Case {
    Case { workload, runtime: RuntimeKind::Workers, tasks: 1, standing: None, population }
}

pub fn run(options: &Options, record: &mut Record) {
    for &population in options.memory() {
        for contender in ALL {
            let [pending, cancelled] = in_child(contender, population, "cancel");
            let [_, fired] = in_child(contender, population, "fire");
            for (workload, bytes) in [(PENDING, pending), (CANCELLED, cancelled), (FIRED, fired)] {
                record.add(case(workload, population), contender, "bytes a timer", vec![bytes / population as f64]);
            }
        }
        terminal::memory(record, population);
    }
    let [ours, tokio] = [size_of::<hairspring::Sleep>(), size_of::<tokio::time::Sleep>()];
    println!("  of a pending timer, the sleep itself: hairspring {ours} bytes, tokio {tokio} bytes\n");
    record.add(case(SLEEP, 1), <Hairspring as Until>::NAME, "bytes", vec![ours as f64]);
    record.add(case(SLEEP, 1), <Tokio as Until>::NAME, "bytes", vec![tokio as f64]);
}

/// Bytes that are resident more than before: with all timers pending, and after their end.
fn in_child(contender: &str, population: usize, end: &str) -> [f64; 2] {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([CHILD, contender, &population.to_string(), end]).output();
    let output = output.expect("this program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told = String::from_utf8(output.stdout).expect("numbers");
    let mut numbers = told.split_whitespace().map(|word| word.parse().expect("a number"));
    [numbers.next().expect("bytes pending"), numbers.next().expect("bytes after")]
}

/// What a process does that was started to measure.
pub fn child(arguments: &[String]) -> ! {
    let [contender, population, end] = arguments else { panic!("{CHILD} contender population end") };
    let population = population.parse().expect("a number of timers");
    let fire = end == "fire";
    let [pending, after] = match contender.as_str() {
        IN_PLACE => measure::<Hairspring, _>(hairspring_until, population, fire),
        BOXED => measure::<Hairspring, _>(|deadline| Box::pin(hairspring_until(deadline)), population, fire),
        TOKIO => measure::<Tokio, _>(|deadline| Box::pin(Tokio::sleep_until(deadline)), population, fire),
        other => panic!("no contender {other}"),
    };
    println!("{pending} {after}");
    process::exit(0);
}

fn hairspring_until(deadline: Instant) -> hairspring::Sleep {
    hairspring::sleep_until(deadline.into())
}

fn measure<U: Until, F>(sleep_until: fn(Instant) -> F, population: usize, fire: bool) -> [f64; 2]
where
    F: Future + Unpin + Send + 'static,
{
    let runtime = two_workers();
    for task in [warm_up::<U>(), warm_up::<U>()].map(|warm_up| runtime.spawn(warm_up)) {
        runtime.block_on(task).expect("nothing panics");
    }
    let before = machine::resident();
    let gate = Arc::new(Gate::new(2));
    let count = Arc::new(Count::new(population));
    // Half a microsecond for each to be armed in, and more.
    let lead = if fire { Duration::from_micros(population as u64 / 2).max(Duration::from_secs(1)) } else { HOUR };
    let due = Instant::now() + lead;
    let halves: Vec<JoinHandle<Vec<F>>> = (0..2)
        .map(|_| {
            let (gate, waker) = (Arc::clone(&gate), Waker::from(Arc::clone(&count)));
            runtime.spawn(async move {
                gate.meet().await;
                let mut timers = Vec::with_capacity(population / 2);
                let mut cx = Context::from_waker(&waker);
                for number in 0..population as u64 / 2 {
                    let mut sleep = sleep_until(due + Duration::from_nanos(number * 100));
                    assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending(), "armed in time");
                    timers.push(sleep);
                }
                timers
            })
        })
        .collect();
    let timers: Vec<Vec<F>> = halves.into_iter().map(|half| runtime.block_on(half).expect("armed")).collect();
    let pending = machine::resident() - before;
    while fire && !count.is_complete() {
        thread::sleep(Duration::from_millis(10));
        assert!(due.elapsed() < Duration::from_mins(1), "all fire");
    }
    drop(timers);
    thread::sleep(Duration::from_millis(100));
    [pending, machine::resident() - before]
}
