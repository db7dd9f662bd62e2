//! A soak test: sleeps that are armed, reset, cancelled and fired at random, for as long as one likes, with their number
//! going up to a million and down to none.
//!
//! A few tasks hold most of the sleeps in vectors and poll them by hand, as a server holds its connections; others await
//! sleeps and timeouts. A ledger of the program's own says how many timers there have to be. Every few seconds all stand
//! still, and the timer's metrics have to agree with it to the last one. No sleep may end early, none may fire later
//! than a bound, and the memory has to be back at the end. The program prints a line at each of these points and a
//! report, and exits with 1 where something did not hold.
//!
//! ```text
//! cargo run --release --example soak
//! cargo run --release --example soak -- --minutes 10
//! cargo run --release --example soak -- --help
//! ```

mod awaiters;
mod ledger;
mod memory;
mod options;
mod processor;
mod random;
mod report;
mod set;
mod waves;

use std::process::ExitCode;

use crate::options::Options;
use crate::report::Report;

fn main() -> ExitCode {
    let options = options::read();
    match run(&options) {
        Ok(report) => {
            print!("{report}");
            if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> std::io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    Ok(runtime.block_on(waves::run(options)))
}
