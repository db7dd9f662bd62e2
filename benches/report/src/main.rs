//! Writes the stored figures into the documents, as the tables that the file `tables` describes. See ../README.md.

mod chart;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The documents with tables, and the chart.
const DOCUMENTS: [&str; 2] = ["docs/performance.md", "benches/worlds/README.md"];
const CHART: &str = "docs/chart.svg";
const DESCRIPTIONS: &str = "benches/report/tables";

const OPEN: &str = "<!-- table ";
const OPEN_END: &str = " -->\n";
const CLOSE: &str = "<!-- end -->";

fn main() -> ExitCode {
    let outcome = match std::env::args().nth(1).as_deref() {
        Some("--write") => write(&root()).map(|()| true),
        Some("--check") => check(&root()),
        other => Err(format!("expected `--write` or `--check`, not `{}`", other.unwrap_or_default())),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::from(2)
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(root: &Path) -> Result<(), String> {
    for (name, text) in from_results(root)? {
        fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Whether all documents show what is stored. Prints the first line that differs in each.
fn check(root: &Path) -> Result<bool, String> {
    let mut is_current = true;
    for (name, stored) in from_results(root)? {
        let written = read(&root.join(name))?;
        let differing = (1..).zip(written.lines().zip(stored.lines())).find(|(_, (written, stored))| written != stored);
        if let Some((line, (written, stored))) = differing {
            println!("{name}:{line} differs from the stored results\n  - {written}\n  + {stored}");
        }
        is_current &= written == stored;
    }
    Ok(is_current)
}

/// The documents and the chart as the stored results make them.
fn from_results(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let mut texts = vec![(CHART, chart::draw(root)?)];
    let descriptions = read(&root.join(DESCRIPTIONS))?;
    for name in DOCUMENTS {
        let text = rewrite(&read(&root.join(name))?, |table| table::draw(root, description(&descriptions, table)?));
        texts.push((name, text.map_err(|problem| format!("{name}: {problem}"))?));
    }
    Ok(texts)
}

/// What the file says below `== NAME`.
fn description<'a>(descriptions: &'a str, name: &str) -> Result<&'a str, String> {
    let mut sections = descriptions.split("\n== ").skip(1).filter_map(|section| section.split_once('\n'));
    let found = sections.find(|(title, _)| *title == name);
    found.map(|(_, description)| description).ok_or_else(|| format!("{DESCRIPTIONS} describes no table `{name}`"))
}

/// Replaces each table below a comment that names it.
fn rewrite(document: &str, draw: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut parts = document.split(OPEN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(OPEN_END).ok_or_else(|| format!("`{OPEN}` without `-->`: {part}"))?;
        let (_, after) = rest.split_once(CLOSE).ok_or_else(|| format!("no `{CLOSE}` after `{name}`"))?;
        text.extend([OPEN, name, OPEN_END, "\n", &draw(name)?, "\n\n", CLOSE, after]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_below_its_name_is_replaced_and_nothing_else() {
        let document = "before\n<!-- table a b -->\nold\n<!-- end -->\nafter\n";
        let expected = "before\n<!-- table a b -->\n\nnew a b\n\n<!-- end -->\nafter\n";
        let draw = |name: &str| Ok(format!("new {name}"));
        assert_eq!(rewrite(document, draw).unwrap(), expected);
        assert_eq!(rewrite(expected, draw).unwrap(), expected);
        assert!(rewrite("<!-- table a -->\n", draw).unwrap_err().contains("no `<!-- end -->`"));
    }

    #[test]
    fn a_description_is_found_by_its_whole_name() {
        let descriptions = "# What this is.\n\n== a b\none\n\n== a\ntwo\nthree\n";
        assert_eq!(description(descriptions, "a b"), Ok("one\n"));
        assert_eq!(description(descriptions, "a"), Ok("two\nthree\n"));
        assert!(description(descriptions, "b").unwrap_err().contains("no table `b`"));
    }

    #[test]
    fn the_documents_show_what_is_stored() {
        assert_eq!(check(&root()), Ok(true));
    }
}
