//! The blocks of the documents: what is between `<!-- report: NAME -->` and `<!-- /report -->`.
//!
//! If a line ends behind the first, the block is of paragraphs, with an empty line on either side of them. Otherwise it
//! is within one line: that is for figures in tables and sentences.

use std::fs;
use std::path::Path;

use crate::blocks;
use crate::results::Results;

/// Those that have blocks.
const DOCUMENTS: [&str; 5] =
    ["README.md", "docs/performance.md", "benches/schemes/README.md", "benches/worlds/README.md", "docs/soak.md"];

const OPEN: &str = "<!-- report: ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /report -->";

/// Says which blocks differ from what is stored, and whether none does.
pub(crate) fn check(root: &Path) -> Result<bool, String> {
    let mut is_good = true;
    for (name, text) in rewritten(root)? {
        let written = fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        for ((stands, stored), line) in written.lines().zip(text.lines()).zip(1..) {
            if stands != stored {
                println!("{name}:{line} differs from the stored results\n  - {stands}\n  + {stored}");
                break;
            }
        }
        is_good &= written == text;
    }
    let verdict = if is_good { "are as stored" } else { "differ: `benches/report/run --write` writes what is stored" };
    println!("the figures in {} {verdict}", DOCUMENTS.join(", "));
    Ok(is_good)
}

/// Writes what is stored.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (name, text) in rewritten(root)? {
        fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// All documents as the results would have them.
fn rewritten(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let results = Results::new(root);
    let rewritten = DOCUMENTS.map(|name| {
        let text = fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let text = rewrite(&text, |block| blocks::text(block, &results));
        text.map(|text| (name, text)).map_err(|(line, problem)| format!("{name}:{line}: {problem}"))
    });
    rewritten.into_iter().collect()
}

/// Puts into each block what `generate` gives for its name. Otherwise says what is wrong, and in which line.
fn rewrite(document: &str, generate: impl Fn(&str) -> Result<String, String>) -> Result<String, (usize, String)> {
    let mut text = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(OPEN) {
        text += before;
        let fault = |problem: &str| (text.matches('\n').count() + 1, problem.to_owned());
        let (name, after) = after.split_once(OPEN_END).ok_or_else(|| fault("a block has no name"))?;
        let problem = format!("block `{name}` is not closed: there is no `{CLOSE}`");
        let (stands, after) = after.split_once(CLOSE).ok_or_else(|| fault(&problem))?;
        if stands.contains(OPEN) {
            return Err(fault(&problem));
        }
        let stored = generate(name).map_err(|problem| fault(&format!("block `{name}`: {problem}")))?;
        let stored = if stands.starts_with('\n') { format!("\n\n{}\n\n", stored.trim_end()) } else { stored };
        text.extend([OPEN, name, OPEN_END, &stored, CLOSE]);
        rest = after;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(name: &str) -> Result<String, String> {
        match name {
            "table" => Ok("| new |\n".to_owned()),
            "figure" => Ok("42".to_owned()),
            _ => Err("there is no such block".to_owned()),
        }
    }

    #[test]
    fn blocks_are_rewritten_and_what_is_around_them_is_left_alone() {
        let document = "before\n<!-- report: table -->\nold\n<!-- /report -->\nafter\n";
        let expected = "before\n<!-- report: table -->\n\n| new |\n\n<!-- /report -->\nafter\n";
        assert_eq!(rewrite(document, generate).unwrap(), expected);
        assert_eq!(rewrite(expected, generate).unwrap(), expected);
        let figure = "| <!-- report: figure -->1<!-- /report --> of <!-- report: figure --><!-- /report --> |";
        let expected = "| <!-- report: figure -->42<!-- /report --> of <!-- report: figure -->42<!-- /report --> |";
        assert_eq!(rewrite(figure, generate).unwrap(), expected);
    }

    #[test]
    fn a_fault_has_its_line() {
        for (document, line, what) in [
            ("a\n<!-- report: table -->\nb\n", 2, "block `table` is not closed"),
            ("<!-- report: table -->\n<!-- report: figure -->\n<!-- /report -->\n", 1, "block `table` is not closed"),
            ("a\n<!-- report: tables -->\n<!-- /report -->\n", 2, "block `tables`: there is no such block"),
        ] {
            let (number, problem) = rewrite(document, generate).unwrap_err();
            assert!(number == line && problem.contains(what), "{number}: {problem}");
        }
    }

    #[test]
    fn the_documents_are_as_stored() {
        assert_eq!(check(&crate::root()), Ok(true));
    }
}
