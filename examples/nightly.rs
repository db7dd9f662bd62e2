//! A job that runs at 03:00 each night in a time zone, despite daylight saving time, a clock that is set forward and
//! back, and a machine that sleeps until morning.
//!
//! The job is ordinary code with `wall::sleep_until` and the crate `jiff` for time zones. Four days of virtual
//! time pass in an instant. Panics unless each night has one run, at the right time.
//!
//! ```text
//! cargo run --release --features test-util --example nightly
//! cargo test --features test-util --example nightly   # the same as a test
//! ```

use std::sync::mpsc;
use std::time::SystemTime;

use hairspring::{Duration, pause, sleep, test_util, wall};
use jiff::civil::{DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Error, Timestamp, Unit, Zoned};

const HOUR: Duration = Duration::from_secs(3_600);

/// The next 03:00 after `time`, in its time zone. If 03:00 occurs twice, `jiff` returns the first. If clocks skip it,
/// `jiff` returns a time after the gap.
fn next_night(time: &Zoned) -> Result<Zoned, Error> {
    let today = time.date().at(3, 0, 0, 0).to_zoned(time.time_zone().clone())?;
    if today > *time { Ok(today) } else { time.date().tomorrow()?.at(3, 0, 0, 0).to_zoned(time.time_zone().clone()) }
}

/// The time in a zone, according to the runtime's wall clock.
fn now(zone: &TimeZone) -> Result<Zoned, Error> {
    Ok(Timestamp::try_from(wall::now())?.to_zoned(zone.clone()))
}

/// Calls `job` each night, with the night to which the run belongs.
async fn nightly(zone: TimeZone, mut job: impl FnMut(&Zoned)) -> Result<(), Error> {
    let mut last = now(&zone)?;
    loop {
        let night = next_night(&last)?;
        wall::sleep_until(SystemTime::from(&night)).await;
        job(&night);
        // If the clock is set forward, nights are skipped. If it is set back, none is repeated.
        last = now(&zone)?.max(night);
    }
}

/// Simulates four days. The clock must be paused.
async fn four_days() -> Result<(), Error> {
    let zone = TimeZone::get("Europe/Berlin")?;
    let set = |to: DateTime| -> Result<(), Error> {
        test_util::set_wall(SystemTime::from(&to.to_zoned(zone.clone())?));
        Ok(())
    };
    set(date(2026, 3, 27).at(18, 0, 0, 0))?;
    println!("{}: start", now(&zone)?);
    let (sender, runs) = mpsc::channel();
    let job = {
        let zone = zone.clone();
        move |night: &Zoned| {
            let at = now(&zone).and_then(|now| now.round(Unit::Second)).expect("a time that jiff knows");
            println!("{at}: run for the night of {}", night.date());
            sender.send((night.datetime(), at.datetime())).expect("the simulation goes on");
        }
    };
    let nightly = tokio::spawn(nightly(zone.clone(), job));

    sleep(24 * HOUR).await; // over the first night
    println!("{}: the clock is set two hours forward", now(&zone)?);
    set(date(2026, 3, 28).at(20, 0, 0, 0))?;
    sleep(16 * HOUR).await; // over the night in which daylight saving time begins
    println!("{}: the clock is set back past 03:00", now(&zone)?);
    set(date(2026, 3, 29).at(1, 0, 0, 0))?;
    sleep(30 * HOUR).await; // past 03:00 on the 29th again, and over the next night
    println!("{}: the machine sleeps until morning", now(&zone)?);
    test_util::suspend(24 * HOUR);
    sleep(HOUR).await;
    nightly.abort();

    // The last run is late because the machine slept.
    let march = |day, hour| date(2026, 3, day).at(hour, 0, 0, 0);
    let expected = [(28, 3), (29, 3), (30, 3), (31, 8)].map(|(day, hour)| (march(day, 3), march(day, hour)));
    assert_eq!(runs.try_iter().collect::<Vec<_>>(), expected);
    println!("good: each night has had one run");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    pause();
    four_days().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[hairspring::test]
    async fn each_night_has_one_run() -> Result<(), Error> {
        four_days().await
    }

    #[hairspring::test(workers = 2, limit = "5d")]
    async fn each_night_has_one_run_on_two_workers() -> Result<(), Error> {
        four_days().await
    }
}
