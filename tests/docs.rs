//! Checks what the documents say about the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Each test that docs/bugs.md names is in the file it links to.
#[test]
fn the_tests_that_the_table_of_bugs_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("docs/bugs.md")).unwrap();
    let mut links = 0;
    for link in table.split("[`").skip(1) {
        let (test, rest) = link.split_once("`](../").expect("a test, and the file that it is in");
        let (file, _) = rest.split_once(')').unwrap();
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(&format!("fn {test}()")), "{file} has no test {test}");
        links += 1;
    }
    assert!(links > 50, "{links} links");
    for row in table.lines().filter(|row| row.starts_with("| ") && !row.starts_with("| **")).skip(1) {
        assert!(row.contains("[`"), "no test is named for this bug: {row}");
    }
}

/// One row of the table of parts in DESIGN.md.
struct Row {
    parts: Vec<String>,
    must_not_know: Vec<String>,
}

/// The text between backticks.
fn code(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn table_of_parts(root: &Path) -> Vec<Row> {
    let design = fs::read_to_string(root.join("DESIGN.md")).unwrap();
    let table = design.lines().skip_while(|line| !line.starts_with("| part |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        Row { parts: code(cells[0]), must_not_know: code(cells[cells.len() - 1]) }
    });
    rows.collect()
}

/// Each source file with the part that it belongs to: `src/timer/builder.rs` belongs to `timer`.
fn sources(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let inside = path.strip_prefix(root.join("src")).unwrap().to_str().unwrap();
                let part = inside.split('/').next().unwrap().trim_end_matches(".rs");
                found.push((part.to_owned(), inside.to_owned()));
            }
        }
    }
    found
}

/// The parts that a file's code names, without its tests and comments.
fn used_by(source: &str) -> Vec<String> {
    let own = source.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code: Vec<&str> = own.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let mut used = Vec::new();
    for after in code.split("crate::").skip(1) {
        // `use crate::{one::.., two::..};` or `crate::one`.
        let names = after.strip_prefix('{').map_or(after, |list| list.split('}').next().unwrap());
        let listed = if after.starts_with('{') { names.split(", ").collect() } else { vec![names] };
        for name in listed {
            let name: String = name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            used.push(name);
        }
    }
    used
}

/// Each part uses only the parts that the table allows, so that you can read it without those below it.
#[test]
fn no_part_uses_one_that_it_must_not_know() {
    const KNOW_EACH_OTHER: [&str; 5] = ["timer", "sleep", "try_sleep", "timeout", "interval"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rows = table_of_parts(root);
    let place = |part: &str| rows.iter().position(|row| row.parts.iter().any(|known| known == part));
    let mut arrows = 0;
    for (part, file) in sources(root) {
        if matches!(file.as_str(), "lib.rs") || file.ends_with("models.rs") || part == "models" {
            continue;
        }
        let at = place(&part).unwrap_or_else(|| panic!("DESIGN.md has no row for {file}"));
        for used in used_by(&fs::read_to_string(root.join("src").join(&file)).unwrap()) {
            if used == part || KNOW_EACH_OTHER.contains(&part.as_str()) && KNOW_EACH_OTHER.contains(&used.as_str()) {
                continue;
            }
            let of = place(&used).unwrap_or_else(|| panic!("DESIGN.md has no row for {used}, which {file} uses"));
            assert!(of <= at, "{file} uses {used}, which stands below it in DESIGN.md");
            assert!(!rows[at].must_not_know.contains(&used), "{file} uses {used}, which it must not know");
            arrows += 1;
        }
    }
    assert!(arrows > 100, "{arrows} arrows");
}

/// The documents that people read next to the code.
fn documents(root: &Path) -> Vec<PathBuf> {
    let names = ["README.md", "DESIGN.md", "TESTING.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    names.iter().map(|name| root.join(name)).chain(docs).collect()
}

/// The lines of a document outside code blocks.
fn outside_of_blocks(document: &str) -> Vec<&str> {
    let mut in_block = false;
    let lines = document.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines.collect()
}

/// The anchors of a document's headings, as code hosts and rustdoc write them after `#`.
fn anchors(document: &str) -> Vec<String> {
    let headings = outside_of_blocks(document).into_iter().filter(|line| line.starts_with('#'));
    let anchors = headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        title.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    });
    anchors.collect()
}

/// The targets of a document's links and images.
fn links(document: &str) -> Vec<String> {
    // What stands between backticks is code.
    let prose: Vec<String> =
        outside_of_blocks(document).iter().map(|line| line.split('`').step_by(2).collect()).collect();
    let targets = prose.join("\n");
    targets.split("](").skip(1).map(|rest| rest.split(')').next().unwrap().to_owned()).collect()
}

/// Each relative link names an existing file and a heading in that file.
#[test]
fn links_between_the_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for path in documents(root) {
        let name = path.strip_prefix(root).unwrap().display();
        let document = fs::read_to_string(&path).unwrap();
        for link in links(&document).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{name} links to {link}: there is no {file}");
            if let Some(anchor) = anchor {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.iter().any(|heading| heading == anchor), "{name} links to {link}: no such heading");
            }
            count += 1;
        }
    }
    assert!(count > 80, "{count} links");
}

/// Code hosts also show the pages in `docs`, and there links to items mean nothing.
#[test]
fn the_documents_have_no_links_that_only_rustdoc_knows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in documents(root) {
        let document = fs::read_to_string(&path).unwrap();
        for line in outside_of_blocks(&document) {
            // An item in brackets, with no target behind it.
            let to_items = line.split("[`").skip(1).filter(|rest| !rest.contains("`](") && rest.contains("`]"));
            assert_eq!(to_items.count(), 0, "{}: {line}", path.display());
        }
    }
}

#[test]
fn the_test_that_readme_shows_is_one_that_is_run() {
    let (_, test) = include_str!("readme.rs").split_once("\n\n").expect("a line on what it is comes first");
    assert!(include_str!("../README.md").contains(test));
}
