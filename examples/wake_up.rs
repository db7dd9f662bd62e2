//! A laptop's sync job that runs at once after the machine has slept.
//!
//! The job runs every hour on the clock that goes on while the machine sleeps. With `--simulate`, a day in which the
//! lid is closed for eight hours passes in an instant, and an hourly job on the ordinary clock runs beside it: that one
//! waits for the rest of its hour after the lid is opened. Exits with 1 if either does something else. Without an
//! option the job runs for real, every minute, until you stop it.
//!
//! ```text
//! cargo run --release --features test-util --example wake_up -- --simulate
//! ```

use std::process::ExitCode;
use std::sync::mpsc;

use hairspring::{Duration, Instant, MissedTickBehavior, boot, interval, pause, sleep, test_util};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const USAGE: &str = "Usage: wake_up [OPTIONS]

  --simulate  a day of virtual time, with eight hours of sleep
  --help      prints this";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        [] => {
            println!("syncing every minute; let the machine sleep, and see what happens as it wakes");
            let start = boot::Instant::now();
            sync(MINUTE, |missed| println!("{:>6} s: synced, {missed} left out", start.elapsed().as_secs())).await;
            ExitCode::SUCCESS
        }
        ["--simulate"] => simulate().await,
        ["--help"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        [wrong, ..] => {
            eprintln!("error: there is no `{wrong}`; allowed: --simulate, --help, or nothing");
            ExitCode::from(2)
        }
    }
}

/// The job. What was missed is left out: one run brings everything up to date.
async fn sync(period: Duration, mut synced: impl FnMut(u64)) {
    let mut ticks = boot::interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        synced(ticks.missed());
    }
}

/// A run of a job: how long the machine was up by then, and how many runs were left out.
struct Run {
    job: &'static str,
    up: Duration,
    missed: u64,
}

/// Half past the hour the lid is closed for eight hours.
async fn simulate() -> ExitCode {
    pause();
    let (start, uptime) = (boot::Instant::now(), Instant::now());
    let (sender, runs) = mpsc::channel();
    let note = move |job, missed| {
        let (day, up) = (start.elapsed(), uptime.elapsed());
        println!("{:>4} min of the day, {:>4} up: {job}, {missed} left out", day.as_secs() / 60, up.as_secs() / 60);
        sender.send(Run { job, up, missed }).expect("the day goes on");
    };
    let note_ordinary = note.clone();
    tokio::spawn(sync(HOUR, move |missed| note("boot", missed)));
    tokio::spawn(async move {
        let mut ticks = interval(HOUR);
        loop {
            ticks.tick().await;
            note_ordinary("ordinary", 0);
        }
    });
    sleep(2 * HOUR + 30 * MINUTE).await;
    println!("the lid is closed for eight hours");
    test_util::suspend(8 * HOUR);
    sleep(HOUR).await;

    let runs: Vec<Run> = runs.try_iter().collect();
    let minutes = |job| runs.iter().filter(|run| run.job == job).map(|run| run.up.as_secs() / 60).collect::<Vec<_>>();
    // At once, at 630 minutes of the day, for the runs of 180 to 600; then on the full hour, at 660.
    let is_good = minutes("boot") == [0, 60, 120, 150, 180]
        && minutes("ordinary") == [0, 60, 120, 180]
        && runs.iter().any(|run| run.missed == 7);
    println!("{}", if is_good { "good: it ran as the machine woke" } else { "BAD: it did not run as it should" });
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
