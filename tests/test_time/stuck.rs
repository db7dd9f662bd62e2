//! The message on standard error if for five seconds a paused clock does not move, a runtime does not settle, the clock
//! of a bubble moves while its test does not run, or the end of a bubble waits for blocking work.
//!
//! Each case hangs, so it runs in a separate process.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;

use crate::common::{HOUR, HUNG, YEAR, ms, must_end};
use hairspring::test_util::{Bubble, bubble, hold, settle};
use hairspring::{interval, sleep};
use tokio::task::spawn_blocking;

/// Blocks its thread forever.
fn block() {
    let (_sender, never) = mpsc::channel::<()>();
    let _ = never.recv();
}

async fn blocks_and_sleeps() {
    tokio::spawn(async { block() });
    sleep(HOUR).await;
}

async fn holds_and_sleeps() {
    let _hold = hold();
    sleep(HOUR).await;
}

/// Millions of moves of the clock.
async fn sleeps_beside_a_heartbeat() {
    tokio::spawn(async {
        let mut beats = interval(ms(1));
        loop {
            beats.tick().await;
        }
    });
    sleep(YEAR).await;
}

async fn leaves_blocking_work() {
    spawn_blocking(block);
}

#[hairspring::test(workers = 2)]
#[ignore = "hangs: one of the cases"]
async fn says_its_name() {
    blocks_and_sleeps().await;
}

fn on_workers<F: Future<Output = ()>>(code: impl FnOnce() -> F) {
    Bubble::new().workers(2).run(code);
}

/// A name, code that hangs, and parts of the message, in order.
type Case = (&'static str, fn(), &'static [&'static str]);

const SLEEPS: &[&str] =
    &["has not moved for 5s: ", "a task ", "worker ", "timers waiting: 1, the next is due in 3600s", "Sleep ", FILE];
const NAMED: &[&str] = &["test `stuck::says_its_name`: the paused clock has not moved for 5s: "];
const HELD: &[&str] = &["has not moved for 5s: ", "held", "a hold taken at ", FILE];
const FILE: &str = "tests/test_time/stuck.rs:";

const MOVES: &[&str] =
    &["own future has not run for 5s", "has come ", "s: ", "Bubble::limit", "timers waiting: ", "Sleep ", FILE];
const ENDS: &[&str] = &["test has ended", "waits for blocking work", "left"];

const CASES: [Case; 14] = [
    ("a task blocks a worker", || on_workers(blocks_and_sleeps), SLEEPS),
    ("a test made by the attribute", says_its_name, NAMED),
    ("a task blocks the only thread", || Bubble::new().grace(ms(50)).run(blocks_and_sleeps), SLEEPS),
    ("a hold is kept in a bubble", || bubble(holds_and_sleeps), HELD),
    (
        "blocking work waits",
        || on_workers(|| async { spawn_blocking(block).await.unwrap() }),
        &["has not moved for 5s: ", "blocking work "],
    ),
    (
        "blocking work in a bubble waits for time",
        || {
            bubble(|| async {
                let runtime = tokio::runtime::Handle::current();
                spawn_blocking(move || runtime.block_on(sleep(HOUR))).await.unwrap();
            });
        },
        &["has not moved for 5s: ", "blocking work "],
    ),
    (
        "a task blocks while another settles",
        || {
            on_workers(|| async {
                tokio::spawn(async { block() });
                settle().await;
            });
        },
        &["has not settled ", "5s: ", "a task ", "worker "],
    ),
    ("the clock moves", || bubble(sleeps_beside_a_heartbeat), MOVES),
    ("the clock moves for 1 worker", || Bubble::new().workers(1).run(sleeps_beside_a_heartbeat), MOVES),
    ("the clock moves for 4 workers", || Bubble::new().workers(4).run(sleeps_beside_a_heartbeat), MOVES),
    ("blocking work goes on after the test", || bubble(leaves_blocking_work), ENDS),
    ("blocking work goes on after a test on 1 worker", || Bubble::new().workers(1).run(leaves_blocking_work), ENDS),
    ("blocking work goes on after a test on 2 workers", || on_workers(leaves_blocking_work), ENDS),
    ("blocking work goes on after a test on 4 workers", || Bubble::new().workers(4).run(leaves_blocking_work), ENDS),
];

const CASE: &str = "HAIRSPRING_STUCK";

#[test]
#[ignore = "run by the next test in a separate process"]
fn hangs() {
    let name = std::env::var(CASE).unwrap();
    CASES.iter().find(|case| case.0 == name).unwrap().1();
}

/// The output of a case, up to a moment after it has all expected parts, or until time is up.
fn said((name, _, expected): Case) -> String {
    let mut child =
        crate::alone("stuck::hangs").env(CASE, name).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stderr.take().unwrap());
    let (ended, ends) = mpsc::channel::<()>();
    let kills = thread::spawn(move || {
        let _ = ends.recv_timeout(HUNG / 2);
        thread::sleep(ms(300));
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let mut said = String::new();
    for line in output.by_ref().lines().map(Result::unwrap) {
        said += &line;
        if says(&said, expected) {
            break;
        }
    }
    drop(ended);
    said.extend(output.lines().map(Result::unwrap));
    kills.join().unwrap();
    said
}

/// Whether the message has all expected parts, in order.
fn says(said: &str, expected: &[&str]) -> bool {
    let begins = said.find("hairspring: ").map(|at| &said[at..]);
    expected.iter().fold(begins, |rest, it| rest?.split_once(it).map(|(_, rest)| rest)).is_some()
}

#[test]
fn after_five_seconds_a_message_says_why() {
    let all = CASES.map(|case| thread::spawn(move || must_end(move || said(case))));
    for (case, (name, _, expected)) in all.into_iter().zip(CASES) {
        let said = case.join().unwrap();
        assert!(says(&said, expected), "{name}: {said}");
        assert_eq!(said.matches("hairspring: ").count(), 1, "{name}: {said}");
    }
}
