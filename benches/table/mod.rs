//! What the benches of one run add up to: a table of medians, with each figure as a ratio to the peer's.
//!
//! Criterion reports every benchmark by itself. A speed means something only beside the peer's on the same machine in
//! the same minutes, so the samples that criterion asked for are noted here too and set side by side at the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// By row and, within it, by contender.
static RESULTS: Mutex<BTreeMap<String, BTreeMap<String, Samples>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Samples {
    /// How many operations each of them is made of.
    iters: u64,
    nanos: Vec<f64>,
}

impl Samples {
    /// `None` where nothing was measured: `-- --test` runs each operation just once.
    fn median(&self) -> Option<f64> {
        let mut sorted = self.nanos.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().filter(|_| self.iters > 1)
    }
}

/// Notes that `iters` operations of `contender` took `taken`.
pub(crate) fn record(row: &str, contender: &str, iters: u64, taken: Duration) {
    let mut results = RESULTS.lock().unwrap();
    let samples = results.entry(row.to_owned()).or_default().entry(contender.to_owned()).or_default();
    // Criterion warms up with ever more iterations, then (in its flat mode) takes all samples with the same number. So
    // what came before the number last changed was warm-up.
    if samples.iters != iters {
        *samples = Samples { iters, nanos: Vec::new() };
    }
    // Exact up to 2^53 iterations.
    #[allow(clippy::cast_precision_loss)]
    samples.nanos.push(taken.as_secs_f64() * 1e9 / iters as f64);
}

/// Prints what was noted. `peer` is the contender to whom the others are held.
pub(crate) fn print(peer: &str) {
    let results = RESULTS.lock().unwrap();
    let lines: Vec<_> = results.iter().flat_map(|(row, contenders)| lines(row, contenders, peer)).collect();
    if lines.is_empty() {
        return;
    }
    println!("\nMedian time of one operation; the ratio is how many times as long {peer} takes.\n");
    println!("| {:<54} | {:>8} | {:>12} | {:>6} |", "benchmark", "ours, ns", format!("{peer}, ns"), "ratio");
    println!("|{:-<56}|{:->10}|{:->14}|{:->8}|", "", ":", ":", ":");
    for line in lines {
        println!("{line}");
    }
}

fn lines(row: &str, contenders: &BTreeMap<String, Samples>, peer: &str) -> Vec<String> {
    let theirs = contenders.get(peer).and_then(Samples::median);
    let others = contenders.iter().filter(|(contender, _)| *contender != peer);
    let medians = others.filter_map(|(contender, samples)| Some((contender, samples.median()?)));
    medians
        .map(|(contender, ours)| {
            let name = format!("{row}/{contender}");
            let theirs_cell = theirs.map_or("-".to_owned(), |theirs| format!("{theirs:.1}"));
            let ratio = theirs.map_or("-".to_owned(), |theirs| format!("{:.2}", theirs / ours));
            format!("| {name:<54} | {ours:>8.1} | {theirs_cell:>12} | {ratio:>6} |")
        })
        .collect()
}
