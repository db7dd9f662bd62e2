//! What reading the time costs, beside the standard library's and tokio's: this package has no feature of theirs or ours
//! that lets a test pause the clock.

use std::hint::black_box;
use std::time::Instant;

pub const COMMAND: &str = "now";

const READS: u32 = 1_000_000;
const ROUNDS: usize = 15;

/// Lets them take turns, and prints the median of each.
pub fn run() {
    let contenders: [(&str, fn()); 3] = [
        ("std::time::Instant::now", || {
            black_box(Instant::now());
        }),
        ("tokio::time::Instant::now", || {
            black_box(tokio::time::Instant::now());
        }),
        ("hairspring::Instant::now", || {
            black_box(hairspring::Instant::now());
        }),
    ];
    let mut nanos = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (row, (_, read)) in nanos.iter_mut().zip(contenders) {
            let start = Instant::now();
            (0..READS).for_each(|_| read());
            row.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(READS));
        }
    }
    let medians = nanos.map(|mut row| {
        row.sort_by(f64::total_cmp);
        row[ROUNDS / 2]
    });
    println!("{}\n", crate::machine::line());
    for ((name, _), median) in contenders.iter().zip(medians) {
        println!("{name:27} {median:6.1} ns  {:.2} times std's", median / medians[0]);
    }
}
