//! The examples are small, and the one that takes options says which, and what is wrong with those it is given.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::{fs, thread};

/// The example `idle_connections`, built with the features that this is built with.
fn example() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let example = BUILT.get_or_init(|| {
        let features = [
            ("hyper", cfg!(feature = "hyper")),
            ("metrics", cfg!(feature = "metrics")),
            ("test-util", cfg!(feature = "test-util")),
            ("tokio-util", cfg!(feature = "tokio-util")),
            ("tower", cfg!(feature = "tower")),
            ("tracing", cfg!(feature = "tracing")),
        ];
        let features: Vec<_> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        // Where `cargo test` has built it already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("CARGO_BUILD_TARGET");
        cargo.args(["build", "--example", "idle_connections", "--features", &features.join(","), "--target-dir"]);
        let built = cargo.arg(target).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/examples/idle_connections").with_extension(std::env::consts::EXE_EXTENSION)
    });
    Command::new(example)
}

/// A bug that this crate had: examples rejected `--help`, or printed nothing during a long run.
#[test]
fn an_example_that_is_asked_for_help_says_which_options_it_takes() {
    let output = example().arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["Usage: idle_connections [OPTIONS]", "\n  --connections N ", "\n  --help "] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
}

#[test]
fn an_example_that_is_given_a_wrong_option_names_it_and_what_is_allowed() {
    for (arguments, named, allowed) in [
        (&["--no-such", "1"][..], "`--no-such`", "--connections, --help"),
        (&["--connections", "none"], "`none`", "a whole number from 1 to 10000"),
        (&["--connections", "0"], "`0`", "a whole number from 1 to 10000"),
        (&["--connections"], "--connections", "a whole number from 1 to 10000"),
    ] {
        let output = example().args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(named) && error.contains(allowed), "{arguments:?}: {error}");
    }
}

/// A run of some seconds without a word looks like a program that hangs.
#[test]
fn a_long_run_shows_that_it_goes_on() {
    let mut run = example().args(["--connections", "5"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, shown) = mpsc::channel();
    thread::spawn(move || {
        lines.filter(|line| line.trim_start().starts_with("2 s: ")).for_each(|line| drop(sender.send(line)));
    });
    let line = shown.recv_timeout(crate::common::HUNG);
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(line.expect("a line on how far it is").contains(" timers armed, "));
}

/// The Rust files in a folder and those below it, each with its number of lines.
fn sources(folder: &Path) -> Vec<(PathBuf, usize)> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                sources.extend(self::sources(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            sources.push((path, lines));
        }
    }
    sources
}

/// They are what a newcomer sees first. What grows beyond this is a tool, and has its place in `benches`.
// 10,000 since `benches` has whole services, and the timers of other worlds.
#[test]
fn examples_are_small_and_tools_are_no_larger_than_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["examples", "benches"].map(|folder| root.join(folder));
    let [examples, tools] = folders.each_ref().map(|folder| sources(folder));
    // Packages apart, which nobody builds without asking: a tool, and proofs with real servers.
    let (examples, packages): (Vec<_>, Vec<_>) =
        examples.into_iter().partition(|(path, _)| path.parent() == Some(&*folders[0]));
    for (limit, sources) in [(149, &examples), (500, &tools), (250, &packages)] {
        for (path, lines) in sources {
            assert!(*lines <= limit, "{} has {lines} lines, {limit} are allowed", path.display());
        }
    }
    let sum: usize = packages.iter().map(|(_, lines)| lines).sum();
    assert!(sum < 2_850, "{sum} lines in packages below examples");
    let sum: usize = examples.iter().chain(&tools).map(|(_, lines)| lines).sum();
    assert!(examples.len() >= 6 && sum <= 10_200, "{} examples; {sum} lines together", examples.len());
}
