//! What the benches share: contenders that are measured one after the other, and what that adds up to, a table of
//! medians with each figure as a ratio to the peer's.
//!
//! Criterion reports every benchmark by itself. A speed means something only beside the peer's on the same machine in
//! the same minutes, so the samples that criterion asked for are noted here too and set side by side at the end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use criterion::{Criterion, SamplingMode};
use tokio::task::JoinHandle;

/// Does so many operations, and says how long they took.
pub type Run<'a> = &'a mut dyn FnMut(u64) -> Duration;

/// By row and, within it, by contender.
static RESULTS: Mutex<BTreeMap<String, BTreeMap<String, Samples>>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Default)]
struct Samples {
    /// How many operations each of them is made of.
    iters: u64,
    nanos: Vec<f64>,
}

impl Samples {
    /// `None` if nothing was measured: `-- --test` runs each operation just once.
    fn median(&self) -> Option<f64> {
        let mut sorted = self.nanos.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().filter(|_| self.iters > 1)
    }
}

/// Whether each operation is only to run once, as criterion sees it. What takes long to set up can be left out then.
pub fn is_test() -> bool {
    let has = |name| std::env::args().any(|argument| argument == name);
    !has("--bench") || has("--test")
}

pub fn criterion(sample_size: usize) -> Criterion {
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(300)).sample_size(sample_size);
    criterion.measurement_time(Duration::from_secs(1)).nresamples(20_000).configure_from_args()
}

/// Benchmarks the contenders, one after the other.
pub fn compare(criterion: &mut Criterion, row: &str, contenders: &mut [(&str, Run<'_>)]) {
    let mut group = criterion.benchmark_group(row);
    // All samples have the same number of iterations: the table at the end relies on it.
    group.sampling_mode(SamplingMode::Flat);
    for (name, run) in contenders {
        group.bench_function(*name, |bencher| {
            bencher.iter_custom(|iters| {
                let taken = run(iters);
                record(row, name, iters, taken);
                taken
            });
        });
    }
    group.finish();
}

/// Notes that `iters` operations of `contender` took `taken`.
pub fn record(row: &str, contender: &str, iters: u64, taken: Duration) {
    let mut results = RESULTS.lock().unwrap();
    let samples = results.entry(row.to_owned()).or_default().entry(contender.to_owned()).or_default();
    // Criterion warms up with ever more iterations, then (in its flat mode) takes all samples with the same number. So
    // what came before the number last changed was warm-up.
    if samples.iters != iters {
        *samples = Samples { iters, nanos: Vec::new() };
    }
    samples.nanos.push(taken.as_secs_f64() * 1e9 / iters as f64);
}

/// Makes a timer of each crate that is earlier than all others, and lets their drivers take note. When it is over there
/// is another one, until the tasks are aborted.
pub async fn stand() -> [JoinHandle<()>; 2] {
    const EARLIER: Duration = Duration::from_secs(20);
    let theirs = tokio::spawn(async {
        loop {
            tokio::time::sleep(EARLIER).await;
        }
    });
    let ours = tokio::spawn(async {
        loop {
            hairspring::sleep(EARLIER).await;
        }
    });
    tokio::time::sleep(Duration::from_millis(2)).await;
    [theirs, ours]
}

/// Prints what was noted. `peer` is the contender to whom the others are held.
pub fn print(peer: &str) {
    let mut lines = Vec::new();
    for (row, contenders) in &*RESULTS.lock().unwrap() {
        let Some(theirs) = contenders.get(peer).and_then(Samples::median) else { continue };
        for (contender, samples) in contenders.iter().filter(|(contender, _)| *contender != peer) {
            let (name, ours) = (format!("{row}/{contender}"), samples.median().unwrap_or(f64::NAN));
            lines.push([name, format!("{ours:.1}"), format!("{theirs:.1}"), format!("{:.2}", theirs / ours)].to_vec());
        }
    }
    if !lines.is_empty() {
        println!("\nMedian time of one operation; the ratio is how many times as long {peer} takes.\n");
        println!("{}", tools::table(&["benchmark", "ours, ns", &format!("{peer}, ns"), "ratio"], &lines));
    }
}
