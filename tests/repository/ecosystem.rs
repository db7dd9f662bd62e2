//! docs/guide.md is true: its snippets with other crates are parts of programs in `examples/ecosystem`.

use std::fs;
use std::path::Path;

/// The lines of a source file, without indentation.
fn dedented(source: &str) -> String {
    source.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

/// The programs of `examples/ecosystem`.
fn programs() -> Vec<String> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/ecosystem");
    let folders = ["crates/src/bin", "tools/src/bin"].map(|folder| fs::read_dir(workspace.join(folder)).unwrap());
    folders.into_iter().flatten().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect()
}

/// `examples/ecosystem/run` runs these programs.
#[test]
fn each_part_of_a_snippet_is_in_a_program() {
    let programs: Vec<_> = programs().iter().map(|program| dedented(program)).collect();
    let page = include_str!("../../docs/guide.md");
    let mut parts = 0;
    for rest in page.split("```rust,ignore\n").skip(1) {
        let (snippet, _) = rest.split_once("```").unwrap();
        for part in dedented(snippet).split("\n\n") {
            let is_there = programs.iter().any(|program| program.contains(part.trim_end()));
            assert!(is_there, "no program has this:\n{part}");
            parts += 1;
        }
    }
    assert!(parts >= 5, "{parts} parts");
}

/// Checks the versions that the page gives in full.
#[test]
fn the_page_names_the_versions_that_are_built() {
    let built = include_str!("../../examples/ecosystem/Cargo.lock");
    let (table, _) = include_str!("../../docs/guide.md").split_once("\nAccording to").unwrap();
    let words: Vec<_> = table.split(|c: char| c.is_whitespace() || ",:|".contains(c)).collect();
    let is_full = |word: &str| word.split('.').count() == 3 && word.split('.').all(|part| part.parse::<u32>().is_ok());
    let mut versions = 0;
    for pair in words.windows(2).filter(|pair| is_full(pair[1])) {
        let locked = format!("name = \"{}\"\nversion = \"{}\"\n", pair[0].replace('\\', ""), pair[1]);
        assert!(built.contains(&locked), "{} {} is not built", pair[0], pair[1]);
        versions += 1;
    }
    assert!(versions >= 10, "{versions} versions");
}
