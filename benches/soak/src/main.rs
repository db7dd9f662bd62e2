//! A soak test: sleeps that are armed, reset, cancelled and fired at random, for as long as one likes, with their number
//! going up to a million and down to none.
//!
//! A few tasks hold most of the sleeps in vectors and poll them by hand, as a server holds its connections; others await
//! sleeps and timeouts. A ledger of the program's own says how many timers there have to be. Every few seconds all stand
//! still, and the timer's metrics have to agree with it to the last one. No sleep may end early, and none may fire later
//! than a bound. Whenever none is pending, their memory has to be free. The program prints a line at each of these
//! points and a report.
//!
//! ```text
//! cargo run --release --manifest-path benches/Cargo.toml -p soak -- --minutes 10
//! ```

mod awaiters;
mod ledger;
mod memory;
mod report;
mod set;
mod waves;

use std::fmt::{self, Display};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Parser;

/// Arms, resets, cancels and fires sleeps at random, and checks that all add up.
///
/// Exits with 0 if all held, with 1 if something did not, with 2 on bad options.
#[derive(Debug, Clone, Copy, Parser)]
struct Options {
    /// How long it runs, in seconds; the wave that has begun is finished
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// The same in minutes
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: Option<u64>,
    /// How many sleeps there are at the top of a wave
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    peak: u32,
    /// How much of the cores the sets take while they churn, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(1..=100))]
    load: u8,
    /// How late a sleep may fire, in milliseconds
    ///
    /// A timer by itself fires within a millisecond. But here a million fire within two seconds, registered in
    /// no order, 50,000 of them in one nanosecond; the tasks that arm and reset run beside the driver; and if other
    /// programs have the processors, all that waits.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    bound_ms: u64,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Options {
    fn length(&self) -> Duration {
        Duration::from_secs(self.minutes.map_or(self.seconds, |minutes| 60 * minutes))
    }

    /// The share of the time that each of so many tasks may be busy.
    fn share(&self, tasks: usize) -> f64 {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        f64::from(self.load) / 100.0 * cores as f64 / tasks as f64
    }

    fn bound(&self) -> Duration {
        Duration::from_millis(self.bound_ms)
    }
}

impl Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (length, bound, Options { peak, load, seed, .. }) = (self.length(), self.bound(), self);
        write!(
            f,
            "waves of up to {peak} sleeps for {length:?} at {load} % of the cores, none to be {bound:?} late; seed {seed}"
        )
    }
}

fn main() -> std::io::Result<ExitCode> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let report = runtime.block_on(waves::run(options));
    print!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_take_the_place_of_seconds() {
        let length = |line: &str| Options::try_parse_from(line.split(' ')).map(|options| options.length().as_secs());
        assert_eq!(length("soak").unwrap(), 10);
        assert_eq!(length("soak --minutes 10").unwrap(), 600);
        let problem = length("soak --peak 1").unwrap_err().to_string();
        assert!(problem.contains("'1'") && problem.contains("1000..=10000000"), "{problem}");
    }
}
