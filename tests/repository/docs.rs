//! Checks what the documents say about the repository.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The pages in the root and in `docs`.
fn documents(root: &Path) -> Vec<PathBuf> {
    let folders = [root.to_owned(), root.join("docs")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
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

/// The targets of a document's links and images, those that are defined on a line of their own too.
fn links(document: &str) -> Vec<String> {
    // What is between backticks is code.
    let prose: Vec<String> =
        outside_of_blocks(document).iter().map(|line| line.split('`').step_by(2).collect()).collect();
    let targets = prose.join("\n");
    let inline = targets.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let defined =
        targets.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    inline.chain(defined).map(str::to_owned).collect()
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
    assert!(count > 40, "{count} links");
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

/// Each crate that `tests/drop_in/run` takes has a row in the table, with that version.
#[test]
fn the_crates_whose_tests_are_run_are_in_the_table() {
    let (list, page) = (include_str!("../drop_in/crates"), include_str!("../../docs/drop_in.md"));
    let crates: Vec<Vec<&str>> = list
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_alphabetic()))
        .map(|line| line.split(' ').collect())
        .collect();
    let others = crates.iter().filter(|listed| !["tokio", "tokio-util"].contains(&listed[0])).count();
    assert!(others >= 15, "{others} crates beside tokio and tokio-util");
    for listed in crates {
        let row = format!("| {} | {} |", listed[0], listed[1]);
        assert!(page.contains(&row), "docs/drop_in.md has no row {row}");
    }
}

#[test]
fn the_test_that_readme_shows_is_one_that_is_run() {
    let (_, test) = include_str!("readme.rs").split_once("\n\n").expect("a line on what it is comes first");
    assert!(include_str!("../../README.md").contains(test));
}

/// What DESIGN.md has between backticks, outside of blocks.
fn named_in_the_design(root: &Path) -> Vec<String> {
    let design = fs::read_to_string(root.join("DESIGN.md")).unwrap();
    let prose = outside_of_blocks(&design).join("\n");
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The files in `src`, and the folders in it.
fn sources(root: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut files, mut folders, mut next) = (Vec::new(), vec![root.join("src")], 0);
    while let Some(folder) = folders.get(next) {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let (inner, listed): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        files.extend(listed);
        folders.extend(inner);
        next += 1;
    }
    (files, folders)
}

/// DESIGN.md names functions, types and fields as they are in the code.
#[test]
fn what_the_design_names_is_in_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = sources(root).0.into_iter().chain([root.join("Cargo.toml")]);
    let texts: Vec<String> = texts.map(|path| fs::read_to_string(path).unwrap()).collect();
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let words: HashSet<&str> = texts.iter().flat_map(|text| text.split(|c| !is_of_a_name(c))).collect();
    let named = named_in_the_design(root);
    let is_path = |name: &&String| name.chars().all(|c| is_of_a_name(c) || c == ':');
    let paths: Vec<_> = named.iter().filter(is_path).flat_map(|path| path.split("::")).collect();
    let gone: Vec<_> = paths.iter().filter(|name| !words.contains(*name)).collect();
    assert!(paths.len() > 40 && gone.is_empty(), "{} names, not in src: {gone:?}", paths.len());
}

/// A file may be named from `src` on.
#[test]
fn the_files_that_the_design_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = named_in_the_design(root);
    let files: Vec<_> = named.iter().filter(|name| name.contains('/')).collect();
    let exists = |name: &&&String| root.join(name).exists() || root.join("src").join(name).exists();
    let gone: Vec<_> = files.iter().filter(|name| !exists(name)).collect();
    assert!(files.len() > 8 && gone.is_empty(), "{} files, not there: {gone:?}", files.len());
}

/// Its table has a row for each folder of `src`, and for no other.
#[test]
fn the_design_says_what_each_folder_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let src = root.join("src");
    let (_, folders) = sources(root);
    let folders = folders.iter().filter(|path| path.parent() == Some(&src));
    let folders: BTreeSet<_> = folders.map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    let design = fs::read_to_string(root.join("DESIGN.md")).unwrap();
    let rows: BTreeSet<_> =
        design.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(folder, _)| folder).collect();
    assert_eq!(rows, folders);
}

/// The file that a path such as `it::sleep::a_test` or `core::models::timer` leads to, and the name that is left.
fn file_of(root: &Path, path: &str) -> Option<(PathBuf, Option<String>)> {
    let names: Vec<&str> = path.split("::").collect();
    (1..=names.len()).rev().find_map(|length| {
        let module = names[..length].join("/");
        let files = ["tests", "src"].map(|folder| root.join(folder).join(&module));
        let files =
            files.iter().flat_map(|file| [file.with_extension("rs"), file.join("mod.rs"), file.join("main.rs")]);
        let name = names.get(length..).and_then(|rest| rest.last()).map(|name| (*name).to_owned());
        files.into_iter().find(|file| file.exists()).map(|file| (file, name))
    })
}

/// TESTING.md names tests by their paths.
#[test]
fn the_tests_that_the_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let testing = fs::read_to_string(root.join("TESTING.md")).unwrap();
    let prose = outside_of_blocks(&testing).join("\n");
    let named: Vec<&str> = prose.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
    let is_path = |name: &&str| name.chars().all(|c| c.is_lowercase() || c.is_numeric() || "_:".contains(c));
    let paths: Vec<&str> = named.into_iter().filter(is_path).filter(|path| !path.ends_with("::x")).collect();
    assert!(paths.len() > 15, "{} paths", paths.len());
    for path in paths {
        let (file, test) = file_of(root, path.trim_end_matches("::")).unwrap_or_else(|| panic!("no file for {path}"));
        let source = fs::read_to_string(&file).unwrap();
        let is_there =
            |name: &String| source.contains(&format!("fn {name}(")) || source.contains(&format!("mod {name}"));
        assert!(test.as_ref().is_none_or(is_there), "{} has no {path}", file.display());
    }
}
