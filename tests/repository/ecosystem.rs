//! docs/guide.md is true: its snippets with other crates are parts of programs in `examples`.

use std::fs;
use std::path::Path;

/// The lines of a source file, without indentation.
fn dedented(source: &str) -> String {
    source.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

/// The programs of `examples` and `examples/ecosystem`.
fn programs() -> Vec<String> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let folders = ["", "ecosystem/crates/src/bin", "ecosystem/tools/src/bin"].map(|folder| examples.join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let programs = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    programs.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// `.ci/run` and `examples/ecosystem/run` run these programs. A bug that this page had: the snippet for axum did not
/// compile, as it lacked a `use` that the program had. One with `use` lines is therefore all of a module.
#[test]
fn each_part_of_a_snippet_is_in_a_program() {
    let programs: Vec<_> = programs().iter().map(|program| dedented(program)).collect();
    let has = |text: &str| programs.iter().any(|program| program.contains(text));
    let page = include_str!("../../docs/guide.md");
    let (mut modules, mut parts) = (0, 0);
    for rest in page.split("```rust,ignore\n").skip(1) {
        let snippet = dedented(rest.split_once("```").unwrap().0);
        if snippet.starts_with("use ") {
            assert!(has(&format!(" {{\n{snippet}}}\n")), "no program has a module of just this:\n{snippet}");
            modules += 1;
            continue;
        }
        for part in snippet.split("\n\n") {
            assert!(has(part.trim_end()), "no program has this:\n{part}");
            parts += 1;
        }
    }
    assert!(modules >= 1 && parts >= 4, "{modules} modules, {parts} parts");
}

/// Checks the versions that the page gives in full.
#[test]
fn the_page_names_the_versions_that_are_built() {
    let built = include_str!("../../examples/ecosystem/Cargo.lock");
    let (table, _) = include_str!("../../docs/guide.md").split_once("\n### axum").unwrap();
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
