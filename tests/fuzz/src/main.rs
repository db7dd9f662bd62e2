//! A differential fuzzer for hairspring: see TESTING.md. `tests/it/fuzz.rs` runs a few rounds of each target.

mod clock;
mod map;
mod queue;
#[path = "../../common/random.rs"]
#[allow(dead_code)]
mod random;
mod run;
mod timer;
mod virtual_time;
mod wheel;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use random::Random;
use run::Target;

const USAGE: &str = "usage: hairspring-fuzz [wheel|timer|queue|map|current|workers|bubble|manual|all] [--seed N] [--operations N] [--threads N]";

type Run = fn(&Settings) -> bool;

/// The targets. Of 10,000 operations of `all`, each gets so many, and then takes about the same time.
const TARGETS: [(&str, u64, Run); 8] = [
    ("wheel", 4_000, rounds::<wheel::Pair>),
    ("timer", 1_500, rounds::<timer::World>),
    ("queue", 2_500, rounds::<queue::Pair>),
    ("map", 1_988, rounds::<map::Pair>),
    ("current", 3, rounds::<virtual_time::OnCurrentThread>),
    ("workers", 3, rounds::<virtual_time::OnWorkers>),
    ("bubble", 3, rounds::<virtual_time::InBubble>),
    ("manual", 3, rounds::<virtual_time::OnManualClock>),
];

/// A round that takes longer counts as hung. Rounds are usually hundreds of times shorter.
const HUNG: Duration = Duration::from_secs(1_000);

struct Settings {
    seed: u64,
    operations: u64,
    threads: u64,
}

fn main() -> ExitCode {
    let mut settings = Settings { seed: 1, operations: 10_000_000, threads: 1 };
    let mut command = String::from("all");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let option = match argument.as_str() {
            "--seed" => &mut settings.seed,
            "--operations" => &mut settings.operations,
            "--threads" => &mut settings.threads,
            _ => {
                command = argument;
                continue;
            }
        };
        match arguments.next().map(|value| value.replace('_', "").parse()) {
            Some(Ok(value)) => *option = value,
            _ => return wrong(),
        }
    }
    // Failures are reported, and some panics are expected.
    std::panic::set_hook(Box::new(|_| ()));
    let passed = if command == "all" {
        let part = settings.operations.div_ceil(10_000);
        TARGETS.iter().all(|(_, share, run)| {
            settings.operations = part * share;
            run(&settings)
        })
    } else {
        let Some((_, _, run)) = TARGETS.iter().find(|(name, ..)| *name == command) else { return wrong() };
        run(&settings)
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::FAILURE
}

/// Runs rounds until they have performed the requested number of operations. Returns `false` if one fails.
fn rounds<T: Target>(settings: &Settings) -> bool {
    let (start, next, done) = (Instant::now(), AtomicU64::new(settings.seed), AtomicU64::new(0));
    let (running, failure) = (Mutex::new(BTreeMap::new()), Mutex::new(None));
    let lock = || running.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        while done.load(SeqCst) < settings.operations {
            let seed = next.fetch_add(1, SeqCst);
            lock().insert(seed, Instant::now());
            let result = run::round::<T>(seed);
            lock().remove(&seed);
            match result {
                Ok(operations) => _ = done.fetch_add(operations as u64, SeqCst),
                Err(report) => {
                    failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(report);
                    return done.store(u64::MAX >> 1, SeqCst);
                }
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.threads).map(|_| scope.spawn(work)).collect();
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(20));
            if let Some((seed, _)) = lock().iter().find(|(_, since)| since.elapsed() > HUNG) {
                println!("{}: the round with seed {seed} hangs", T::NAME);
                std::process::exit(1);
            }
        }
    });
    if let Some(report) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        println!("{report}");
        return false;
    }
    let (operations, last, took) = (done.load(SeqCst), next.load(SeqCst) - 1, start.elapsed());
    println!(
        "{:<7} {operations:>13} operations, seeds {} to {last}, {:>8.1} s, {:>9} a second",
        T::NAME,
        settings.seed,
        took.as_secs_f64(),
        u128::from(operations) * 1_000 / took.as_millis().max(1),
    );
    true
}
