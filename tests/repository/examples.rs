//! The example `idle_connections` explains its options and shows its progress.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;

/// The example `idle_connections`, built with the same features as this program.
fn example() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let example = BUILT.get_or_init(|| {
        macro_rules! enabled {
            ($($feature:literal),*) => {
                [$(if cfg!(feature = $feature) { concat!("hairspring/", $feature) } else { "" }),*].join(",")
            };
        }
        let features = enabled!("hyper", "metrics", "test-util", "tokio-util", "tower", "tracing");
        // `cargo test` has already built it there.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("CARGO_BUILD_TARGET");
        cargo.args(["build", "--example", "idle_connections", "--features", &features, "--target-dir"]);
        let built = cargo.arg(target).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        target.join("debug/examples/idle_connections").with_extension(std::env::consts::EXE_EXTENSION)
    });
    Command::new(example)
}

/// A bug that this crate had: examples rejected `--help`, or printed nothing during a long run.
#[test]
fn an_example_explains_its_options() {
    let output = example().arg("--help").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    for part in ["Usage: idle_connections [OPTIONS]", "\n  --connections N ", "\n  --help "] {
        assert!(help.contains(part), "{part} is not in {help}");
    }
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

#[test]
fn a_long_run_shows_its_progress() {
    let mut run = example().args(["--connections", "5"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    let (sender, shown) = mpsc::channel();
    thread::spawn(move || {
        lines.filter(|line| line.trim_start().starts_with("2 s: ")).for_each(|line| drop(sender.send(line)));
    });
    let line = shown.recv_timeout(crate::common::HUNG);
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(line.expect("a line on its progress").contains(" timers armed, "));
}
