//! Clients on a paused clock leave one trace, however many workers run them, and on a current-thread runtime.
//!
//! `HAIRSPRING_ROUNDS=10000` makes more runs than the default.
#![cfg(feature = "test-util")]

mod clients;
#[path = "../common/mod.rs"]
mod common;

use std::time::Duration;

use clients::{first_difference, run_once};

const SPAN: Duration = Duration::from_secs(6 * 3_600);

fn all_runs_are_alike(kinds: &[usize], runs: usize) {
    let first = run_once(kinds[0], SPAN);
    assert!(first.len() > 200, "{} events", first.len());
    for (run, workers) in (1..runs).zip(kinds.iter().cycle()) {
        let trace = run_once(*workers, SPAN);
        let differs = first_difference(&first, &trace).map(|at| (at, first.get(at), trace.get(at)));
        assert!(differs.is_none(), "run {run}, on {workers} workers: {differs:?}");
    }
}

#[test]
fn a_hundred_runs_on_1_2_and_4_workers_and_on_none_leave_one_trace() {
    let rounds = std::env::var("HAIRSPRING_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    all_runs_are_alike(&[1, 2, 4, 0], rounds);
}
