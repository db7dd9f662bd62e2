//! An interval that takes samples, and what it does about the ticks it missed.
//!
//! A gauge is to be read every 50 ms, but the second reading takes 180 ms, so that the ticks at 100, 150 and 200 ms are
//! missed. Each of the three behaviours goes on from there in its own way. Exits with 1 if one does not do what its
//! documentation says.
//!
//! ```text
//! cargo run --release --example interval
//! ```

use std::process::ExitCode;

use hairspring::{Duration, Instant, MissedTickBehavior, interval, sleep};

const PERIOD: Duration = Duration::from_millis(50);
const SLOW_READING: Duration = Duration::from_millis(180);
const READINGS: u32 = 7;

/// When a reading was due, and when it began, both counted from the first.
struct Reading {
    due: Duration,
    began: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    println!("every {PERIOD:?}, with a second reading that takes {SLOW_READING:?}; ms since the first:");
    let mut all_good = true;
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
        let readings = sample(behavior).await;
        let is_good = keeps_its_word(behavior, &readings);
        print_readings(behavior, &readings, is_good);
        all_good &= is_good;
    }
    if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn sample(behavior: MissedTickBehavior) -> Vec<Reading> {
    let mut interval = interval(PERIOD);
    interval.set_missed_tick_behavior(behavior);
    // The first tick comes at once.
    let start = interval.tick().await;
    let mut readings = vec![Reading { due: Duration::ZERO, began: start.elapsed() }];
    for number in 2..=READINGS {
        // A tick is the instant that it was due at, even if it comes late.
        let due = interval.tick().await;
        readings.push(Reading { due: due - start, began: Instant::now() - start });
        if number == 2 {
            sleep(SLOW_READING).await;
        }
    }
    readings
}

/// Holds however busy the machine is: it asks when readings were due, not how late they were.
fn keeps_its_word(behavior: MissedTickBehavior, readings: &[Reading]) -> bool {
    let pauses = || readings.windows(2).map(|pair| pair[1].due.saturating_sub(pair[0].due));
    let left_out_some = pauses().any(|pause| pause > PERIOD);
    let on_multiples = readings.iter().all(|reading| reading.due.as_nanos() % PERIOD.as_nanos() == 0);
    let never_early = readings.iter().all(|reading| reading.began >= reading.due);
    never_early
        && match behavior {
            MissedTickBehavior::Burst => pauses().all(|pause| pause == PERIOD),
            MissedTickBehavior::Delay => pauses().all(|pause| pause >= PERIOD) && left_out_some,
            MissedTickBehavior::Skip => on_multiples && left_out_some,
        }
}

fn print_readings(behavior: MissedTickBehavior, readings: &[Reading], is_good: bool) {
    let in_ms = |time: fn(&Reading) -> Duration| {
        let columns: Vec<_> = readings.iter().map(|reading| format!("{:>5}", time(reading).as_millis())).collect();
        columns.concat()
    };
    println!("{behavior:?}: {}", if is_good { "as it should be" } else { "BAD" });
    println!("    due   {}", in_ms(|reading| reading.due));
    println!("    began {}", in_ms(|reading| reading.began));
}
