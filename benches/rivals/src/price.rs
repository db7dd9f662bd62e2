//! The CPU time of a timer that fires, from few timers to many.

use std::error::Error;
use std::time::Duration;

use clap::Args;

use crate::cell::Cell;
use crate::contenders::{TIMERFD, choose};
use crate::outcome::Outcome;
use crate::rival::Rival;
use crate::rivals::{Hairspring, Tokio};
use crate::row::{COLUMNS, Row, find};
use crate::session::{Scope, Sheet, verdict};

/// About 170, 890, 3,600, 8,900, 25,000, 84,000 and 330,000 timers per second.
const DENSITIES: [u32; 7] = [1, 5, 20, 50, 150, 500, 2_000];

/// The same on current-thread runtimes.
const ON_CURRENT_THREADS: [u32; 5] = [2, 10, 50, 200, 1_000];

#[derive(Debug, Args)]
pub struct Options {
    /// How many tasks sleep 1 to 10 ms in a loop; one table for each number
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = DENSITIES)]
    tasks: Vec<u32>,
    /// The same on one and on two current-thread runtimes, each on its own thread
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = ON_CURRENT_THREADS)]
    on_current_threads: Vec<u32>,
    #[command(flatten)]
    scope: Scope,
}

pub fn run(Options { tasks, on_current_threads, scope }: &Options) -> Result<(), Box<dyn Error>> {
    let chosen = choose(scope, &[])?;
    let millis = scope.turn(Duration::from_millis(600)).as_millis() as u64;
    let mut sheet = Sheet::new(&[], COLUMNS);
    let on_workers = tasks.iter().map(|&tasks| Cell { tasks, millis, ..Cell::default() });
    let on_current_threads_of = |runtimes| {
        let cell = move |&tasks| Cell { tasks, workers: 0, runtimes, millis, ..Cell::default() };
        on_current_threads.iter().map(cell)
    };
    for cell in on_workers.chain(on_current_threads_of(1)).chain(on_current_threads_of(2)) {
        verdicts(cell.tasks, &cell.compare(&chosen, scope.rounds(5), &mut sheet));
    }
    let is_complete = *tasks == DENSITIES && *on_current_threads == ON_CURRENT_THREADS;
    sheet.save(if is_complete { scope.file("price") } else { "quick" })
}

fn verdicts(tasks: u32, rows: &[Row]) {
    let Some(tokio) = find(rows, Tokio::NAME) else { return };
    for row in [Hairspring::NAME, TIMERFD].into_iter().filter_map(|name| find(rows, name)) {
        let at_most = |what: &str, times: f64, most: f64| {
            let name = row.who.name;
            verdict(times <= most, &format!("{name}: {what} {times:.2} times tokio's, at most {most:.2}"));
        };
        at_most("CPU time per sleep", row.range(Outcome::price)[0] / tokio.range(Outcome::price)[0], 1.15);
        // Sparse timers are not coalesced.
        let most = if tasks > 5 { 0.7 } else { 0.3 };
        for percent in [50.0, 99.0] {
            at_most(&format!("p{percent}"), row.all.percentile(percent) / tokio.all.percentile(percent), most);
        }
    }
}
