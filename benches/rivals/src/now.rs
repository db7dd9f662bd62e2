//! What reading the time costs, beside the standard library's and tokio's: this package has no feature of theirs or ours
//! that lets a test pause the clock.

use std::hint::black_box;
use std::time::Instant;

const READS: u32 = 1_000_000;
const ROUNDS: usize = 15;

/// Lets them take turns, and prints the median of each.
pub fn run() {
    let mut nanos = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        nanos[0].push(read(Instant::now));
        nanos[1].push(read(tokio::time::Instant::now));
        nanos[2].push(read(hairspring::Instant::now));
    }
    let medians = nanos.map(tools::median);
    for (name, median) in ["std", "tokio::time", "hairspring"].into_iter().zip(medians) {
        println!("{name:11} {median:6.1} ns  {:.2} times std's", median / medians[0]);
    }
}

/// Nanoseconds for a reading.
fn read<T>(now: impl Fn() -> T) -> f64 {
    let start = Instant::now();
    (0..READS).for_each(|_| drop(black_box(now())));
    start.elapsed().as_secs_f64() * 1e9 / f64::from(READS)
}
