//! A differential fuzzer for hairspring, and a soak on a virtual clock: see TESTING.md.

mod clock;
mod map;
mod queue;
mod random;
mod run;
mod soak;
mod target;
mod timer;
mod wheel;

use std::process::ExitCode;

use run::Settings;

const USAGE: &str = "usage: hairspring-fuzz [wheel|timer|queue|map|all] [--seed N] [--operations N] [--threads N]
       hairspring-fuzz soak [--years N]";

/// What `all` gives to each target, of a hundred operations: about the same time.
const SHARES: [(&str, u64); 4] = [("wheel", 55), ("timer", 15), ("queue", 15), ("map", 15)];

fn main() -> ExitCode {
    let mut settings = Settings { seed: 1, operations: 10_000_000, threads: 1 };
    let mut years = 10;
    let mut what = String::from("all");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let place = match argument.as_str() {
            "--seed" => &mut settings.seed,
            "--operations" => &mut settings.operations,
            "--threads" => &mut settings.threads,
            "--years" => &mut years,
            _ => {
                what = argument;
                continue;
            }
        };
        match arguments.next().map(|value| value.replace('_', "").parse()) {
            Some(Ok(value)) => *place = value,
            _ => return wrong(),
        }
    }
    run::keep_panics();
    let passed = match what.as_str() {
        "soak" => soak::run(years),
        "all" => SHARES.iter().all(|(name, share)| {
            let operations = settings.operations.div_ceil(100) * share;
            fuzz(name, Settings { operations, ..settings }) == Some(true)
        }),
        name => match fuzz(name, settings) {
            Some(passed) => passed,
            None => return wrong(),
        },
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// `None` if there is no target of that name.
fn fuzz(name: &str, settings: Settings) -> Option<bool> {
    match name {
        "wheel" => Some(run::run::<wheel::Pair>(settings)),
        "timer" => Some(run::run::<timer::World>(settings)),
        "queue" => Some(run::run::<queue::Pair>(settings)),
        "map" => Some(run::run::<map::Pair>(settings)),
        _ => None,
    }
}

fn wrong() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::FAILURE
}
