//! The documents' statements about the repository are true.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::files;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The paths in a folder.
fn entries(folder: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}

/// The pages of the repository, by path.
fn documents() -> Vec<(PathBuf, String)> {
    let below = ["docs", "examples", "benches", "migrate"].into_iter().flat_map(|folder| files(&root().join(folder)));
    let pages = entries(root()).chain(below);
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|path| (path.clone(), read(path))).collect()
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

/// The text between backticks in a document, outside code blocks.
fn code_in(document: &str) -> Vec<String> {
    outside_of_blocks(document).join("\n").split('`').skip(1).step_by(2).map(str::to_owned).collect()
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

/// The targets of a document's links and images, including those defined on a separate line.
fn links(document: &str) -> Vec<String> {
    let prose: Vec<String> =
        outside_of_blocks(document).iter().map(|line| line.split('`').step_by(2).collect()).collect();
    let targets = prose.join("\n");
    let inline = targets.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let defined =
        targets.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    inline.chain(defined).map(str::to_owned).collect()
}

/// Links to items do not work on code hosts, so there must be none.
#[test]
fn links_between_documents_lead_to_a_file_and_heading() {
    let mut count = 0;
    for (path, document) in documents() {
        let name = path.strip_prefix(root()).unwrap().display();
        for link in links(&document).into_iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{name} links to {link}: there is no {file}");
            if let Some(anchor) = anchor {
                let is_there = anchors(&read(target)).iter().any(|heading| heading == anchor);
                assert!(is_there, "{name} links to {link}: no such heading");
            }
            count += 1;
        }
        for line in outside_of_blocks(&document) {
            let to_items = line.split("[`").skip(1).filter(|rest| !rest.contains("`](") && rest.contains("`]"));
            assert_eq!(to_items.count(), 0, "{name} links to an item: {line}");
        }
    }
    assert!(count > 40, "{count} links");
}

/// `tests/drop_in/crates` lists the crates.
#[test]
fn the_drop_in_results_have_a_row_for_each_crate() {
    let (list, results) = (read("tests/drop_in/crates"), read("tests/drop_in/results.csv"));
    let crates = list.lines().filter(|line| line.starts_with(|c: char| c.is_alphabetic()));
    let crates: Vec<Vec<&str>> = crates.map(|line| line.split(' ').collect()).collect();
    assert!(crates.len() >= 17, "{} crates", crates.len());
    for listed in crates {
        let row = format!("{},{},", listed[0], listed[1]);
        assert!(results.lines().any(|line| line.starts_with(&row)), "results.csv has no row {row}");
    }
}

#[test]
fn readme_counts_the_tests_of_the_published_crates() {
    let results = read("tests/drop_in/results.csv");
    let mut rows: Vec<(&str, Vec<u32>)> = results
        .lines()
        .skip(1)
        .map(|row| {
            let mut cells = row.split(',');
            let name = cells.next().unwrap();
            (name, cells.skip(1).take(3).map(|cell| cell.parse().unwrap()).collect())
        })
        .collect();
    let (name, total) = rows.pop().unwrap();
    assert_eq!(name, "total");
    let sum = |count: fn(&[u32]) -> u32| rows.iter().map(|(_, counts)| count(counts)).sum::<u32>();
    // Tests that passed only after the move do not count.
    let (all, before, both) = (sum(|row| row[0]), sum(|row| row[1]), sum(|row| row[1].min(row[2])));
    assert_eq!(total, [all, before, both]);
    let thousands = |count: u32| format!("{},{:03}", count / 1_000, count % 1_000);
    let [before, both] = [before, both].map(thousands);
    for (page, said) in [
        ("README.md", format!("pass {both} of the {before} tests")),
        ("docs/migrating.md", format!("Of the {before} tests that pass before, {both} pass after")),
    ] {
        let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&said), "{page} does not say that they {said}");
        assert!(text.contains(&format!("{} published crates", rows.len())), "{page} counts other crates");
    }
}

#[test]
fn readme_and_the_crates_root_name_every_feature() {
    let manifest = read("Cargo.toml");
    let (_, features) = manifest.split_once("\n[features]\n").unwrap();
    let (features, _) = features.split_once("\n[").unwrap();
    let features: Vec<_> = features.lines().filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
    assert!(features.len() >= 6, "{features:?}");
    for feature in features {
        assert!(read("README.md").contains(&format!("\n| `{feature}` | ")), "README.md has no feature {feature}");
        assert!(read("src/lib.rs").contains(&format!("\n//! - `{feature}`: ")), "lib.rs has no feature {feature}");
    }
}

#[test]
fn the_page_of_examples_names_each() {
    let page = read("examples/README.md");
    let mut count = 0;
    for path in entries(root().join("examples")) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() && name != "target" || path.extension().is_some_and(|extension| extension == "rs") {
            assert!(page.contains(&format!("\n| [{name}](")), "examples/README.md does not name {name}");
            count += 1;
        }
    }
    assert!(count > 5, "{count} examples");
}

