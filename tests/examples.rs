//! The examples that take options list them, and name an option that is wrong.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The examples that the current features allow, each with its options.
fn examples() -> Vec<(&'static str, &'static [&'static str])> {
    let mut examples: Vec<(_, &[_])> = vec![
        ("idle_connections", &["--connections", "--seconds", "--idle-ms"]),
        ("lateness", &["--seconds", "--svg", "--alarm", "--resolution-us", "--blocked"]),
        ("retransmit", &["--loss"]),
        ("sessions", &["--clients", "--beats", "--idle-ms"]),
        ("soak", &["--seconds", "--minutes", "--peak", "--bound-ms", "--seed"]),
    ];
    if cfg!(feature = "hyper") {
        examples.push(("http_server", &["--clients", "--requests", "--slow", "--silent", "--limit-ms", "--seconds"]));
    }
    if cfg!(feature = "test-util") {
        examples.push(("retry_with_backoff", &["--runs"]));
    }
    examples
}

/// An example, built with the current features.
fn example(name: &str) -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let examples = BUILT.get_or_init(|| {
        let features = [
            ("hyper", cfg!(feature = "hyper")),
            ("metrics", cfg!(feature = "metrics")),
            ("test-util", cfg!(feature = "test-util")),
            ("tower", cfg!(feature = "tower")),
            ("tracing", cfg!(feature = "tracing")),
        ];
        let features: Vec<_> = features.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name).collect();
        // Where `cargo test` has built them already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("CARGO_BUILD_TARGET");
        cargo.args(["build", "--examples", "--features", &features.join(","), "--target-dir"]).arg(target);
        let built = cargo.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/examples")
    });
    Command::new(examples.join(name).with_extension(std::env::consts::EXE_EXTENSION))
}

#[test]
fn an_example_that_is_asked_for_help_says_which_options_it_takes() {
    for (name, options) in examples() {
        let output = example(name).arg("--help").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains(&format!("Usage: {name} [OPTIONS]")), "{name}: {help}");
        for option in options.iter().chain(&["--help"]) {
            assert!(help.contains(&format!("\n  {option} ")), "{name} does not mention {option}: {help}");
        }
    }
}

#[test]
fn an_example_that_is_given_a_wrong_option_names_it_and_what_is_allowed() {
    for (name, options) in examples() {
        for (arguments, named) in [(&["--no-such", "1"][..], "`--no-such`"), (&[options[0], "none"], "`none`")] {
            let output = example(name).args(arguments).output().unwrap();
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{name} {arguments:?}: {error}");
            let allowed = if named == "`none`" { "allowed: a whole number from " } else { options[0] };
            assert!(error.contains(named) && error.contains(allowed), "{name} {arguments:?}: {error}");
        }
    }
}

/// A hundred runs of a second each looked like a program that hangs.
#[cfg(feature = "test-util")]
#[test]
fn a_long_run_shows_that_it_goes_on() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::sync::mpsc;

    let mut runs = example("retry_with_backoff").args(["--runs", "10000"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(runs.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, shown) = mpsc::channel();
    std::thread::spawn(move || {
        lines.filter(|line| line.contains(" of 10000 runs")).for_each(|line| drop(sender.send(line)));
    });
    let first = shown.recv_timeout(common::HUNG);
    runs.kill().unwrap();
    runs.wait().unwrap();
    first.expect("a line on how far it is");
}
