//! The command line.

use std::time::Duration;

pub(crate) const HELP: &str = "\
Usage: cargo bench [-- [OPTIONS] [WORD..]]

Compares hairspring with tokio and tokio-util, in about a minute. benches/README.md says what each row measures.

  WORD           measures only rows whose group or name contains one of these words
  --quick        takes a few seconds; the figures scatter
  --entries N    the size of queues and maps, 1 to 1000000; 10000 if not given
  --help         prints this
";

/// What is measured, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// In lower case. All rows, if there is none.
    pub(crate) words: Vec<String>,
    /// How many turns each side takes.
    pub(crate) rounds: usize,
    /// How long a turn repeats an operation.
    pub(crate) turn: Duration,
    /// How long a turn counts sleeps that end.
    pub(crate) window: Duration,
    pub(crate) entries: u64,
    /// Whether it only has to run, as in `cargo test --all-targets`.
    pub(crate) is_test: bool,
}

impl Options {
    /// `None` asks for help.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let all: Vec<_> = arguments.into_iter().collect();
        if !all.iter().any(|argument| argument == "--bench") {
            // These arguments are for the tests that run beside it.
            return Ok(Some(Options { is_test: true, entries: 100, ..Options::lasting(1, 0, 10) }));
        }
        let mut options = Options::lasting(11, 50, 400);
        let mut left = all.into_iter();
        while let Some(argument) = left.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            match (name, value) {
                ("--bench", None) => {}
                ("--help" | "-h", None) => return Ok(None),
                ("--quick", None) => {
                    options = Options { words: options.words, entries: options.entries, ..Options::lasting(3, 10, 100) }
                }
                ("--entries", value) => options.entries = entries(value.or_else(|| left.next()))?,
                _ if argument.starts_with('-') => return Err(format!("there is no option `{argument}`")),
                _ => options.words.push(argument.to_lowercase()),
            }
        }
        Ok(Some(options))
    }

    fn lasting(rounds: usize, turn: u64, window: u64) -> Self {
        let [turn, window] = [turn, window].map(Duration::from_millis);
        Options { words: Vec::new(), rounds, turn, window, entries: 10_000, is_test: false }
    }
}

fn entries(value: Option<String>) -> Result<u64, String> {
    let value = value.unwrap_or_default();
    let number = value.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    number.ok_or_else(|| format!("`--entries` takes a number from 1 to 1000000, not `{value}`"))
}
