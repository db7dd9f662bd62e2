//! How late sleeps end, and their CPU time, in four scenarios.

use std::error::Error;
use std::time::Duration;

use crate::cell::Cell;
use crate::contenders::{TIMERFD, choose};
use crate::rival::Rival;
use crate::rivals::{AsyncIo, Hairspring, Tokio};
use crate::row::COLUMNS;
use crate::session::{Scope, Sheet};

const NAMES: [&str; 5] = [Hairspring::NAME, TIMERFD, "hairspring, timerfd, 10 µs", Tokio::NAME, AsyncIo::NAME];

/// Fails if one of our sleeps ended early.
pub fn run(scope: &Scope) -> Result<(), Box<dyn Error>> {
    let chosen = choose(scope, &NAMES)?;
    let (mut sheet, mut early) = (Sheet::new(&[], COLUMNS), 0);
    let millis = scope.turn(Duration::from_secs(1)).as_millis() as u64;
    for (tasks, workers, has_blocked) in [(1, 2, false), (50, 2, false), (1_000, 2, false), (50, 4, true)] {
        let cell = Cell { tasks, workers, millis, has_blocked, ..Cell::default() };
        let rows = cell.compare(&chosen, scope.rounds(5), &mut sheet);
        early += rows.iter().filter(|row| row.who.is_ours).map(|row| row.all.early).sum::<u64>();
    }
    sheet.save(scope.file("late"))?;
    if early > 0 { Err(format!("BAD: {early} of hairspring's sleeps ended early").into()) } else { Ok(()) }
}
