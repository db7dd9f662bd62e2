//! The command line.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::time::Duration;

use hairspring::timer::Alarm;

#[path = "../shared/arguments.rs"]
mod arguments;

use arguments::number;

const HELP: &str = "\
Shows how late sleeps of 1 to 10 ms end, on hairspring and on tokio::time side by side.

Usage: lateness [OPTIONS]

Options:
  --seconds N         how long each library runs in each scenario, 1 to 30 (default 2)
  --svg FILE          draws a chart, too
  --alarm NAME        what wakes hairspring's driver: thread (default), timerfd (Linux only) or tokio
  --resolution-us N   hairspring's resolution in microseconds, 1 to 1000000 (default: deadlines are not rounded)
  --blocked           adds a scenario: one of four workers is blocked for 20 ms in every 40
  --help              prints this

Processor time is shown on Linux, in per cent of one processor. Histograms share one scale within a scenario.
Exits with 0, with 1 where a sleep ended before its deadline, with 2 on bad options and what else it cannot run with.
";

const SECONDS: RangeInclusive<u32> = 1..=30;
const RESOLUTION_US: RangeInclusive<u32> = 1..=1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// How many turns of a second each library has in each scenario.
    pub(crate) seconds: u32,
    /// The file to draw into.
    pub(crate) svg: Option<String>,
    pub(crate) alarm: Option<Alarm>,
    pub(crate) resolution: Option<Duration>,
    pub(crate) has_blocked: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { seconds: 2, svg: None, alarm: None, resolution: None, has_blocked: false }
    }
}

impl Options {
    /// How hairspring's timer is set.
    pub(crate) fn settings(&self) -> String {
        let alarm = self.alarm.map(|alarm| format!("alarm {alarm:?}"));
        let resolution = self.resolution.map(|resolution| format!("resolution {resolution:?}"));
        let settings: Vec<_> = alarm.into_iter().chain(resolution).collect();
        if settings.is_empty() { "default settings".to_owned() } else { settings.join(", ") }
    }
}

impl Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, settings) = (self.seconds, self.settings());
        write!(f, "sleeps of 1 to 10 ms, {seconds} s for each library; hairspring with {settings}")
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
            "--seconds" => options.seconds = number(&name, arguments.next(), &SECONDS)?,
            "--svg" => options.svg = Some(file(&name, arguments.next())?),
            "--alarm" => options.alarm = Some(alarm(&name, arguments.next())?),
            "--resolution-us" => {
                let micros = number(&name, arguments.next(), &RESOLUTION_US)?;
                options.resolution = Some(Duration::from_micros(micros.into()));
            }
            "--blocked" => options.has_blocked = true,
            _ => {
                return Err(format!(
                    "there is no option `{name}`; \
                     allowed: --seconds, --svg, --alarm, --resolution-us, --blocked, --help"
                ));
            }
        }
    }
    Ok(options)
}

fn file(name: &str, value: Option<String>) -> Result<String, String> {
    // `--svg --blocked` has lost its file.
    let value = value.filter(|value| !value.is_empty() && !value.starts_with("--"));
    value.ok_or_else(|| format!("{name} has no value; allowed: the name of a file"))
}

fn alarm(name: &str, value: Option<String>) -> Result<Alarm, String> {
    let value = value.ok_or_else(|| format!("{name} has no value; allowed: thread, timerfd, tokio"))?;
    match value.as_str() {
        "thread" => Ok(Alarm::Thread),
        "timerfd" => Ok(Alarm::Timerfd),
        "tokio" => Ok(Alarm::Tokio),
        _ => Err(format!("{name} cannot be `{value}`; allowed: thread, timerfd, tokio")),
    }
}

// Run with `cargo test --example lateness`.
#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_all_options_and_has_defaults() {
        let given = Options {
            seconds: 7,
            svg: Some("late.svg".to_owned()),
            alarm: Some(Alarm::Timerfd),
            resolution: Some(Duration::from_micros(10)),
            has_blocked: true,
        };
        let line = "--seconds 7 --svg late.svg --alarm timerfd --resolution-us 10 --blocked";
        assert_eq!(parse_line(line), Ok(given));
        assert_eq!(parse_line(""), Ok(Options::default()));
    }

    #[test]
    fn names_a_bad_value_and_what_is_allowed() {
        for (line, value, allowed) in [
            ("--seconds 0", "`0`", "1 to 30"),
            ("--seconds 1.5", "`1.5`", "1 to 30"),
            ("--seconds", "no value", "1 to 30"),
            ("--svg", "no value", "a file"),
            ("--svg --blocked", "no value", "a file"),
            ("--alarm clock", "`clock`", "timerfd"),
            ("--alarm", "no value", "timerfd"),
            ("--resolution-us 0", "`0`", "1 to 1000000"),
            ("--resolution-us -1", "`-1`", "1 to 1000000"),
            ("--verbose", "`--verbose`", "--seconds"),
        ] {
            let problem = parse_line(line).unwrap_err();
            assert!(problem.contains(value) && problem.contains(allowed), "{line}: {problem}");
        }
    }
}
