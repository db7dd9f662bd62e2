//! Runs rounds of a target on some threads, and makes a failing one shorter.
//!
//! A round begins with a seed, which says everything about it. Round number `n` of a run has the run's seed plus `n`,
//! so the seed of a failing round, given as that of a run, has it run first.
//!
//! Must not know: what is under test.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::target::Target;

/// How long a round may take before it counts as hung. Hundreds of times what it takes.
const HUNG: Duration = Duration::from_secs(60);

/// How long it is tried to make a failing list of operations shorter.
const SHRINKING: Duration = Duration::from_secs(20);

/// How many times a list is run before it counts as one that does not fail: a `DeadlineMap` seeds its hasher anew each
/// time, so it may take a few.
const TRIES: usize = 3;

thread_local! {
    /// What the last panic on this thread said, and where it was.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What is asked for on the command line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
}

/// Has panics of this thread kept for its report, in place of being printed one by one.
pub(crate) fn be_quiet() {
    IS_QUIET.set(true);
}

/// Makes that possible.
pub(crate) fn keep_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if IS_QUIET.get() {
            let said = info.to_string();
            SAID.with(|last| last.replace(said));
        } else {
            print(info);
        }
    }));
}

/// Runs at least so many operations; `false` if one fails.
pub(crate) fn run<T: Target>(settings: Settings) -> bool {
    let start = Instant::now();
    let shared = Shared {
        first_seed: settings.seed,
        rounds: AtomicU64::new(0),
        operations: AtomicU64::new(0),
        failed: Mutex::new(None),
        ended: AtomicBool::new(false),
    };
    let beats: Vec<Beat> = (0..settings.threads).map(|_| Beat::default()).collect();
    thread::scope(|scope| {
        scope.spawn(|| watch(T::NAME, &beats, &shared.ended));
        let workers: Vec<_> =
            beats.iter().map(|beat| scope.spawn(|| work::<T>(&shared, beat, settings.operations))).collect();
        for worker in workers {
            worker.join().expect("failures are caught");
        }
        shared.ended.store(true, SeqCst);
    });
    let (operations, rounds, took) = (shared.operations.load(SeqCst), shared.rounds.load(SeqCst), start.elapsed());
    // Thousandths, so that nothing is lost in a float.
    let per_second = u128::from(operations) * 1_000 / took.as_millis().max(1);
    println!(
        "{:<6} {operations:>13} operations in {rounds:>9} rounds, seeds {} to {}, {:>8.1} s, {per_second:>9} a second",
        T::NAME,
        settings.seed,
        settings.seed.wrapping_add(rounds.saturating_sub(1)),
        took.as_secs_f64(),
    );
    let failed = shared.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(report) = &failed {
        println!("{report}");
    }
    failed.is_none()
}

struct Shared {
    first_seed: u64,
    rounds: AtomicU64,
    operations: AtomicU64,
    failed: Mutex<Option<String>>,
    ended: AtomicBool,
}

/// Shows that a worker goes on.
#[derive(Default)]
struct Beat {
    rounds: AtomicU64,
    seed: AtomicU64,
}

fn work<T: Target>(shared: &Shared, beat: &Beat, operations: u64) {
    be_quiet();
    let mut log = Vec::new();
    while shared.operations.load(SeqCst) < operations && !shared.ended.load(SeqCst) {
        let seed = shared.first_seed.wrapping_add(shared.rounds.fetch_add(1, SeqCst));
        beat.seed.store(seed, SeqCst);
        beat.rounds.fetch_add(1, SeqCst);
        log.clear();
        let failed = round::<T>(seed, &mut log);
        shared.operations.fetch_add(log.len() as u64, SeqCst);
        if let Err(said) = failed {
            // The others stop.
            if !shared.ended.swap(true, SeqCst) {
                let report = report::<T>(seed, &said, &log, shared.operations.load(SeqCst));
                *shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
            }
        }
    }
}

