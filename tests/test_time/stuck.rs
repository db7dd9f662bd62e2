//! What is said on standard error if nothing goes on in a runtime whose clock is paused, or that settles.
//!
//! Each case hangs, so it runs as a program of its own.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common::{HOUR, current_thread, multi_thread, must_end};
use hairspring::test_util::{bubble, hold, pause_with_grace, settle, spawn_blocking};
use hairspring::{pause, sleep};

/// More than twice as long as nothing may go on until that is said.
const TOO_LATE: Duration = Duration::from_secs(12);

/// Waits for ever, as the thread of a task must not.
fn block() {
    let (_sender, never) = mpsc::channel::<()>();
    let _ = never.recv();
}

#[test]
#[ignore = "run as a program of its own"]
fn a_task_blocks_while_another_settles() {
    multi_thread(2).block_on(async {
        tokio::spawn(async { block() });
        settle().await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_task_blocks_and_a_timer_waits() {
    multi_thread(2).block_on(async {
        pause();
        tokio::spawn(async { block() });
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_task_blocks_and_no_timer_waits() {
    multi_thread(2).block_on(async {
        pause();
        tokio::spawn(async { block() }).await.unwrap();
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_task_blocks_a_clock_with_a_grace() {
    multi_thread(2).block_on(async {
        pause_with_grace(Duration::from_millis(50));
        tokio::spawn(async { block() });
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_task_blocks_the_only_thread_of_a_clock_with_a_grace() {
    current_thread().block_on(async {
        pause_with_grace(Duration::from_millis(50));
        tokio::spawn(async { block() });
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn every_task_waits() {
    multi_thread(2).block_on(async {
        pause();
        std::future::pending::<()>().await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_hold_is_kept() {
    multi_thread(2).block_on(async {
        pause();
        let _hold = hold();
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_hold_is_kept_on_a_clock_with_a_grace() {
    current_thread().block_on(async {
        pause_with_grace(Duration::from_millis(50));
        let _hold = hold();
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn a_hold_is_kept_in_a_bubble() {
    bubble(|| async {
        let _hold = hold();
        sleep(HOUR).await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn blocking_work_in_a_bubble_waits_for_time() {
    bubble(|| async {
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(sleep(HOUR))).await.unwrap();
    });
}

/// It keeps tokio from moving the clock, and wakes the runtime in real time.
#[test]
#[ignore = "run as a program of its own"]
fn a_timer_of_tokios_waits_on_a_clock_with_a_grace() {
    current_thread().block_on(async {
        pause_with_grace(Duration::from_millis(50));
        tokio::time::sleep(8 * Duration::from_secs(1)).await;
        std::future::pending::<()>().await;
    });
}

#[test]
#[ignore = "run as a program of its own"]
fn blocking_work_is_waited_for() {
    multi_thread(2).block_on(async {
        pause();
        spawn_blocking(block).await.unwrap();
    });
}

/// What the program of that name says from the first line of ours on, for as many lines as are expected.
fn said(program: &str, lines: usize) -> String {
    let mut run = Command::new(std::env::current_exe().unwrap());
    run.args(["--exact", &format!("stuck::{program}"), "--ignored", "--nocapture"]).stdout(Stdio::null());
    let mut child = run.stderr(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stderr.take().unwrap());
    let (ended, ends) = mpsc::channel::<()>();
    let kills = thread::spawn(move || {
        let _ = ends.recv_timeout(TOO_LATE);
        child.kill().unwrap();
        child.wait().unwrap();
    });
    let said = output.lines().map(Result::unwrap).skip_while(|line| !line.starts_with("hairspring: ")).take(lines);
    let said: Vec<String> = said.collect();
    drop(ended);
    kills.join().unwrap();
    said.join("\n")
}

#[test]
fn it_is_said_after_five_seconds_what_keeps_a_runtime_from_going_on() {
    const STANDS: &str = "hairspring: the paused clock has not moved for 5s: ";
    let blocks = ["a task is running on worker "];
    let sleeps =
        [blocks[0], "  timers waiting: 1, the next is due in 3600s", "  Sleep created at tests/test_time/stuck.rs:"];
    let held = ["it is held.", "  a hold taken at tests/test_time/stuck.rs:"];
    let cases: [(&str, &str, &[&str]); 12] = [
        ("a_hold_is_kept_in_a_bubble", STANDS, &held),
        ("blocking_work_in_a_bubble_waits_for_time", STANDS, &["blocking work is running."]),
        ("a_timer_of_tokios_waits_on_a_clock_with_a_grace", STANDS, &["every task waits or blocks"]),
        ("a_task_blocks_while_another_settles", "hairspring: the runtime has not settled after 5s: ", &blocks),
        ("a_task_blocks_and_a_timer_waits", STANDS, &sleeps),
        ("a_task_blocks_and_no_timer_waits", STANDS, &blocks),
        ("a_task_blocks_a_clock_with_a_grace", STANDS, &sleeps),
        ("a_task_blocks_the_only_thread_of_a_clock_with_a_grace", STANDS, &sleeps),
        ("every_task_waits", STANDS, &["every task waits or blocks, and no timer is left to wake one."]),
        ("a_hold_is_kept", STANDS, &held),
        ("a_hold_is_kept_on_a_clock_with_a_grace", STANDS, &held),
        ("blocking_work_is_waited_for", STANDS, &["blocking work started at tests/test_time/stuck.rs:"]),
    ];
    let all = cases.map(|(program, begins, expected)| (program, begins, expected.to_vec()));
    let all = all.map(|(program, begins, expected)| {
        thread::spawn(move || {
            let said = must_end(move || said(program, expected.len()));
            (program, begins, said)
        })
    });
    for (case, (_, _, expected)) in all.into_iter().zip(cases) {
        let (program, begins, said) = case.join().unwrap();
        let said = said.strip_prefix(begins).unwrap_or_else(|| panic!("{program}: {said}"));
        let lines: Vec<&str> = said.lines().collect();
        let is_said =
            lines.len() == expected.len() && lines.iter().zip(expected).all(|(line, it)| line.starts_with(it));
        assert!(is_said, "{program}: {said}");
    }
}
