//! A job at 03:00 each night in a time zone, while the clock changes: daylight saving, a clock that is set forward and
//! back, and a machine that sleeps through the night.
//!
//! The job is ordinary code with `wall::sleep_until` and the crate `jiff`, which knows time zones. A week of virtual
//! time passes in an instant. Exits with 1 if a night has no run, or two.
//!
//! ```text
//! cargo run --release --features test-util --example nightly
//! ```

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::SystemTime;

use hairspring::{Duration, pause, sleep, test_util, wall};
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Error, Timestamp, Zoned};

const HOUR: Duration = Duration::from_secs(3_600);

/// The next 03:00 after `time`, in its time zone. If that time of day is left out as the clocks go forward, `jiff`
/// takes the time just as long after the gap; if it comes twice, the first.
fn next_night(time: &Zoned) -> Result<Zoned, Error> {
    let today = time.date().at(3, 0, 0, 0).to_zoned(time.time_zone().clone())?;
    if today > *time { Ok(today) } else { time.date().tomorrow()?.at(3, 0, 0, 0).to_zoned(time.time_zone().clone()) }
}

/// The time in a zone, by the wall clock of the runtime.
fn now(zone: &TimeZone) -> Result<Zoned, Error> {
    Ok(Timestamp::try_from(wall::now())?.to_zoned(zone.clone()))
}

/// Calls `job` each night, with the night it is for.
async fn nightly(zone: TimeZone, mut job: impl FnMut(&Zoned)) -> Result<(), Error> {
    let mut last = now(&zone)?;
    loop {
        let night = next_night(&last)?;
        wall::sleep_until(SystemTime::from(&night)).await;
        job(&night);
        // If the clock was set past some nights, these are left out. If it was set back, no night gets a second run.
        last = now(&zone)?.max(night);
    }
}

/// A run of the job: the night it is for, and when it was.
struct Run {
    night: DateTime,
    at: DateTime,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match simulate().await {
        Ok(true) => {
            println!("good: each night has had one run");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("BAD: a night has no run, or two, or one at the wrong time");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn simulate() -> Result<bool, Error> {
    let zone = TimeZone::get("Europe/Berlin")?;
    let set = |to: DateTime| -> Result<(), Error> {
        test_util::set_wall(SystemTime::from(&to.to_zoned(zone.clone())?));
        Ok(())
    };
    pause();
    set(date(2026, 3, 27).at(18, 0, 0, 0))?;
    println!("{}: it begins", now(&zone)?);
    let (sender, runs) = mpsc::channel();
    let job = {
        let zone = zone.clone();
        move |night: &Zoned| {
            let at = now(&zone).expect("a time that jiff knows");
            println!("{at}: runs, for the night of {}", night.date());
            let at = at.round(jiff::Unit::Second).expect("a second").datetime();
            sender.send(Run { night: night.datetime(), at }).expect("the week goes on");
        }
    };
    tokio::spawn(nightly(zone.clone(), job));

    sleep(24 * HOUR).await; // over the first night
    println!("{}: the clock was two hours slow", now(&zone)?);
    set(date(2026, 3, 28).at(20, 0, 0, 0))?;
    sleep(16 * HOUR).await; // over the night in which the clocks go forward
    println!("{}: somebody sets the clock back", now(&zone)?);
    set(date(2026, 3, 29).at(1, 0, 0, 0))?;
    sleep(30 * HOUR).await; // past 03:00 on the 29th once more, and over the next night
    println!("{}: the machine sleeps until morning", now(&zone)?);
    test_util::suspend(24 * HOUR);
    sleep(HOUR).await;

    let runs: Vec<Run> = runs.try_iter().collect();
    let nights = runs.iter().map(|run| (run.night, run.at));
    let at_three = |day| date(2026, 3, day).at(3, 0, 0, 0);
    let on_time = [28, 29, 30].map(|day| (at_three(day), at_three(day)));
    let late = (at_three(31), date(2026, 3, 31).at(8, 0, 0, 0));
    Ok(nights.eq(on_time.into_iter().chain([late])))
}
