//! The table, printed and in `docs/drop_in.md`.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::listed::Listed;
use crate::outcome::Outcome;

const HEAD: &str =
    "| crate | version | paths | before | after | sources only | tests only | what differs, and why | run on |
|---|---|---|---|---|---|---|---|---|
";
const BEGIN: &str = "<!-- Written by tests/drop_in/run --write. -->\n";
const END: &str = "<!-- The end of what is written. -->\n";

/// What came of a crate.
pub(crate) struct Row {
    name: String,
    version: String,
    pub(crate) paths: usize,
    /// Before, after, and with only sources or tests switched.
    pub(crate) cells: Vec<String>,
    differs: String,
    date: String,
}

impl Row {
    pub(crate) fn new(listed: &Listed, before: &Outcome) -> Result<Row, String> {
        let differs = listed.differs.iter().map(|(name, why)| format!("`{name}`: {why}"));
        let sometimes = listed.sometimes.iter().map(|(name, why)| format!("sometimes `{name}`: {why}"));
        let remark = (!listed.remark.is_empty()).then(|| listed.remark.clone());
        let parts: Vec<String> = differs.chain(sometimes).chain(remark).collect();
        Ok(Row {
            name: listed.name.clone(),
            version: listed.version.clone(),
            paths: 0,
            cells: vec![before.summary()],
            differs: parts.join("; "),
            date: first_line("date", "+%F")?,
        })
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Row { name, version, paths, cells, differs, date } = self;
        write!(f, "| {name} | {version} | {paths} | {} | {differs} | {date} |", cells.join(" | "))
    }
}

pub(crate) fn table(rows: &[Row]) -> String {
    rows.iter().fold(HEAD.to_owned(), |table, row| format!("{table}{row}\n"))
}

/// Puts a row into the table of a page: in place of that of the same crate, in the order of their names.
pub(crate) fn write(page: &Path, row: &Row, times: usize) -> Result<(), String> {
    let wrong = |what: &dyn Display| format!("{}: {what}", page.display());
    let text = fs::read_to_string(page).map_err(|error| wrong(&error))?;
    let (before, rest) = text.split_once(BEGIN).ok_or_else(|| wrong(&format!("there is no {BEGIN}")))?;
    let (old, after) = rest.split_once(END).ok_or_else(|| wrong(&format!("there is no {END}")))?;
    let name = |row: &str| row.split(" | ").next().unwrap_or_default().to_owned();
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let old = old.lines().filter(|line| line.starts_with("| ") && !HEAD.contains(line));
    all.extend(old.map(str::to_owned).chain([row.to_string()]).map(|row| (name(&row), row)));
    let table = all.values().fold(HEAD.to_owned(), |table, row| format!("{table}{row}\n"));
    let rustc = first_line("rustc", "--version")?;
    let with = format!("Written by `tests/drop_in/run`, each {times} times, with {rustc}.\n");
    fs::write(page, format!("{before}{BEGIN}{table}\n{with}{END}{after}")).map_err(|error| wrong(&error))
}

fn first_line(command: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(command).arg(argument).output().map_err(|error| format!("{command}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
