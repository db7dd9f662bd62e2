//! How late sleeps end, and their CPU time: hairspring with either alarm, `tokio::time` and async-io.
//!
//! The contenders take turns of a second, each in a new process and with the same random numbers. A different one begins
//! each time, which spreads other load on the machine over all of them.

use std::error::Error;

use clap::Args;

use crate::cell::{Cell, save};
use crate::contenders::{TIMERFD, named};
use crate::machine_line;
use crate::rival::Rival;
use crate::rivals::{AsyncIo, Hairspring, Tokio};

const WHOLE_RUN: u32 = 5;

#[derive(Debug, Args)]
pub struct Options {
    /// How many turns of a second each has in each scenario
    #[arg(long, default_value_t = WHOLE_RUN, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
}

/// Who takes part; ratios are to tokio.
const CONTENDERS: [&str; 5] = [Hairspring::NAME, TIMERFD, "hairspring, timerfd, 10 µs", Tokio::NAME, AsyncIo::NAME];

/// Measures, prints tables and stores them. Fails if a sleep of ours ended early.
pub fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    println!("{}", machine_line());
    let scenarios = [(1, 2, false), (50, 2, false), (1_000, 2, false), (50, 4, true)];
    let (mut lines, mut early) = (Vec::new(), 0);
    for (tasks, workers, has_blocked) in scenarios {
        let cell = Cell { tasks, workers, has_blocked, ..Cell::default() };
        let rows = cell.compare(&CONTENDERS.map(named), options.seconds, &mut lines);
        early += rows.iter().filter(|row| row.who.is_ours).map(|row| row.all.early).sum::<u64>();
    }
    save(if options.seconds < WHOLE_RUN { "quick" } else { "late" }, &lines)?;
    if early > 0 {
        Err(format!("BAD: {early} of hairspring's sleeps ended before their deadline").into())
    } else {
        Ok(())
    }
}
