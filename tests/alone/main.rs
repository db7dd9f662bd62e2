//! Tests that need a process to themselves. Each runs in a copy of this program that runs nothing else.

use std::any::type_name;
#[cfg(target_os = "linux")]
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

#[path = "../common/mod.rs"]
mod common;

#[cfg(target_os = "linux")] // No other system's alarms take a file.
mod files;
#[cfg(unix)]
mod fork;
#[cfg(target_has_atomic = "64")] // Otherwise tokio does not count parks.
mod idle;
#[cfg(target_os = "linux")]
mod limits;
mod max_pending;
mod memory;
#[cfg(feature = "test-util")]
mod nested;
mod postponed;
#[cfg(target_os = "linux")]
mod reads;
mod runtimes;
mod silence;
#[cfg(target_os = "linux")]
mod threads;

/// This environment variable is set in a copy.
const ALONE: &str = "HAIRSPRING_ALONE";

/// Runs the body of a test in a copy of this program, and returns the copy's error output. Fails if it hangs.
fn alone<T: FnOnce() + Send + 'static>(body: T) -> String {
    in_copy::<T>(Command::new(env::current_exe().unwrap()), body)
}

/// Runs the body of a test in a copy that may open only 64 files.
#[cfg(target_os = "linux")]
fn with_few_files<T: FnOnce() + Send + 'static>(body: T) {
    in_copy::<T>(in_shell("ulimit -n 64"), body);
}

/// Runs the body of a test in a copy that forks. If these signals are not ignored, the standard library locks a list of
/// threads to start one. A child whose parent held that lock at the fork hangs.
#[cfg(unix)]
fn forking<T: FnOnce() + Send + 'static>(body: T) {
    in_copy::<T>(in_shell("trap '' SEGV BUS"), body);
}

/// A copy of this program that starts after a command of the shell.
#[cfg(unix)]
fn in_shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{command} && exec \"$@\""), "sh"]).arg(env::current_exe().unwrap());
    shell
}

/// The folders in `/proc` of this process's threads whose names begin so. Linux truncates names to 15 characters, and
/// other systems have no such folders.
fn threads_named(begin: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc/self/task").into_iter().flatten().flatten().map(|thread| thread.path());
    all.filter(|thread| fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with(begin))).collect()
}

/// Whether a thread sleeps. Takes its folder in `/proc`.
#[cfg(target_os = "linux")]
fn sleeps(thread: &Path) -> bool {
    let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

/// Runs `body` in the given copy. The test's name comes from `T`, a closure such as `alone::idle::a_test::{{closure}}`.
fn in_copy<T>(mut copy: Command, body: impl FnOnce() + Send + 'static) -> String {
    if env::var_os(ALONE).is_some() {
        common::must_end(body);
        return String::new();
    }
    let name = type_name::<T>().trim_start_matches("alone::").trim_end_matches("::{{closure}}");
    let copy = copy.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
    let [printed, errors] = [copy.stdout, copy.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(copy.status.success(), "{errors}");
    assert!(printed.contains("1 passed"), "there is no test {name}");
    errors
}
