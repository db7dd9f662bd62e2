//! What is printed at the end.

use std::fmt::{self, Display};
use std::time::Duration;

use crate::clients::{Kind, Outcome};
use crate::options::Options;
use crate::server::Ending;

/// What happened, and whether it was right.
pub(crate) struct Report {
    options: Options,
    answered: u64,
    too_long: u64,
    /// What well-behaved clients met, and silent ones with the request that they sent.
    errors: Vec<String>,
    slow: u64,
    silent: u64,
    /// How many the server cut off.
    cut_off: u64,
    /// Connections that were cut off before the limit.
    early: usize,
    /// How long after the limit each was cut off, in order.
    lateness: Vec<Duration>,
}

impl Report {
    pub(crate) fn new(options: Options, endings: &[Ending], outcomes: &[Outcome]) -> Self {
        let mut lateness = Vec::new();
        let mut early = 0;
        let mut cut_off = 0;
        for ending in endings {
            if let Ending::CutOff { due, at } = ending {
                cut_off += 1;
                match at.checked_duration_since(*due) {
                    Some(late) => lateness.push(late),
                    None => early += 1,
                }
            }
        }
        lateness.sort_unstable();
        // Seen from the client, nobody can have been cut off before the limit.
        early += outcomes.iter().filter(|seen| seen.cut_off_after.is_some_and(|after| after < options.limit)).count();
        let broken = endings.iter().filter(|ending| matches!(ending, Ending::Broken));
        let errors = broken.map(|_| "a connection broke".to_owned());
        let errors = errors.chain(outcomes.iter().filter_map(|seen| seen.error.as_ref()).map(ToString::to_string));
        let seen_cut_off = |kinds: &[Kind]| {
            let seen = outcomes.iter().filter(|seen| kinds.contains(&seen.kind) && seen.cut_off_after.is_some());
            u64::try_from(seen.count()).unwrap_or(u64::MAX)
        };
        Report {
            options,
            answered: outcomes.iter().map(|seen| seen.answered).sum(),
            too_long: outcomes.iter().map(|seen| seen.too_long).sum(),
            errors: errors.collect(),
            slow: seen_cut_off(&[Kind::Slow]),
            silent: seen_cut_off(&[Kind::Silent, Kind::SilentLater]),
            cut_off,
            early,
            lateness,
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        let Options { clients, requests, slow, silent, .. } = self.options;
        // Every other silent client sends a request first.
        self.answered == clients * requests + silent / 2
            && self.too_long == clients
            && self.errors.is_empty()
            && (self.slow, self.silent) == (slow, silent)
            && self.cut_off == slow + silent
            && self.early == 0
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { slow, silent, limit, .. } = self.options;
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(&self.lateness, percent).as_secs_f64() * 1e3);
        writeln!(f, "requests answered  {}, {} of them with 503 after {limit:?}", self.answered, self.too_long)?;
        writeln!(f, "errors             {}", self.errors.len())?;
        writeln!(f, "slow cut off       {} of {slow}", self.slow)?;
        writeln!(f, "silent cut off     {} of {silent}", self.silent)?;
        writeln!(f, "after the limit    {p50:.2} ms (p50), {p99:.2} ms (p99), {max:.2} ms (max)")?;
        if self.is_good() {
            return writeln!(f, "good: the slow and the silent were cut off, and nobody else");
        }
        for error in self.errors.iter().take(3) {
            writeln!(f, "  {error}")?;
        }
        writeln!(f, "BAD: cut off by the server {}, {} too early", self.cut_off, self.early)?;
        writeln!(f, "On a machine with no time to spare, clients are late themselves: try a longer --limit-ms")
    }
}

/// The smallest of the `sorted` values that at least `percent` of them do not exceed; zero where there are none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

// Run with `cargo test --features hyper --example http_server`.
#[cfg(test)]
mod tests {
    use std::io;

    use hairspring::Instant;

    use super::*;

    /// A run with a client of each kind in which all is well, but for what `change` does.
    fn is_good(change: impl FnOnce(&mut Vec<Ending>, &mut Vec<Outcome>)) -> bool {
        let options = Options { clients: 1, requests: 10, slow: 1, silent: 2, ..Options::default() };
        let due = Instant::now();
        let mut endings: Vec<_> = (0..3).map(|_| Ending::CutOff { due, at: due }).collect();
        endings.push(Ending::ByClient);
        let mut outcomes: Vec<_> = [
            (Kind::WellBehaved, 10, None),
            (Kind::Slow, 0, Some(options.limit)),
            (Kind::Silent, 0, Some(options.limit)),
            (Kind::SilentLater, 1, Some(options.limit)),
        ]
        .into_iter()
        .map(|(kind, answered, cut_off_after)| {
            let too_long = u64::from(kind == Kind::WellBehaved);
            Outcome { kind, answered, too_long, cut_off_after, error: None }
        })
        .collect();
        change(&mut endings, &mut outcomes);
        Report::new(options, &endings, &outcomes).is_good()
    }

    #[test]
    fn whatever_is_not_as_it_should_is_bad() {
        let second = Duration::from_secs(1);
        assert!(is_good(|_, _| {}));
        assert!(!is_good(|_, outcomes| outcomes[0].answered -= 1));
        assert!(!is_good(|_, outcomes| outcomes[0].error = Some(io::ErrorKind::UnexpectedEof.into())));
        assert!(!is_good(|_, outcomes| outcomes[0].too_long = 0));
        assert!(!is_good(|_, outcomes| outcomes[1].cut_off_after = None));
        assert!(!is_good(|_, outcomes| outcomes[2].cut_off_after = None));
        assert!(!is_good(|_, outcomes| outcomes[3].cut_off_after = Some(Duration::from_millis(499))));
        assert!(!is_good(|endings, _| endings[3] = Ending::Broken));
        assert!(!is_good(|endings, _| endings[0] = Ending::ByClient));
        assert!(!is_good(|endings, _| endings[3] = Ending::CutOff { due: Instant::now(), at: Instant::now() }));
        let now = Instant::now();
        assert!(!is_good(|endings, _| endings[0] = Ending::CutOff { due: now + second, at: now }));
    }

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<_> = (1..=200).map(Duration::from_millis).collect();
        let seen = [50, 99, 100].map(|percent| percentile(&values, percent).as_millis());
        assert_eq!(seen, [100, 198, 200]);
        assert_eq!(percentile(&[], 99), Duration::ZERO);
    }
}
