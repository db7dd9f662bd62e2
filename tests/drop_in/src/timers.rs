//! The tests of timers that tokio, tokio-util and tokio-stream publish, in one package, so that one build does for all.

use std::path::Path;
use std::{fs, io};

use hairspring_migrate::{Package, rewrite};

use crate::cargo::Cargo;
use crate::copies;
use crate::listed::Listed;
use crate::outcome::Outcome;

const BUILD_SECONDS: u32 = 600;
/// They take seconds. On a busy machine a few more, but one that waits forever does so for longer.
const FILE_SECONDS: u32 = 120;

/// The package's features are those that the tests ask for.
const MANIFEST: &str = r#"[package]
name = "timers"
version = "0.0.0"
edition = "2021"
autotests = false

[features]
default = ["full", "io-util", "join-map", "macros", "rt", "rt-multi-thread", "sync", "test-util", "time"]
full = []
io-util = []
join-map = []
macros = []
rt = []
rt-multi-thread = []
sync = []
test-util = []
time = []

[lints.rust]
warnings = "allow"

[workspace]

[dependencies]
futures = "0.3.31"
futures-test = "0.3.31"
parking_lot = "0.12"
rand = "0.9"
tokio-test = "0.4.4"
"#;

/// What `migrate` leaves to the user: the extension trait of tokio-stream has the methods of both others.
const BY_HAND: [(&str, &str); 2] = [
    (
        "use tokio_stream::{self as stream, StreamExt};",
        "use futures::StreamExt as _;\nuse hairspring::StreamExt as _;\nuse tokio_stream as stream;",
    ),
    ("use tokio_stream::StreamExt;", "use futures::StreamExt as _;\nuse hairspring::StreamExt as _;"),
];

/// Builds and runs the tests, and prints how many passed. Returns what is not as listed.
pub(crate) fn run(cargo: &Cargo, listed: &[Listed]) -> Result<Vec<String>, String> {
    let listed: Vec<&Listed> = listed.iter().filter(|listed| !listed.timers.is_empty()).collect();
    if listed.is_empty() {
        return Err("no crate in the list has `timers`".to_owned());
    }
    let package = cargo.out.join("timers");
    write_package(cargo, &listed, &package)?;
    cargo.build(&package, &["test", "--no-run"], BUILD_SECONDS)?.succeeded()?;
    let mut surprises = Vec::new();
    for listed in listed {
        let mut printed = String::new();
        for file in &listed.timers {
            let ran = cargo.run(&package, &["test", "--test", &target(listed, file)], FILE_SECONDS)?;
            let found = faults(listed, file, &ran.printed, ran.was_stopped());
            if !found.is_empty() {
                println!("{}", ran.printed);
            }
            surprises.extend(found);
            printed += &ran.printed;
        }
        let mut all = Outcome::default();
        all.add(&printed);
        surprises.extend(stale(listed, &all));
        println!("{} {}: {} tests pass, in {} files", listed.name, listed.version, all.summary(), listed.timers.len());
    }
    Ok(surprises)
}

/// What is wrong with the run of a file.
fn faults(listed: &Listed, file: &str, printed: &str, was_stopped: bool) -> Vec<String> {
    let mut outcome = Outcome::default();
    outcome.add(printed);
    let unlisted =
        outcome.failed().into_iter().filter(|test| !listed.differs.iter().any(|(name, _)| test.ends_with(name)));
    let mut faults: Vec<String> = unlisted.map(|test| format!("{}: fails: {test}", listed.name)).collect();
    let mut is_wrong = |what: &str| faults.push(format!("{}: {file} {what}", listed.name));
    if was_stopped {
        is_wrong(&format!("took longer than {FILE_SECONDS} seconds"));
    } else if !printed.lines().any(|line| line.starts_with("test result: ")) {
        is_wrong("did not end");
    } else if outcome.count() == 0 {
        is_wrong("has no tests");
    }
    faults
}

/// Tests that are listed although they do not fail. Not whether something compiles, which only the long run finds out.
fn stale(listed: &Listed, outcome: &Outcome) -> Vec<String> {
    let failed = outcome.failed();
    let names = listed.differs.iter().map(|(name, _)| name).filter(|name| !name.ends_with(":compiles"));
    let stale = names.filter(|name| !failed.iter().any(|test| test.ends_with(&***name)));
    stale.map(|name| format!("{}: listed, but does not fail: {name}", listed.name)).collect()
}

