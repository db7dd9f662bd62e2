//! The table, as printed and as in `docs/drop_in.md`.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::listed::Listed;
use crate::outcome::Outcome;

const HEAD: &str = "| crate | version | before | after | runs | what differs, and why |
|---|---|---|---|---|---|
";
const BEGIN: &str = "<!-- Written by tests/drop_in/run --write. -->\n";
const END: &str = "<!-- The end of what is written. -->\n";

/// How many tests of a crate passed.
pub(crate) struct Row {
    name: String,
    version: String,
    before: String,
    after: String,
    /// How many, and when.
    runs: String,
    differs: String,
}

impl Row {
    pub(crate) fn new(listed: &Listed, before: &Outcome, after: &Outcome, runs: String) -> Row {
        let remark = (!listed.remark.is_empty()).then(|| listed.remark.clone());
        let parts: Vec<String> = by_reason(&listed.differs)
            .chain(by_reason(&listed.sometimes).map(|tests| format!("sometimes {tests}")))
            .chain(remark)
            .collect();
        Row {
            name: listed.name.clone(),
            version: listed.version.clone(),
            before: before.summary(),
            after: after.summary(),
            runs,
            differs: parts.join("; "),
        }
    }
}

/// Lists tests by reason: `` `a`, `b` (why)``. Tests that share a reason are next to each other.
fn by_reason(tests: &[(String, String)]) -> impl Iterator<Item = String> {
    tests.chunk_by(|(_, one), (_, next)| one == next).map(|tests| {
        let names = tests.iter().map(|(name, _)| match name.strip_suffix(":compiles") {
            Some(part) => format!("does not compile with only its {part} switched"),
            None => format!("`{name}`"),
        });
        format!("{} ({})", names.collect::<Vec<_>>().join(", "), tests[0].1)
    })
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Row { name, version, before, after, runs, differs } = self;
        write!(f, "| {name} | {version} | {before} | {after} | {runs} | {differs} |")
    }
}

pub(crate) fn table(rows: &[Row]) -> String {
    rows.iter().fold(HEAD.to_owned(), |table, row| format!("{table}{row}\n"))
}

/// Puts a row into the sorted table of a page, or replaces the crate's old row.
pub(crate) fn write(page: &Path, row: &Row) -> Result<(), String> {
    let wrong = |what: &dyn Display| format!("{}: {what}", page.display());
    let text = fs::read_to_string(page).map_err(|error| wrong(&error))?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| wrong(&format!("there is no {BEGIN}")))?;
    let (old, after) = rest.split_once(END).ok_or_else(|| wrong(&format!("there is no {END}")))?;
    let name = |row: &str| row.split(" | ").next().unwrap_or_default().to_owned();
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let old = old.lines().filter(|line| line.starts_with("| ") && !HEAD.contains(line));
    all.extend(old.map(str::to_owned).chain([row.to_string()]).map(|row| (name(&row), row)));
    let table = all.values().fold(HEAD.to_owned(), |table, row| format!("{table}{row}\n"));
    let with = format!("The latest run was with {}.\n", first_line("rustc", "--version")?);
    fs::write(page, format!("{before}{BEGIN}{table}\n{with}{END}{after}")).map_err(|error| wrong(&error))
}

/// The day, with the number of runs: `3 on 2026-11-22`.
pub(crate) fn today(times: usize) -> Result<String, String> {
    Ok(format!("{times} on {}", first_line("date", "+%F")?))
}

fn first_line(command: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(command).arg(argument).output().map_err(|error| format!("{command}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
