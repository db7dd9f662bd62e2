//! What is wrong in a `#[hairspring::test]` is told where it is. The package `tests/attribute` has the wrong tests, and
//! says what the compiler must say of each.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::files;

/// An error: the file, line and column where it begins, its length if that is known, and its message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    place: String,
    length: Option<usize>,
    message: String,
}

impl Fault {
    fn is_as(&self, expected: &Fault) -> bool {
        let is_as_long = expected.length.is_none() || self.length == expected.length;
        self.place == expected.place && is_as_long && self.message.starts_with(&expected.message)
    }
}

/// The comments in a file that say what must be wrong in the line before. Carets are below it; an arrow is below its
/// beginning.
fn expected(path: &Path) -> Vec<Fault> {
    let (mut line, mut faults) = (0, Vec::new());
    for (number, text) in (1..).zip(fs::read_to_string(path).unwrap().lines()) {
        let comment = text.trim_start().strip_prefix("//").map(str::trim_start);
        let Some(comment) = comment.filter(|comment| comment.starts_with("<- ") || comment.starts_with('^')) else {
            line = number;
            continue;
        };
        let (mark, message) = comment.split_once(' ').unwrap();
        let column = 1 + if mark == "<-" { text.find('/') } else { text.find('^') }.unwrap();
        faults.push(Fault {
            place: format!("src/{}:{line}:{column}", path.file_name().unwrap().to_str().unwrap()),
            length: mark.starts_with('^').then_some(mark.len()),
            message: message.to_owned(),
        });
    }
    faults
}

/// The errors that the compiler has printed.
fn printed(output: &str) -> Vec<Fault> {
    let errors = output.split("\n\n").filter_map(|error| {
        let (_, message) = error.strip_prefix("error")?.lines().next()?.split_once(": ")?;
        let (_, place) = error.split_once("--> ")?;
        let carets = error.lines().find(|line| line.contains('^'))?;
        let length = carets.chars().skip_while(|c| *c != '^').take_while(|c| *c == '^').count();
        let place = place.lines().next()?.replace('\\', "/");
        Some(Fault { place, length: Some(length), message: message.to_owned() })
    });
    errors.collect()
}

#[test]
fn each_error_is_at_the_token_that_is_wrong() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = root.join("tests/attribute");
    // Use the versions that are already downloaded.
    let _ = fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"));
    let mut cargo = Command::new(env!("CARGO"));
    // `cargo test` has already built some of the dependencies there.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    cargo.current_dir(&package).args(["test", "--no-run", "--quiet", "--target-dir"]).arg(target);
    let output = cargo.env_remove("CARGO_BUILD_TARGET").env("CARGO_TERM_COLOR", "never").output().unwrap();
    let output = String::from_utf8(output.stderr).unwrap();
    let expected: BTreeSet<_> = files(&package.join("src")).iter().flat_map(|path| expected(path)).collect();
    let printed = printed(&output);
    assert!(expected.len() > 30, "{expected:?}");
    for fault in &expected {
        assert!(printed.iter().any(|printed| printed.is_as(fault)), "{fault:?} is not in:\n{output}");
    }
    for fault in printed {
        assert!(expected.iter().any(|expected| fault.is_as(expected)), "{fault:?} was not expected");
    }
}
