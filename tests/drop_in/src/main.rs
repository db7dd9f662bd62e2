//! Runs the tests of published crates before and after they move to hairspring: see `--help`.

mod cargo;
mod copies;
mod listed;
mod outcome;
mod table;
mod timers;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use cargo::Cargo;
use copies::Switched;
use listed::Listed;
use outcome::Outcome;
use table::Row;

const HELP: &str = "\
Usage: tests/drop_in/run [--write] [TIMES] [CRATE]..
       tests/drop_in/run --timers

Downloads the crates that tests/drop_in/crates lists, or only those named, and runs their tests in four ways: unchanged,
and with migrate applied to all paths, only to those in the sources, and only to those in the tests. Prints a row of
tests/drop_in/results.csv for each, and checks that the differences are those in the list.

  TIMES     how often to run each; 3 by default
  --write   also write the rows, their totals and the compiler into tests/drop_in/results.csv, and print the totals
  --timers  only what tokio, tokio-util and tokio-stream themselves test of timers: the files in the list, switched,
            once, each file for at most two minutes; builds in CARGO_TARGET_DIR, or else in target
  --help    print this

Without --timers it builds in target/drop_in, which takes some gigabytes, and two or three hours for all crates on two
cores. Exits with 1 if the differences are not those in the list or a crate could not be tested, and with 2 on bad
arguments.
";

/// Enough for the largest crate on a busy machine.
const BUILD_SECONDS: u32 = 1_200;
const TEST_SECONDS: u32 = 300;

fn main() -> ExitCode {
    let mut write = false;
    let mut only_timers = false;
    let mut times = 3;
    let mut names = Vec::new();
    for argument in env::args().skip(1) {
        match (&*argument, argument.parse()) {
            ("--help" | "-h", _) => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            ("--write", _) => write = true,
            ("--timers", _) => only_timers = true,
            (_, Ok(1..=100)) => times = argument.parse().expect("it has just been parsed"),
            _ => names.push(argument),
        }
    }
    let result = match only_timers {
        true if env::args().len() > 2 => Err("`--timers` takes no other arguments".to_owned()),
        true => run_timers(),
        false => run(write, times, &names),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The folder of this program, that of hairspring, and the list.
fn read() -> Result<(&'static Path, PathBuf, Vec<Listed>), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..").canonicalize().map_err(|error| error.to_string())?;
    let list = here.join("crates");
    let list = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    Ok((here, root, listed::read(&list)?))
}

/// Returns whether all differences were as listed.
fn run_timers() -> Result<bool, String> {
    let (_, root, listed) = read()?;
    let target = root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()));
    let out = root.join("target/drop_in");
    // No flags: others share what is built.
    let surprises = timers::run(&Cargo { root, out, target, flags: "" }, &listed)?;
    for surprise in &surprises {
        println!("BAD: {surprise}");
    }
    Ok(surprises.is_empty())
}

/// Returns whether all differences were as listed.
fn run(write: bool, times: usize, names: &[String]) -> Result<bool, String> {
    let (here, root, listed) = read()?;
    for name in names {
        if !listed.iter().any(|listed| listed.name == *name) {
            let allowed: Vec<&str> = listed.iter().map(|listed| &*listed.name).collect();
            let allowed = allowed.join(", ");
            return Err(format!("`{name}` is no option, no number from 1 to 100, and none of the crates {allowed}"));
        }
    }
    let out = root.join("target/drop_in");
    // Newer compilers have warnings that the authors may have denied.
    let cargo = Cargo { target: out.join("build"), out, root, flags: "--cap-lints=allow" };
    let mut is_good = true;
    for listed in listed.iter().filter(|listed| names.is_empty() || names.contains(&listed.name)) {
        match row(&cargo, listed, times) {
            Ok((row, surprises)) => {
                println!("{row}");
                for surprise in surprises {
                    println!("BAD: {}: {surprise}", listed.name);
                    is_good = false;
                }
                if write {
                    println!("{}", table::write(&here.join("results.csv"), &row)?);
                }
            }
            Err(error) => {
                println!("BAD: {}: {error}", listed.name);
                is_good = false;
            }
        }
    }
    Ok(is_good)
}

/// Runs the tests of a crate. Returns its row of the table, and the differences from the list.
fn row(cargo: &Cargo, listed: &Listed, times: usize) -> Result<(Row, Vec<String>), String> {
    println!("== {} {}", listed.name, listed.version);
    let sources = copies::fetch(cargo, listed)?;
    let copy = |switched| copies::copy(cargo, listed, &sources, switched).map_err(|error| error.to_string());
    let before = test(cargo, listed, &copy(Switched::Nothing)?.0, times)?;
    println!("before: {}", before.summary());
    if !before.compiles() {
        return Err("does not compile as it is".to_owned());
    }
    for test in before.failed() {
        println!("  fails: {test}");
    }
    let mut differences = BTreeSet::new();
    let mut test_switched = |switched: Switched, folder: &Path, paths: usize| {
        let after = test(cargo, listed, folder, times)?;
        println!("{}: {}, {paths} paths", switched.name(), after.summary());
        differences.extend(after.fails_unlike(&before).into_iter().map(|test| format!("{}:{test}", switched.name())));
        Ok::<Outcome, String>(after)
    };
    let most = if listed.only_tests { Switched::Tests } else { Switched::All };
    let (folder, all_paths) = copy(most)?;
    let after = test_switched(most, &folder, all_paths)?;
    if !listed.only_tests {
        for switched in [Switched::Sources, Switched::Tests] {
            let (folder, paths) = copy(switched)?;
            // If one of them has all paths, this is the same as switching all.
            if paths > 0 && paths < all_paths {
                test_switched(switched, &folder, paths)?;
            }
        }
    }
    let row = Row::new(listed, &before, &after, times)?;
    let known = || listed.differs.iter().chain(&listed.sometimes);
    let is_listed = |test: &String| known().any(|(name, _)| test.ends_with(&**name));
    let unlisted = differences.iter().filter(|test| !is_listed(test)).map(|test| format!("differs: {test}"));
    let differs = |name: &str| differences.iter().any(|test| test.ends_with(name));
    let stale = listed.differs.iter().filter(|(name, _)| !differs(name));
    let stale = stale.map(|(name, _)| format!("listed, but no longer differs: {name}"));
    Ok((row, unlisted.chain(stale).collect()))
}

/// Builds and runs the tests in a folder.
fn test(cargo: &Cargo, listed: &Listed, folder: &Path, times: usize) -> Result<Outcome, String> {
    let given: Vec<&str> = listed.arguments.iter().map(|argument| &**argument).collect();
    let arguments = [&["test", "--no-fail-fast"], &*given].concat();
    // In front, because what is given may end with arguments for the tests.
    let build = [&["test", "--no-run"], &*given].concat();
    if let Err(error) = cargo.build(folder, &build, BUILD_SECONDS)?.succeeded() {
        println!("{error}");
        return Ok(Outcome::default());
    }
    let mut outcome = Outcome::default();
    for _ in 0..times {
        let ran = cargo.run(folder, &arguments, TEST_SECONDS)?;
        outcome.add(&ran.printed);
        if ran.was_stopped() {
            println!("stopped after {TEST_SECONDS} seconds");
        }
    }
    Ok(outcome)
}
