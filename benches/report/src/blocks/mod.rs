//! The texts that are put into the documents, each from the results that are stored.

mod arm;
mod late;
mod machine;
mod population;
mod size;
mod soak;

use crate::results::Results;

pub(crate) struct Block {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    text: fn(&Results) -> Result<String, String>,
}

const fn block(name: &'static str, what: &'static str, text: fn(&Results) -> Result<String, String>) -> Block {
    Block { name, what, text }
}

pub(crate) const ALL: [Block; 12] = [
    block("arm", "nanoseconds to arm and cancel: what was measured, and the table", arm::text),
    block("population", "the same among a million timers, memory and firing: a paragraph", population::text),
    block("late", "how late sleeps end: what was measured, the table, and what precision costs", late::text),
    block("soak", "the soak's report, and where it ran", soak::text),
    block("soak-stops", "at how many points its counts were compared: a number", soak::stops),
    block("soak-memory", "what was resident after its waves: two numbers", soak::memory),
    block("size", "bytes that a `Sleep` of hairspring's takes: a number", size::ours),
    block("size-tokio", "the same of tokio's", size::tokio),
    block("machine", "processor, cores, kernel and versions of `arm`: a phrase", machine::rivals),
    block("machine-lateness", "the same of the lateness", machine::lateness),
    block("machine-schemes", "the same of the schemes", machine::schemes),
    block("machine-soak", "the same of the soak", machine::soak),
];

/// The text of the block with that name.
pub(crate) fn generate(name: &str, results: &Results) -> Result<String, String> {
    match ALL.iter().find(|block| block.name == name) {
        Some(block) => (block.text)(results),
        None => Err(format!("there is no such block; there are {}", ALL.each_ref().map(|block| block.name).join(", "))),
    }
}

/// A table of Markdown's.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        cells.fold("|".to_owned(), |line, cell| if cell.is_empty() { line + " |" } else { line + " " + cell + " |" })
    };
    let mut text = line(&mut head.iter().copied()) + "\n|" + &"---|".repeat(head.len());
    for row in rows {
        text.push('\n');
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let rows = [vec!["a".to_owned(), String::new(), "1".to_owned()]];
        assert_eq!(table(&["", "b", "c"], &rows), "| | b | c |\n|---|---|---|\n| a | | 1 |");
    }

    #[test]
    fn every_block_has_a_text_from_what_is_stored() {
        let results = Results::new(&crate::root());
        for block in &ALL {
            let text = (block.text)(&results).unwrap_or_else(|problem| panic!("{}: {problem}", block.name));
            let fits = |line: &str| line.starts_with('|') || line.chars().count() <= 120;
            assert!(!text.is_empty() && text.lines().all(fits), "{text}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_those_that_there_are() {
        let problem = generate("arms", &Results::new(&crate::root())).unwrap_err();
        assert!(problem.contains("there are arm, population"), "{problem}");
    }
}
