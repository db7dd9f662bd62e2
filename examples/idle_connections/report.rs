//! What is printed: progress while it runs, and the report.

use std::fmt::{self, Display};
use std::sync::Arc;

use hairspring::{Duration, Instant, interval_at};

use crate::clients::Outcome;
use crate::server::Ending;
use crate::tally::{Tally, Timers};

const SECOND: Duration = Duration::from_secs(1);

/// Prints a line each second, for ever.
pub(crate) async fn show_progress(tally: Arc<Tally>) {
    let start = Instant::now();
    let mut seconds = interval_at(start + SECOND, SECOND);
    loop {
        let passed = (seconds.tick().await - start).as_secs();
        println!(
            "{passed:>4} s: {} open, {} closed as silent, {} heartbeats, {} timers waiting",
            tally.accepted.get().saturating_sub(tally.ended.get()),
            tally.closed_as_silent.get(),
            tally.heartbeats.get(),
            tally.reads.waiting() + tally.beats.waiting(),
        );
    }
}

/// What happened, and whether it was right.
pub(crate) struct Report {
    served: usize,
    heartbeats: u64,
    server_timers: String,
    client_timers: String,
    fell_silent: usize,
    /// Silent connections that were still open when their client left.
    missed: usize,
    /// Connections that were closed though their client went on with its heartbeats.
    wronged: usize,
    /// Connections that were closed before the idle limit had passed.
    early: usize,
    /// How late each closing was, in order.
    lateness: Vec<Duration>,
}

impl Report {
    pub(crate) fn new(endings: &[Ending], outcomes: &[Outcome], tally: &Tally) -> Self {
        let mut lateness = Vec::new();
        let mut early = 0;
        for ending in endings {
            if let Ending::Silent { due, closed } = ending {
                match closed.checked_duration_since(*due) {
                    Some(late) => lateness.push(late),
                    None => early += 1,
                }
            }
        }
        lateness.sort_unstable();
        let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
        Report {
            served: endings.len(),
            heartbeats: tally.heartbeats.get(),
            server_timers: describe(&tally.reads),
            client_timers: describe(&tally.beats),
            fell_silent: count(|client| client.fell_silent),
            missed: count(|client| client.fell_silent && !client.was_closed),
            wronged: count(|client| !client.fell_silent && client.was_closed),
            early,
            lateness,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.missed == 0 && self.wronged == 0 && self.early == 0
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&self.lateness, percent));
        writeln!(f)?;
        writeln!(f, "connections served     {}, of which {} fell silent", self.served, self.fell_silent)?;
        writeln!(f, "heartbeats             {}", self.heartbeats)?;
        writeln!(f, "timers of the server   {}", self.server_timers)?;
        writeln!(f, "timers of the clients  {}", self.client_timers)?;
        writeln!(f, "closings were late by  {p50:.1?} (p50), {p99:.1?} (p99), {max:.1?} (max)")?;
        if self.is_good() {
            return writeln!(f, "good: each silent connection was closed, and no other");
        }
        let Report { missed, wronged, early, .. } = self;
        writeln!(f, "BAD: {missed} silent ones not closed, {wronged} live ones closed, {early} closed too early")?;
        if *wronged > 0 {
            writeln!(f, "On a machine with no time to spare, clients are late themselves: try a longer --idle-ms")?;
        }
        Ok(())
    }
}

fn describe(timers: &Timers) -> String {
    format!("{} armed, {} cancelled, {} fired", timers.armed.get(), timers.cancelled.get(), timers.fired.get())
}

/// The smallest of the `sorted` values that at least `percent` of them do not exceed; zero where there are none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

// Run with `cargo test --example idle_connections`.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        let seen = [50, 99, 100].map(|percent| percentile(&values, percent).as_millis());
        assert_eq!(seen, [100, 198, 200]);
        assert_eq!(percentile(&values[..1], 50), Duration::from_millis(1));
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }

    #[test]
    fn a_missed_a_wronged_and_an_early_one_are_each_bad() {
        let now = Instant::now();
        let client = |fell_silent, was_closed| Outcome { fell_silent, was_closed };
        let is_good = |endings: &[Ending], outcome| Report::new(endings, &[outcome], &Tally::default()).is_good();
        assert!(is_good(&[Ending::Silent { due: now, closed: now }], client(true, true)));
        assert!(is_good(&[Ending::ByClient], client(false, false)));
        assert!(!is_good(&[Ending::ByClient], client(true, false)));
        assert!(!is_good(&[Ending::Silent { due: now, closed: now }], client(false, true)));
        assert!(!is_good(&[Ending::Silent { due: now + SECOND, closed: now }], client(true, true)));
    }
}
