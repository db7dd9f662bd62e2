//! The command line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

#[path = "../shared/arguments.rs"]
mod arguments;

use arguments::number;

const HELP: &str = "\
Serves HTTP on loopback, and cuts off clients that are slow or silent.

Usage: http_server [OPTIONS]

Options:
  --clients N    how many well-behaved clients, 1 to 2000 (default 200); each client takes two open files
  --requests N   how many requests each of them sends, 1 to 100000 (default 120)
  --slow N       how many clients send their header a byte at a time, 0 to 2000 (default 50)
  --silent N     how many clients fall silent, 0 to 2000 (default 100); every other one after a request
  --limit-ms N   how long a header, a silence and a handler may take, in milliseconds, 50 to 60000 (default 500);
                 a quarter of the run at most
  --seconds N    how long the clients take for it all, about, 1 to 600 (default 5)
  --help         prints this

Exits with 0 where the slow and the silent were cut off and nobody else, with 1 where not, with 2 on bad options.
";

const CLIENTS: RangeInclusive<u64> = 1..=2000;
const OFFENDERS: RangeInclusive<u64> = 0..=2000;
const REQUESTS: RangeInclusive<u64> = 1..=100_000;
const LIMIT_MS: RangeInclusive<u64> = 50..=60_000;
const SECONDS: RangeInclusive<u64> = 1..=600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Those that behave well.
    pub(crate) clients: u64,
    /// How many each of them sends.
    pub(crate) requests: u64,
    pub(crate) slow: u64,
    pub(crate) silent: u64,
    /// What a header, a silence and a handler may take.
    pub(crate) limit: Duration,
    /// How long the clients take for it all.
    pub(crate) run: Duration,
}

impl Options {
    pub(crate) fn connections(&self) -> u64 {
        self.clients + self.slow + self.silent
    }

    /// How long the clients have, the waits for what takes too long left out.
    pub(crate) fn span(&self) -> Duration {
        self.run.saturating_sub(2 * self.limit)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            clients: 200,
            requests: 120,
            slow: 50,
            silent: 100,
            limit: Duration::from_millis(500),
            run: Duration::from_secs(5),
        }
    }
}

impl Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { clients, requests, slow, silent, limit, run } = self;
        write!(
            f,
            "{clients} clients with {requests} requests each, {slow} slow and {silent} silent ones, in about {run:?}; \
             limit {limit:?}"
        )
    }
}

/// The options that this program is called with. Ends it for `--help` and for what is wrong.
pub(crate) fn read() -> Options {
    arguments::read(HELP, parse)
}

/// Reads the arguments, without the program's name.
fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--clients" => options.clients = number(&name, arguments.next(), &CLIENTS)?,
            "--requests" => options.requests = number(&name, arguments.next(), &REQUESTS)?,
            "--slow" => options.slow = number(&name, arguments.next(), &OFFENDERS)?,
            "--silent" => options.silent = number(&name, arguments.next(), &OFFENDERS)?,
            "--limit-ms" => options.limit = Duration::from_millis(number(&name, arguments.next(), &LIMIT_MS)?),
            "--seconds" => options.run = Duration::from_secs(number(&name, arguments.next(), &SECONDS)?),
            _ => {
                return Err(format!(
                    "there is no option `{name}`; allowed: --clients, --requests, --slow, --silent, --limit-ms, \
                     --seconds, --help"
                ));
            }
        }
    }
    if options.limit * 4 > options.run {
        return Err(format!(
            "--limit-ms {} is too long for a run of {} s; allowed: a quarter of it at most, {} ms",
            options.limit.as_millis(),
            options.run.as_secs(),
            options.run.as_millis() / 4,
        ));
    }
    Ok(options)
}

// Run with `cargo test --features hyper --example http_server`.
#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_all_options_and_has_defaults() {
        let given = Options {
            clients: 7,
            requests: 8,
            slow: 0,
            silent: 9,
            limit: Duration::from_millis(300),
            run: Duration::from_secs(2),
        };
        let line = "--clients 7 --requests 8 --slow 0 --silent 9 --limit-ms 300 --seconds 2";
        assert_eq!(parse_line(line), Ok(given));
        assert_eq!(parse_line(""), Ok(Options::default()));
    }

    #[test]
    fn names_a_bad_value_and_what_is_allowed() {
        for (line, value, allowed) in [
            ("--clients 0", "`0`", "1 to 2000"),
            ("--requests many", "`many`", "1 to 100000"),
            ("--slow -1", "`-1`", "0 to 2000"),
            ("--silent 99999999999999999999", "`99999999999999999999`", "0 to 2000"),
            ("--limit-ms 49", "`49`", "50 to 60000"),
            ("--limit-ms", "no value", "50 to 60000"),
            ("--seconds 2 --limit-ms 501", "501", "500 ms"),
            ("--verbose", "`--verbose`", "--clients"),
        ] {
            let problem = parse_line(line).unwrap_err();
            assert!(problem.contains(value) && problem.contains(allowed), "{line}: {problem}");
        }
    }
}
