//! The blocks of a document: what stands between `<!-- report: NAME -->` and `<!-- /report -->`.
//!
//! Where both stand on lines of their own, so does the text between them, with an empty line on either side. Otherwise
//! both stand on one line, and the text in it: that is for figures in tables and sentences. Code is left alone.

use std::fmt::{self, Display};
use std::ops::Range;

const OPEN: &str = "<!-- report: ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- /report -->";

#[derive(Debug, PartialEq, Eq)]
struct Block<'a> {
    name: &'a str,
    /// The line of the opening comment, from 1.
    line: usize,
    /// Where in the document the text stands.
    body: Range<usize>,
    is_inline: bool,
}

/// Something that is wrong with a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// A block whose text is another one now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    pub(crate) line: usize,
    stands: String,
    stored: String,
}

/// A document with the text of its blocks put in.
#[derive(Debug)]
pub(crate) struct Rewritten {
    pub(crate) text: String,
    pub(crate) blocks: usize,
    pub(crate) changes: Vec<Change>,
}

/// Puts into each block what `generate` gives for its name.
pub(crate) fn rewrite(
    document: &str,
    generate: impl Fn(&str) -> Result<String, String>,
) -> Result<Rewritten, Vec<Fault>> {
    let blocks = find(document).map_err(|fault| vec![fault])?;
    let mut rewritten = Rewritten { text: String::new(), blocks: blocks.len(), changes: Vec::new() };
    let mut faults = Vec::new();
    let mut done = 0;
    for Block { name, line, body, is_inline } in blocks {
        let generated = generate(name).and_then(|text| {
            if is_inline && text.contains('\n') {
                return Err("it has several lines, so its comments have to stand on lines of their own".to_owned());
            }
            Ok(if is_inline { text } else { format!("\n{}\n\n", text.trim_end()) })
        });
        match generated {
            Ok(stored) => {
                let stands = &document[body.clone()];
                rewritten.text.push_str(&document[done..body.start]);
                rewritten.text.push_str(&stored);
                done = body.end;
                if stored != stands {
                    rewritten.changes.push(Change { name: name.to_owned(), line, stands: stands.to_owned(), stored });
                }
            }
            Err(what) => faults.push(Fault { line, what: format!("block `{name}`: {what}") }),
        }
    }
    rewritten.text.push_str(&document[done..]);
    if faults.is_empty() { Ok(rewritten) } else { Err(faults) }
}

fn find(document: &str) -> Result<Vec<Block<'_>>, Fault> {
    let mut blocks: Vec<Block> = Vec::new();
    // The name of a block that is not closed yet, its line, and where its text begins.
    let mut open: Option<(&str, usize, usize)> = None;
    let mut is_code = false;
    let mut start = 0;
    for (index, line) in document.split_inclusive('\n').enumerate() {
        let number = index + 1;
        let end = start + line.len();
        if let Some((name, opened, body)) = open {
            if line.trim() == CLOSE {
                blocks.push(Block { name, line: opened, body: body..start, is_inline: false });
                open = None;
            } else if line.contains(OPEN) {
                return fault(number, format!("a block begins within the block `{name}`, which line {opened} opened"));
            }
        } else if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            match line.trim().strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(OPEN_END)) {
                Some(name) if !name.contains(OPEN_END) => open = Some((name, number, end)),
                _ => find_inline(line, number, start, &mut blocks)?,
            }
        }
        start = end;
    }
    match open {
        None => Ok(blocks),
        Some((name, line, _)) => fault(line, format!("block `{name}` is not closed: there is no line `{CLOSE}`")),
    }
}

/// Finds the blocks within one line, which is at `start` of the document.
fn find_inline<'a>(line: &'a str, number: usize, start: usize, blocks: &mut Vec<Block<'a>>) -> Result<(), Fault> {
    let mut at = 0;
    while let Some((before, rest)) = line[at..].split_once(OPEN) {
        if before.contains(CLOSE) {
            break;
        }
        let Some((name, rest)) = rest.split_once(OPEN_END) else {
            return fault(number, format!("a comment begins with `{OPEN}` and does not end with `{OPEN_END}`"));
        };
        let body = line.len() - rest.len();
        let Some(length) = rest.find(CLOSE).filter(|length| !rest[..*length].contains(OPEN)) else {
            return fault(number, format!("block `{name}` is not closed: there is no `{CLOSE}` on this line"));
        };
        blocks.push(Block { name, line: number, body: start + body..start + body + length, is_inline: true });
        at = body + length + CLOSE.len();
    }
    if line[at..].contains(CLOSE) {
        return fault(number, format!("there is a `{CLOSE}`, and no block to be closed"));
    }
    Ok(())
}

fn fault<T>(line: usize, what: String) -> Result<T, Fault> {
    Err(Fault { line, what })
}

