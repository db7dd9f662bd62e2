//! Measures operations beside their peers', in one run.
//!
//! A speed means something only beside the peer's on the same machine in the same minute, so contenders take turns of
//! some 20 ms. Arguments: a word, to measure only the rows that contain it; `--test`, to run each operation only once.

use std::time::{Duration, Instant};
use std::{env, thread};

use tokio::runtime::Runtime;

/// Does a number of iterations and returns how long they took.
pub type Run<'a> = &'a mut dyn FnMut(u64) -> Duration;

/// Whether operations only run once, as in `cargo test`.
fn is_test() -> bool {
    let has = |name| env::args().any(|argument| argument == name);
    !has("--bench") || has("--test")
}

/// Prints the median time of an operation for each contender, and how many times as long the last one takes. An
/// iteration consists of `operations`.
pub fn compare(row: &str, operations: u64, contenders: &mut [(&str, Run<'_>)]) {
    if env::args().skip(1).any(|argument| !argument.starts_with('-') && !row.contains(&argument)) {
        return;
    }
    if is_test() {
        for (_, run) in contenders {
            run(1);
        }
        return;
    }
    let iterations: Vec<u64> = contenders.iter_mut().map(|(_, run)| iterations(run)).collect();
    let mut samples = vec![Vec::new(); contenders.len()];
    let start = Instant::now();
    while samples[0].len() < 5 || start.elapsed() < Duration::from_secs(2) {
        for (((_, run), samples), &iterations) in contenders.iter_mut().zip(&mut samples).zip(&iterations) {
            samples.push(run(iterations).as_nanos() as f64 / (iterations * operations) as f64);
        }
    }
    let medians: Vec<f64> = samples.into_iter().map(tools::median).collect();
    let peer = medians[medians.len() - 1];
    for ((name, _), median) in contenders.iter().zip(&medians) {
        println!("{:<52} {median:>10.1} ns {:>8.2}x", format!("{row}/{name}"), peer / median);
    }
}

/// How many iterations take some 20 ms, or fewer if they take long to set up.
fn iterations(run: &mut dyn FnMut(u64) -> Duration) -> u64 {
    let mut iterations = 1;
    loop {
        let start = Instant::now();
        if run(iterations) > Duration::from_millis(10) || start.elapsed() > Duration::from_millis(100) {
            return iterations;
        }
        iterations *= 2;
    }
}

/// A runtime with workers on which one timer of each crate is pending that is earlier than all that are measured, as in
/// most programs that use timers.
pub fn runtime(workers: usize) -> Runtime {
    const EARLIER: Duration = Duration::from_secs(20);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.expect("the system has threads");
    runtime.spawn(async {
        loop {
            tokio::time::sleep(EARLIER).await;
        }
    });
    runtime.spawn(async {
        loop {
            hairspring::sleep(EARLIER).await;
        }
    });
    // The drivers see them before anything is measured.
    thread::sleep(Duration::from_millis(2));
    runtime
}
