//! The command line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

#[path = "../shared/arguments.rs"]
mod arguments;

use arguments::number;

const HELP: &str = "\
Arms, resets, cancels and fires sleeps at random, and checks that all add up.

Usage: soak [OPTIONS]

Options:
  --seconds N    how long it runs, 1 to 86400 (default 10); the wave that has begun is finished
  --minutes N    the same in minutes, 1 to 1440
  --peak N       how many sleeps there are at the top of a wave, 1000 to 10000000 (default 1000000)
  --bound-ms N   how late a sleep may fire, in milliseconds, 1 to 60000 (default 1000)
  --seed N       where the random numbers begin (default 1)
  --help         prints this

Exits with 0 where all held, with 1 where something did not, with 2 on bad options.
";

const SECONDS: RangeInclusive<u64> = 1..=86_400;
const MINUTES: RangeInclusive<u64> = 1..=1_440;
const PEAK: RangeInclusive<u64> = 1_000..=10_000_000;
const BOUND_MS: RangeInclusive<u64> = 1..=60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    /// How many sleeps there are at the top of a wave.
    pub(crate) peak: usize,
    /// How late a sleep may fire.
    ///
    /// A timer by itself fires within a millisecond. But here a million fire within two seconds, having stood in no
    /// order, 50,000 of them in one nanosecond; the tasks that arm and reset run beside the driver; and where other
    /// programs have the processors, all that waits.
    pub(crate) bound: Duration,
    pub(crate) seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { length: Duration::from_secs(10), peak: 1_000_000, bound: Duration::from_secs(1), seed: 1 }
    }
}

impl Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { length, peak, bound, seed } = self;
        write!(f, "waves of up to {peak} sleeps for {length:?}, none to be {bound:?} late; seed {seed}")
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
            "--seconds" => options.length = Duration::from_secs(number(&name, arguments.next(), &SECONDS)?),
            "--minutes" => options.length = Duration::from_secs(60 * number(&name, arguments.next(), &MINUTES)?),
            "--peak" => options.peak = usize::try_from(number(&name, arguments.next(), &PEAK)?).unwrap_or(usize::MAX),
            "--bound-ms" => options.bound = Duration::from_millis(number(&name, arguments.next(), &BOUND_MS)?),
            "--seed" => options.seed = number(&name, arguments.next(), &(0..=u64::MAX))?,
            _ => {
                return Err(format!(
                    "there is no option `{name}`; allowed: --seconds, --minutes, --peak, --bound-ms, --seed, --help"
                ));
            }
        }
    }
    Ok(options)
}

// Run with `cargo test --example soak`.
#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_all_options_and_has_defaults() {
        let given =
            Options { length: Duration::from_secs(3), peak: 20_000, bound: Duration::from_millis(500), seed: 7 };
        assert_eq!(parse_line("--seconds 3 --peak 20000 --bound-ms 500 --seed 7"), Ok(given));
        let ten_minutes = Options { length: Duration::from_secs(600), ..Options::default() };
        assert_eq!(parse_line("--minutes 10"), Ok(ten_minutes));
        assert_eq!(parse_line(""), Ok(Options::default()));
    }

    #[test]
    fn names_a_bad_value_and_what_is_allowed() {
        for (line, value, allowed) in [
            ("--seconds 0", "`0`", "1 to 86400"),
            ("--minutes 1.5", "`1.5`", "1 to 1440"),
            ("--peak 1", "`1`", "1000 to 10000000"),
            ("--bound-ms", "no value", "1 to 60000"),
            ("--seed -1", "`-1`", "0 to"),
            ("--verbose", "`--verbose`", "--bound-ms"),
        ] {
            let problem = parse_line(line).unwrap_err();
            assert!(problem.contains(value) && problem.contains(allowed), "{line}: {problem}");
        }
    }
}