impl Display for Change {
    /// The lines that differ: with a `-` as they stand, with a `+` as they are stored.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [stands, stored] = [&self.stands, &self.stored].map(|text| text.lines().collect::<Vec<_>>());
        let same =
            |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(one, other)| one == other).count();
        let head = same(&mut stands.iter().zip(&stored));
        let tail = same(&mut stands[head..].iter().rev().zip(stored[head..].iter().rev()));
        write!(f, "block `{}` differs from the stored results", self.name)?;
        for (sign, lines) in [('-', &stands), ('+', &stored)] {
            for line in &lines[head..lines.len() - tail] {
                write!(f, "\n  {sign} {line}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate(name: &str) -> Result<String, String> {
        match name {
            "table" => Ok("| new |\n".to_owned()),
            "figure" => Ok("42".to_owned()),
            "lines" => Ok("one\ntwo".to_owned()),
            _ => Err("there is no such block".to_owned()),
        }
    }

    fn rewritten(document: &str) -> String {
        rewrite(document, generate).unwrap().text
    }

    fn faults(document: &str) -> Vec<(usize, String)> {
        rewrite(document, generate).unwrap_err().into_iter().map(|fault| (fault.line, fault.what)).collect()
    }

    #[test]
    fn a_block_on_lines_of_its_own_is_put_in_between_empty_lines() {
        let document = "before\n<!-- report: table -->\nold\n<!-- /report -->\nafter";
        let expected = "before\n<!-- report: table -->\n\n| new |\n\n<!-- /report -->\nafter";
        assert_eq!(rewritten(document), expected);
        assert_eq!(rewritten(expected), expected);
        assert!(rewrite(expected, generate).unwrap().changes.is_empty());
    }

    #[test]
    fn blocks_in_a_line_keep_what_is_around_them() {
        let document =
            "| <!-- report: figure -->1<!-- /report --> of <!-- report: figure --><!-- /report --> | `x` |\n";
        let expected =
            "| <!-- report: figure -->42<!-- /report --> of <!-- report: figure -->42<!-- /report --> | `x` |\n";
        assert_eq!(rewritten(document), expected);
        let alone = "<!-- report: figure -->1<!-- /report -->\n";
        assert_eq!(rewritten(alone), "<!-- report: figure -->42<!-- /report -->\n");
    }

    #[test]
    fn what_is_outside_of_blocks_and_in_code_is_left_alone() {
        for document in
            ["", "no blocks\r\n\nat all", "```\n<!-- report: table -->\n```\n", "    <!-- report: table -->\n"]
        {
            assert_eq!(rewritten(document), document);
        }
    }

    #[test]
    fn a_block_may_hold_code() {
        let document = "<!-- report: table -->\n```text\nold\n```\n<!-- /report -->\n<!-- report: oops -->\n";
        assert_eq!(faults(document)[0].0, 6);
    }

    #[test]
    fn a_fault_has_its_line() {
        for (document, line, what) in [
            ("a\n<!-- report: table -->\nb\n", 2, "block `table` is not closed"),
            ("<!-- report: table -->\n<!-- report: figure -->\n<!-- /report -->\n", 2, "within the block `table`"),
            ("a\n\n<!-- /report -->\n", 3, "no block to be closed"),
            ("x <!-- /report --> <!-- report: figure -->1<!-- /report -->\n", 1, "no block to be closed"),
            ("a <!-- report: figure -->1\n", 1, "block `figure` is not closed"),
            ("a <!-- report: figure ->1<!-- /report\n", 1, "does not end with"),
            ("a\n<!-- report: tables -->\n<!-- /report -->\n", 2, "block `tables`: there is no such block"),
            ("a <!-- report: lines -->1<!-- /report -->\n", 1, "lines of their own"),
        ] {
            let faults = faults(document);
            assert_eq!((faults.len(), faults[0].0), (1, line), "{document}");
            assert!(faults[0].1.contains(what), "{}", faults[0].1);
        }
    }

    #[test]
    fn all_blocks_that_cannot_be_written_are_told_at_once() {
        let document = "<!-- report: one -->\n<!-- /report -->\n\n<!-- report: two -->\n<!-- /report -->\n";
        assert_eq!(faults(document).iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_change_shows_the_lines_that_differ() {
        let document = "<!-- report: table -->\n\n| a |\n| b |\n| new |\n\n<!-- /report -->\n";
        let change = |name: &str| rewrite(document, |_| Ok(name.to_owned())).unwrap().changes.remove(0).to_string();
        let told = "block `table` differs from the stored results";
        assert_eq!(change("| a |\n| c |\n| d |\n| new |"), format!("{told}\n  - | b |\n  + | c |\n  + | d |"));
        assert_eq!(change("| a |\n| b |\n| b |\n| new |"), format!("{told}\n  + | b |"));
    }
}