/// The name of a file's test target. Some have the same file name.
fn target(listed: &Listed, file: &str) -> String {
    format!("{}-{file}", listed.name)
}

fn write_package(cargo: &Cargo, listed: &[&Listed], package: &Path) -> Result<(), String> {
    let root = cargo.root.display();
    let mut manifest = vec![MANIFEST.to_owned()];
    manifest.push(format!("hairspring = {{ path = \"{root}\", features = [\"test-util\", \"tokio-util\"] }}\n"));
    for Listed { name, version, .. } in listed {
        let features = if name == "tokio" { "\"full\", \"test-util\"" } else { "\"full\"" };
        manifest.push(format!("{name} = {{ version = \"={version}\", features = [{features}] }}\n"));
    }
    for listed in listed {
        let Listed { name, timers, .. } = listed;
        let tests = copies::fetch(cargo, listed)?.join("tests");
        let to = package.join(name);
        for file in timers {
            manifest.push(format!("\n[[test]]\nname = \"{}\"\npath = \"{name}/{file}.rs\"\n", target(listed, file)));
            copy(&tests.join(file).with_extension("rs"), &to).map_err(|error| format!("{name}: {file}: {error}"))?;
        }
        // Modules of tests have folders of their own.
        let folders = fs::read_dir(&tests).map_err(|error| error.to_string())?.flatten().map(|entry| entry.path());
        for folder in folders.filter(|path| path.is_dir()) {
            copy(&folder, &to).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
    }
    let write = || {
        write_if_new(&package.join("Cargo.toml"), &manifest.concat())?;
        // The versions that the crate's own tests were built with, part of which a shared folder has already.
        match fs::copy(cargo.root.join("Cargo.lock"), package.join("Cargo.lock")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    };
    write().map_err(|error| format!("{}: {error}", package.display()))
}

/// Copies a file or folder into a folder, switched to hairspring.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let to = to.join(from.file_name().expect("it was found in a folder"));
    if from.is_dir() {
        return fs::read_dir(from)?.try_for_each(|entry| copy(&entry?.path(), &to));
    }
    let mut source = rewrite(&fs::read_to_string(from)?, &Package::default()).map_err(io::Error::other)?.source;
    for (import, by_hand) in BY_HAND {
        source = source.replace(import, by_hand);
    }
    if source.contains("tokio_stream::StreamExt") || source.contains("stream, StreamExt") {
        return Err(io::Error::other("it imports tokio-stream's methods in a new way, so it would not test ours"));
    }
    write_if_new(&to, &source)
}

/// Leaves alone what is the same, so that it is not built again.
fn write_if_new(file: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(file).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().expect("it is in a folder"))?;
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed;

    const PASSES: &str = "Running a/b.rs (b)\ntest one ... ok\ntest two ... FAILED\ntest result: FAILED. 1 passed\n";

    fn listed() -> Listed {
        listed::read("a 1.0.0\n    timers b\n    differs two why\n    differs sources:compiles why\n")
            .unwrap()
            .remove(0)
    }

    #[test]
    fn what_is_listed_may_differ_and_nothing_else() {
        let faults = |printed: &str, was_stopped| faults(&listed(), "b", printed, was_stopped);
        assert!(faults(PASSES, false).is_empty());
        assert_eq!(faults(&PASSES.replace("ok", "FAILED"), false), ["a: fails: a/b.rs one"]);
        assert_eq!(faults("Running a/b.rs (b)\ntest one ... ok\n", true), ["a: b took longer than 120 seconds"]);
        assert_eq!(faults("Running a/b.rs (b)\ntest one ... ok\n", false), ["a: b did not end"]);
        assert_eq!(faults("Running a/b.rs (b)\ntest result: ok. 0 passed\n", false), ["a: b has no tests"]);
    }

    #[test]
    fn what_is_listed_has_to_differ() {
        let stale = |printed: &str| {
            let mut outcome = Outcome::default();
            outcome.add(printed);
            stale(&listed(), &outcome)
        };
        assert!(stale(PASSES).is_empty());
        assert_eq!(stale(&PASSES.replace("FAILED", "ok")), ["a: listed, but does not fail: two"]);
        assert_eq!(stale(""), ["a: listed, but does not fail: two"]);
    }
}
