//! The table of all crates in `results.csv`. In its last row, `after` counts only tests that also passed before.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::listed::Listed;
use crate::outcome::Outcome;

const HEAD: &str = "crate,version,tests,before,after,runs,date,what differs";
const TOTAL: &str = "total";

/// How many tests of a crate passed in every run.
pub(crate) struct Row {
    name: String,
    version: String,
    tests: usize,
    before: usize,
    after: usize,
    runs: usize,
    date: String,
    differs: String,
}

impl Row {
    pub(crate) fn new(listed: &Listed, before: &Outcome, after: &Outcome, runs: usize) -> Result<Row, String> {
        let remark = (!listed.remark.is_empty()).then(|| listed.remark.clone());
        let parts: Vec<String> = by_reason(&listed.differs)
            .chain(by_reason(&listed.sometimes).map(|tests| format!("sometimes {tests}")))
            .chain(remark)
            .collect();
        Ok(Row {
            name: listed.name.clone(),
            version: listed.version.clone(),
            tests: before.count(),
            before: before.passed(),
            after: after.passed(),
            runs,
            date: first_line("date", "+%F")?,
            differs: parts.join("; "),
        })
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
        let Row { name, version, tests, before, after, runs, date, differs } = self;
        write!(f, "{name},{version},{tests},{before},{after},{runs},{date},{}", quoted(differs))
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Puts a row into the sorted table, or replaces the crate's old row, and adds everything up again. Returns the totals.
pub(crate) fn write(file: &Path, row: &Row) -> Result<String, String> {
    let wrong = |what: &dyn Display| format!("{}: {what}", file.display());
    let old = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let compiler = format!("the latest run was with {}", first_line("rustc", "--version")?);
    let (new, totals) = with(&old, &row.to_string(), &compiler).map_err(|row| wrong(&format!("no row: {row}")))?;
    fs::write(file, new).map_err(|error| wrong(&error))?;
    Ok(totals)
}

/// The table with a new row, and its totals. Returns a row that has no numbers as the error.
fn with(old: &str, row: &str, remark: &str) -> Result<(String, String), String> {
    let name = |row: &str| row.split(',').next().unwrap_or_default().to_owned();
    let kept = old.lines().skip(1).filter(|row| name(row) != TOTAL);
    let all: BTreeMap<String, String> = kept.chain([row]).map(|row| (name(row), row.to_owned())).collect();
    let (mut tests, mut before, mut both) = (0, 0, 0);
    for row in all.values() {
        let numbers: Vec<u32> = row.split(',').skip(2).take(3).map_while(|number| number.parse().ok()).collect();
        let [all, then, now] = numbers[..] else { return Err(row.clone()) };
        (tests, before, both) = (tests + all, before + then, both + then.min(now));
    }
    let totals = format!("{} crates: {both} of the {before} tests that passed before passed after", all.len());
    let rows: Vec<String> = all.into_values().collect();
    let rows = rows.join("\n");
    Ok((format!("{HEAD}\n{rows}\n{TOTAL},,{tests},{before},{both},,,{}\n", quoted(remark)), totals))
}

fn first_line(command: &str, argument: &str) -> Result<String, String> {
    let output = Command::new(command).arg(argument).output().map_err(|error| format!("{command}: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_replaced_and_everything_added_up_again() {
        let old = format!("{HEAD}\na,1.0.0,9,8,9,2,2026-01-01,\nc,1.0.0,2,2,2,2,2026-01-01,\n{TOTAL},,1,1,1,,,old\n");
        let row = "b,1.0.0,5,5,3,2,2026-01-02,\"`x`, `y` (why)\"";
        let (new, totals) = with(&old, row, "a, b").unwrap();
        let lines: Vec<&str> = new.lines().collect();
        assert_eq!(lines[2..], [row, "c,1.0.0,2,2,2,2,2026-01-01,", "total,,16,15,13,,,\"a, b\""]);
        assert_eq!(totals, "3 crates: 13 of the 15 tests that passed before passed after");
        assert_eq!(with(&new, row, "a, b").unwrap().0, new);
        assert_eq!(with("", "b,1.0.0,does not compile", ""), Err("b,1.0.0,does not compile".to_owned()));
    }
}
