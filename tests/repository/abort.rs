//! Programs that abort on panics. A test cannot be such a program, so these tests build the package in `tests/abort`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Mutex;

use crate::common::must_end;

/// Builds a program and returns its path.
fn build(program: &str, features: &str) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _lock = ONE_AT_A_TIME.lock();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = root.join("tests/abort");
    // Use the versions that are already downloaded.
    let _ = fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"));
    // `cargo test` has already built some of the dependencies there.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--bin", program, "--features", features, "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env_remove("CARGO_BUILD_TARGET")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug").join(program).with_extension(std::env::consts::EXE_EXTENSION)
}

/// Runs a program. Returns its exit status and its error output.
fn run(program: PathBuf, arguments: &'static [&str]) -> (ExitStatus, String) {
    let output = must_end(move || Command::new(program).args(arguments).output().unwrap());
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Bugs that this crate had: with `test-util`, the first sleep aborted the program. Without it, trying a `timerfd` did.
#[test]
fn timers_do_not_panic_on_any_runtime() {
    for (program, features) in [("abort_plain", ""), ("abort_test_util", "test-util")] {
        let (status, printed) = run(build(program, features), &[]);
        assert!(status.success(), "with {features:?} it ended with {status}: {printed}");
        assert_eq!(printed, "", "with {features:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_impossible_alarm_aborts_with_the_reason() {
    use std::os::unix::process::ExitStatusExt;

    let (status, printed) = run(build("abort_plain", ""), &["--false-word"]);
    assert!(status.signal().is_some(), "it ended with {status}");
    assert!(printed.contains("`enable_io`"), "{printed}");
}
