//! The folders of `src` are the architecture: each uses only the folders before it in `FOLDERS`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::files;

const FOLDERS: &str = "util wheel clock core timer future collections stream deadline io integration test_util";

/// The guide, the crate's root, and the models, which are tests.
const APART: [&str; 3] = ["guide", "lib", "models"];

/// A source file: its path in `src`, and its code, without tests and comments.
struct Source {
    path: String,
    code: String,
}

fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = |path: PathBuf| {
        let relative = path.strip_prefix(&src).unwrap();
        let names: Vec<_> = relative.iter().map(|name| name.to_str().unwrap()).collect();
        let is_apart = names.iter().any(|name| APART.contains(&name.trim_end_matches(".rs")));
        let code = code_of(&fs::read_to_string(&path).unwrap());
        (!is_apart).then(|| Source { path: names.join("/"), code })
    };
    files(&src).into_iter().filter_map(source).collect()
}

fn code_of(source: &str) -> String {
    let own = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    // A module may re-export items of another for users, and those of its own files.
    let exports =
        |line: &str| line.starts_with("pub use crate::") || line.starts_with("pub") && line.contains("use self::");
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !exports(line);
    own.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The paths after each `crate::` in `code`, one for each item of a list in braces.
fn paths_in(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for after in code.split("crate::").skip(1) {
        let end = after.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(after.len());
        let (path, rest) = after.split_at(end);
        let listed = rest.strip_prefix('{').map_or("", |list| list.split('}').next().unwrap());
        paths.extend(listed.split(',').map(|item| format!("{path}{}", item.trim())));
    }
    paths
}

fn folder_of(path: &str) -> &str {
    path.split([':', '/']).next().unwrap()
}

#[test]
fn no_folder_uses_a_later_one() {
    let place = |name: &str| FOLDERS.split(' ').position(|folder| folder == name);
    let mut arrows = 0;
    for Source { path, code } in sources() {
        let at = place(folder_of(&path)).unwrap_or_else(|| panic!("src/{path} is in none of the folders"));
        for used in paths_in(&code) {
            let Some(of) = place(folder_of(&used)) else { panic!("src/{path} uses {used}, which is in no folder") };
            assert!(of <= at, "src/{path} uses {used}, which is in a later folder");
            arrows += usize::from(of < at);
        }
    }
    assert!(arrows > 100, "{arrows} arrows");
}

/// A bug that this crate had: it did not compile for CPUs without 64-bit atomics.
#[test]
fn only_one_file_names_the_standard_librarys_64_bit_atomics() {
    let names_them = |line: &str| line.contains("std::sync::atomic") && line.contains("64");
    let files = sources().into_iter().filter(|source| source.code.lines().any(names_them));
    assert_eq!(files.map(|source| source.path).collect::<Vec<_>>(), ["util/sync.rs"]);
}

/// The file that a path leads to.
fn target<'a>(files: &BTreeMap<String, String>, path: &'a str) -> Option<String> {
    let names: Vec<&'a str> = path.split("::").collect();
    (1..=names.len()).rev().find_map(|length| files.get(&names[..length].join("/")).cloned())
}

/// The files that each file uses.
fn uses(sources: &[Source]) -> BTreeMap<&str, Vec<String>> {
    let module = |path: &str| path.trim_end_matches(".rs").trim_end_matches("/mod").to_owned();
    let files: BTreeMap<String, String> =
        sources.iter().map(|source| (module(&source.path), source.path.clone())).collect();
    let uses = |Source { path, code }: &Source| {
        let own = module(path).replace('/', "::");
        let parent = own.rsplit_once("::").map_or("", |(parent, _)| parent);
        let beside = if path.ends_with("/mod.rs") { &own } else { parent };
        let full = code.replace("super::", &format!("crate::{beside}::")).replace("self::", &format!("crate::{own}::"));
        let used = paths_in(&full).into_iter().filter_map(|used| target(&files, &used));
        used.filter(|used| used != path).collect()
    };
    sources.iter().map(|source| (source.path.as_str(), uses(source))).collect()
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let sources = sources();
    let known = uses(&sources);
    let mut arrows = 0;
    for from in known.keys() {
        let (mut reached, mut next) = (BTreeSet::new(), vec![*from]);
        while let Some(file) = next.pop() {
            let used = known[file].iter().map(String::as_str);
            arrows += used.clone().count();
            next.extend(used.filter(|used| reached.insert(*used)));
        }
        assert!(!reached.contains(from), "src/{from} uses itself, through some of {reached:?}");
    }
    assert!(arrows > 100, "{arrows} arrows");
}

/// The arrows of the diagram in DESIGN.md: the files of the caller and of the function, and the function.
fn arrows(design: &str) -> Vec<[&str; 3]> {
    let diagram = design.split("```mermaid\nsequenceDiagram").nth(1).unwrap().split("```").next().unwrap();
    let participants: BTreeMap<_, _> =
        diagram.lines().filter_map(|line| line.trim().strip_prefix("participant ")?.split_once(" as ")).collect();
    let calls = diagram.lines().filter_map(|line| {
        let (caller, call) = line.trim().split_once("->>")?;
        let (file, function) = call.split_once(": ")?;
        Some([participants[caller], participants[file], function])
    });
    calls.collect()
}

#[test]
fn the_diagram_in_design_shows_calls_of_the_sources() {
    let (sources, design) = (sources(), include_str!("../../DESIGN.md"));
    let code = |path: &str| &sources.iter().find(|source| source.path == path).expect(path).code;
    let arrows = arrows(design);
    assert!(arrows.len() > 10, "{arrows:?}");
    for [caller, file, function] in arrows {
        let is_called = code(caller).split(function).skip(1).any(|rest| rest.starts_with('('));
        assert!(is_called, "{caller} does not call {function}");
        assert!(code(file).contains(&format!("fn {function}(")), "{file} has no {function}");
    }
}
