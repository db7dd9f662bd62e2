//! Writes the stored figures into the documents, each as the table that the document describes. See ../README.md.

mod chart;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The documents with tables, and the chart.
const DOCUMENTS: [&str; 3] = ["README.md", "docs/performance.md", "benches/worlds/README.md"];
const CHART: &str = "docs/chart.svg";

const OPEN: &str = "<!-- figures ";
const OPEN_END: &str = "-->\n";
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
    for name in DOCUMENTS {
        let text = rewrite(&read(&root.join(name))?, |described| table::draw(root, described));
        texts.push((name, text.map_err(|problem| format!("{name}: {problem}"))?));
    }
    Ok(texts)
}

/// Replaces the table below each description.
fn rewrite(document: &str, draw: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut parts = document.split(OPEN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (described, rest) = part.split_once(OPEN_END).ok_or_else(|| format!("`{OPEN}` without `-->`: {part}"))?;
        let (_, after) = rest.split_once(CLOSE).ok_or_else(|| format!("no `{CLOSE}` after `{described}`"))?;
        text.extend([OPEN, described, OPEN_END, "\n", &draw(described)?, "\n\n", CLOSE, after]);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_below_a_description_is_replaced_and_nothing_else() {
        let document = "before\n<!-- figures a.csv\nrest\n-->\nold\n<!-- end -->\nafter\n";
        let expected = "before\n<!-- figures a.csv\nrest\n-->\n\nnew a.csv\n\n<!-- end -->\nafter\n";
        let draw = |described: &str| Ok(format!("new {}", described.lines().next().unwrap()));
        assert_eq!(rewrite(document, draw).unwrap(), expected);
        assert_eq!(rewrite(expected, draw).unwrap(), expected);
        assert!(rewrite("<!-- figures a.csv\n-->\n", draw).unwrap_err().contains("no `<!-- end -->`"));
    }

    #[test]
    fn the_documents_show_what_is_stored() {
        assert_eq!(check(&root()), Ok(true));
    }
}
