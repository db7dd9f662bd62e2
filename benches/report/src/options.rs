//! The command line.

use std::fmt::Write;

use crate::blocks;
use crate::measure::{self, Measurement};

#[derive(Debug)]
pub(crate) enum Command {
    /// Some measurements, and then as `Write`.
    Measure(Vec<&'static Measurement>),
    Write,
    Check,
    Help,
}

/// Reads the arguments, without the program's name.
pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(Command::Help);
    }
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--write"] => return Ok(Command::Write),
        ["--check"] => return Ok(Command::Check),
        _ => {}
    }
    // In the order of the list, and each once, whatever the order they are named in.
    let named = |measurement: &&Measurement| arguments.iter().any(|argument| argument == measurement.name);
    let measurements: Vec<_> = measure::ALL.iter().filter(|one| arguments.is_empty() || named(one)).collect();
    match arguments.iter().find(|argument| measure::ALL.iter().all(|one| one.name != **argument)) {
        None => Ok(Command::Measure(measurements)),
        Some(option) if ["--write", "--check"].contains(&option.as_str()) => {
            Err(format!("`{option}` measures nothing, and stands alone"))
        }
        Some(other) => Err(format!("there is no measurement `{other}`; there are {}", measure::names())),
    }
}

pub(crate) fn help() -> String {
    let mut help = "\
Repeats the measurements whose figures stand in the documents, and writes the figures there.

Usage: benches/report/run [NAME]...
       benches/report/run --write | --check | --help

  NAME...   measures these, or everything where none is named, stores the results and does as --write;
            the machine is to do nothing else meanwhile
  --write   writes what is stored into the documents
  --check   fails where a document differs from what is stored, and says where
  --help    prints this

Measurements:
"
    .to_owned();
    for Measurement { name, what, takes, .. } in &measure::ALL {
        let _ = writeln!(help, "  {name:<20}{what}; {takes}");
    }
    help.push_str("\nBlocks, for `<!-- report: NAME -->` in any Markdown file:\n");
    for block in &blocks::ALL {
        let _ = writeln!(help, "  {:<20}{}", block.name, block.what);
    }
    help.push_str("\nExits with 0, with 1 where --check found a difference, with 2 on anything that went wrong.\n");
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(String::from))
    }

    fn measured(line: &str) -> Vec<&'static str> {
        match parse_line(line) {
            Ok(Command::Measure(measurements)) => measurements.iter().map(|measurement| measurement.name).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn measures_all_or_what_is_named() {
        assert_eq!(measured(""), ["arm", "late", "schemes", "soak", "dashboard"]);
        assert_eq!(measured("soak arm soak"), ["arm", "soak"]);
    }

    #[test]
    fn reads_the_options() {
        assert!(matches!(parse_line("--write"), Ok(Command::Write)));
        assert!(matches!(parse_line("--check"), Ok(Command::Check)));
        assert!(matches!(parse_line("soak --help"), Ok(Command::Help)));
    }

    #[test]
    fn names_what_is_wrong_and_what_is_allowed() {
        let problem = parse_line("arm lat").unwrap_err();
        assert!(problem.contains("`lat`") && problem.contains("arm, late, schemes"), "{problem}");
        let problem = parse_line("--check arm").unwrap_err();
        assert!(problem.contains("`--check`") && problem.contains("alone"), "{problem}");
    }

    #[test]
    fn the_help_has_every_name() {
        let help = help();
        for name in measure::ALL.iter().map(|one| one.name).chain(blocks::ALL.iter().map(|block| block.name)) {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
    }
}