/// Ends the process if a round does not end.
fn watch(name: &str, beats: &[Beat], ended: &AtomicBool) {
    let mut seen: Vec<(u64, Instant)> = beats.iter().map(|_| (0, Instant::now())).collect();
    while !ended.load(SeqCst) {
        thread::sleep(Duration::from_millis(20));
        for (beat, seen) in beats.iter().zip(&mut seen) {
            let rounds = beat.rounds.load(SeqCst);
            if rounds != seen.0 {
                *seen = (rounds, Instant::now());
            } else if seen.1.elapsed() > HUNG && !ended.load(SeqCst) {
                println!("{name}: the round with seed {} hangs", beat.seed.load(SeqCst));
                let _ = std::io::stdout().flush();
                std::process::exit(1);
            }
        }
    }
}

/// Calls `code`, and returns what it said if it panics.
pub(crate) fn caught(code: impl FnOnce()) -> Result<(), String> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(|payload: Box<dyn Any + Send>| {
        // What was thrown without a message has none that was kept.
        drop(payload);
        said()
    })
}

/// What the last panic on this thread said.
pub(crate) fn said() -> String {
    SAID.with(|said| said.borrow().clone())
}

fn round<T: Target>(seed: u64, log: &mut Vec<T::Op>) -> Result<(), String> {
    caught(|| {
        let mut random = Random::new(seed);
        let mut target = T::new(&mut random);
        for _ in 0..target.length(&mut random) {
            let op = target.generate(&mut random);
            log.push(op.clone());
            target.apply(&op);
        }
        target.finish();
    })
}

fn replay<T: Target>(seed: u64, ops: &[T::Op]) -> Result<(), String> {
    (0..TRIES).try_for_each(|_| {
        caught(|| {
            let mut target = T::new(&mut Random::new(seed));
            for op in ops {
                target.apply(op);
            }
            target.finish();
        })
    })
}

fn report<T: Target>(seed: u64, said: &str, log: &[T::Op], operations: u64) -> String {
    let mut last_said = said.to_owned();
    let ops = shrunk(log, |ops| replay::<T>(seed, ops).map_err(|said| last_said = said).is_err());
    let listed: Vec<String> = ops.iter().map(|op| format!("    {op:?}")).collect();
    format!(
        "\n{name} FAILED with seed {seed}, after {operations} operations of this run: {said}\n\
         again: cargo run --release -- {name} --seed {seed} --operations 1\n\
         set up as: {}\n\
         shortened from {} to {} operations, which end with: {last_said}\n{}",
        T::new(&mut Random::new(seed)).describe(),
        log.len(),
        ops.len(),
        listed.join("\n"),
        name = T::NAME,
    )
}

/// Leaves out what the failure does not need: halves, quarters and so on to single ones, as long as any can go.
fn shrunk<O: Clone>(ops: &[O], mut fails: impl FnMut(&[O]) -> bool) -> Vec<O> {
    let start = Instant::now();
    let mut kept = ops.to_vec();
    if !fails(&kept) {
        return kept;
    }
    let mut size = kept.len().div_ceil(2).max(1);
    loop {
        let before = kept.len();
        let mut end = kept.len();
        while end > 0 {
            let from = end.saturating_sub(size);
            let mut less = kept[..from].to_vec();
            less.extend_from_slice(&kept[end..]);
            if start.elapsed() > SHRINKING {
                return kept;
            }
            if fails(&less) {
                kept = less;
            }
            end = from;
        }
        if size == 1 && kept.len() == before {
            return kept;
        }
        size = size.div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failure_needs_is_kept_and_nothing_else() {
        let all: Vec<u32> = (0..1_000).collect();
        let needed = [3, 4, 500, 999];
        let kept = shrunk(&all, |ops| needed.iter().all(|op| ops.contains(op)));
        assert_eq!(kept, needed);
    }
}
