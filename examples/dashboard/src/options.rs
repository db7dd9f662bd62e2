//! The command line.

use std::ops::RangeInclusive;
use std::time::Duration;

#[path = "../../shared/arguments.rs"]
mod arguments;

use arguments::number;

const HELP: &str = "\
Shows hairspring's timing wheel at work, in the terminal.

Usage: dashboard [OPTIONS]

Options:
  --seconds N   ends by itself after that time, 1 to 86400
  --svg FILE    draws one frame into a file, after 2 seconds or what --seconds says; needs no terminal
  --help        prints this

The keys are on the screen. Exits with 0, with 2 on bad options and where there is no terminal.
";

const SECONDS: RangeInclusive<u64> = 1..=86_400;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) seconds: Option<Duration>,
    /// The file to draw into.
    pub(crate) svg: Option<String>,
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
            "--seconds" => {
                options.seconds = Some(Duration::from_secs(number(&name, arguments.next(), &SECONDS)?));
            }
            "--svg" => options.svg = Some(file(&name, arguments.next())?),
            _ => return Err(format!("there is no option `{name}`; allowed: --seconds, --svg, --help")),
        }
    }
    Ok(options)
}

fn file(name: &str, value: Option<String>) -> Result<String, String> {
    // `--svg --seconds` has lost its file.
    let value = value.filter(|value| !value.is_empty() && !value.starts_with("--"));
    value.ok_or_else(|| format!("{name} has no value; allowed: the name of a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Options, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn reads_all_options_and_has_defaults() {
        let given = Options { seconds: Some(Duration::from_secs(7)), svg: Some("wheel.svg".to_owned()) };
        assert_eq!(parse_line("--seconds 7 --svg wheel.svg"), Ok(given));
        assert_eq!(parse_line(""), Ok(Options::default()));
    }

    #[test]
    fn names_a_bad_value_and_what_is_allowed() {
        for (line, value, allowed) in [
            ("--seconds 0", "`0`", "1 to 86400"),
            ("--seconds", "no value", "1 to 86400"),
            ("--svg", "no value", "a file"),
            ("--svg --seconds", "no value", "a file"),
            ("--verbose", "`--verbose`", "--seconds"),
        ] {
            let problem = parse_line(line).unwrap_err();
            assert!(problem.contains(value) && problem.contains(allowed), "{line}: {problem}");
        }
    }
}
