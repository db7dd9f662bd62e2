//! The command line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

#[path = "../shared/arguments.rs"]
mod arguments;

use arguments::number;

const HELP: &str = "\
Holds many connections on loopback and closes those that fall silent.

Usage: idle_connections [OPTIONS]

Options:
  --connections N   how many connections, 1 to 10000 (default 2000); each takes two open files
  --seconds N       how long each client stays, 1 to 600 (default 5)
  --idle-ms N       how long a connection may be silent, in milliseconds, 100 to 60000 (default 1000);
                    a third of the run at most
  --help            prints this

Exits with 0 where the silent connections were closed and no other, with 1 where not, with 2 on bad options.
";

const CONNECTIONS: RangeInclusive<u64> = 1..=10_000;
const SECONDS: RangeInclusive<u64> = 1..=600;
const IDLE_MS: RangeInclusive<u64> = 100..=60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) connections: u64,
    /// How long each client stays.
    pub(crate) stay: Duration,
    /// How long a connection may be silent.
    pub(crate) idle: Duration,
}

impl Options {
    /// Clients fall silent no later than this after they came, so that the server closes them while they still wait.
    pub(crate) fn last_silence(&self) -> Duration {
        // A sixth of the stay is left over for closings that are late.
        self.stay.saturating_sub(self.idle + self.stay / 6)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { connections: 2000, stay: Duration::from_secs(5), idle: Duration::from_secs(1) }
    }
}

impl Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { connections, stay, idle } = self;
        write!(f, "{connections} connections for {stay:?}; closed after {idle:?} of silence")
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
            "--connections" => options.connections = number(&name, arguments.next(), &CONNECTIONS)?,
            "--seconds" => options.stay = Duration::from_secs(number(&name, arguments.next(), &SECONDS)?),
            "--idle-ms" => options.idle = Duration::from_millis(number(&name, arguments.next(), &IDLE_MS)?),
            _ => {
                return Err(format!(
                    "there is no option `{name}`; allowed: --connections, --seconds, --idle-ms, --help"
                ));
            }
        }
    }
    if options.idle * 3 > options.stay {
        return Err(format!(
            "--idle-ms {} is too long for a run of {} s; allowed: a third of it at most, {} ms",
            options.idle.as_millis(),
            options.stay.as_secs(),
            options.stay.as_millis() / 3,
        ));
    }
    Ok(options)
}

// Run with `cargo test --example idle_connections`.
#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_all_options_and_has_defaults() {
        let given = Options { connections: 7, stay: Duration::from_secs(2), idle: Duration::from_millis(300) };
        assert_eq!(parse_line("--connections 7 --seconds 2 --idle-ms 300"), Ok(given));
        assert_eq!(parse_line(""), Ok(Options::default()));
    }

    #[test]
    fn names_a_bad_value_and_what_is_allowed() {
        for (line, value, allowed) in [
            ("--connections 0", "`0`", "1 to 10000"),
            ("--connections many", "`many`", "1 to 10000"),
            ("--seconds -1", "`-1`", "1 to 600"),
            ("--seconds 99999999999999999999", "`99999999999999999999`", "1 to 600"),
            ("--idle-ms 99", "`99`", "100 to 60000"),
            ("--idle-ms", "no value", "100 to 60000"),
            ("--seconds 2 --idle-ms 700", "700", "666 ms"),
            ("--verbose", "`--verbose`", "--connections"),
        ] {
            let problem = parse_line(line).unwrap_err();
            assert!(problem.contains(value) && problem.contains(allowed), "{line}: {problem}");
        }
    }

    #[test]
    fn closings_fall_within_the_stay() {
        for options in [
            Options::default(),
            Options { stay: Duration::from_secs(1), idle: Duration::from_millis(333), ..Options::default() },
        ] {
            assert!(options.last_silence() > Duration::ZERO);
            assert!(options.last_silence() + options.idle < options.stay);
        }
    }
}