/// Of sleeps, in milliseconds, as README says it.
#[test]
fn readme_has_the_lateness_that_was_measured() {
    let results = read("benches/rivals/results/late.csv");
    let mut rows = results.lines().skip(1).map(|line| {
        // Some cells are in quotes, with commas inside.
        let cells = line.split('"').enumerate().flat_map(|(n, part)| {
            let inside = n % 2 == 1;
            if inside { vec![part] } else { part.split(',').filter(|cell| !cell.is_empty()).collect() }
        });
        cells.collect::<Vec<_>>()
    });
    let heads = rows.next().unwrap();
    let p50 = heads.iter().position(|head| *head == "p50").unwrap();
    let rows: Vec<_> = rows.collect();
    let median = |scenario: &str, contender: &str| {
        let row = rows.iter().find(|row| row[0] == scenario && row[1] == contender).expect(scenario);
        let (number, unit) = row[p50].split_once(' ').unwrap();
        let millis = number.parse::<f64>().unwrap() / if unit == "ms" { 1.0 } else { 1_000.0 };
        // One digit that counts, or two from 1 ms on.
        if millis < 0.1 { format!("{millis:.2}") } else { format!("{millis:.1}") }
    };
    let [least, most] = ["1 task, 2 workers", "1000 tasks, 2 workers"].map(|scenario| median(scenario, "hairspring"));
    let tokios = median("50 tasks, 2 workers", "tokio::time");
    let said = format!("the median sleep ends {least} to {most} ms late, and {tokios} ms late with tokio");
    let readme = read("README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(readme.contains(&said), "README.md does not say that {said}");
}

/// DESIGN.md names functions, types, fields and files. File paths start in `src` or in the root.
#[test]
fn everything_that_design_names_exists() {
    let named = code_in(&read("DESIGN.md"));
    let texts: Vec<String> =
        files(&root().join("src")).into_iter().chain([root().join("Cargo.toml")]).map(read).collect();
    let is_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    let words: HashSet<&str> = texts.iter().flat_map(|text| text.split(|c| !is_of_a_name(c))).collect();
    let is_path = |name: &&String| name.chars().all(|c| is_of_a_name(c) || c == ':');
    let items: Vec<_> = named.iter().filter(is_path).flat_map(|path| path.split("::")).collect();
    let gone: Vec<_> = items.iter().filter(|name| !words.contains(*name)).collect();
    assert!(items.len() > 30 && gone.is_empty(), "{} names, not in src: {gone:?}", items.len());

    let files: Vec<_> = named.iter().filter(|name| name.contains('/')).collect();
    let exists = |name: &&&String| root().join(name).exists() || root().join("src").join(name).exists();
    let gone: Vec<_> = files.iter().filter(|name| !exists(name)).collect();
    assert!(files.len() > 8 && gone.is_empty(), "{} files, not there: {gone:?}", files.len());
}

#[test]
fn design_has_a_row_for_each_folder() {
    let design = read("DESIGN.md");
    let folders = entries(root().join("src")).filter(|path| path.is_dir());
    let folders: BTreeSet<_> = folders.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let rows = design.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let rows: BTreeSet<_> = rows.map(|(folder, _)| folder.to_owned()).collect();
    assert_eq!(rows, folders);
}

/// The file that a path such as `it::sleep::a_test` or `core::models::timer` leads to, and the rest of the path.
fn file_of(path: &str) -> Option<(PathBuf, Option<String>)> {
    let names: Vec<&str> = path.split("::").collect();
    (1..=names.len()).rev().find_map(|length| {
        let module = names[..length].join("/");
        let files = ["tests", "src"].map(|folder| root().join(folder).join(&module));
        let mut files =
            files.iter().flat_map(|file| [file.with_extension("rs"), file.join("mod.rs"), file.join("main.rs")]);
        let name = names.get(length..).and_then(|rest| rest.last()).map(|name| (*name).to_owned());
        files.find(|file| file.exists()).map(|file| (file, name))
    })
}

#[test]
fn the_tests_that_the_promises_name_exist() {
    let named = code_in(&read("docs/promises.md"));
    let is_path = |name: &&String| name.chars().all(|c| c.is_lowercase() || c.is_numeric() || "_:".contains(c));
    let is_named = |name: &&String| name.contains("::") && !name.ends_with("::x");
    let paths: Vec<_> = named.iter().filter(is_path).filter(is_named).collect();
    assert!(paths.len() > 10, "{} paths", paths.len());
    for path in paths {
        let (file, test) = file_of(path.trim_end_matches("::")).unwrap_or_else(|| panic!("no file for {path}"));
        let source = read(&file);
        let is_there =
            |name: &String| source.contains(&format!("fn {name}(")) || source.contains(&format!("mod {name}"));
        assert!(test.as_ref().is_none_or(is_there), "{} has no {path}", file.display());
    }
}
