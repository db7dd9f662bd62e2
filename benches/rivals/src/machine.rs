//! Where a run was made, and with what.

use std::fs;
use std::process::Command;
use std::thread;

/// Those whose versions are told.
const RIVALS: [&str; 7] = ["hairspring", "tokio", "pingora-timeout", "async-io", "futures-timer", "tokio-util", "tick"];

/// All of it in one line.
pub fn line() -> String {
    format!("{}; {}", system(), versions())
}

/// Processor, cores, kernel and compiler.
pub fn system() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores, Linux {}, {}", processor(), kernel(), compiler())
}

/// Versions of the rivals.
pub fn versions() -> String {
    RIVALS.map(|name| format!("{name} {}", version_of(name))).join(", ")
}

fn processor() -> String {
    let all = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = all.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| "unknown processor".to_owned(), |(_, name)| name.trim().to_owned())
}

fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn compiler() -> String {
    let told = Command::new("rustc").arg("--version").output().ok();
    let told = told.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    told.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// From the lock file that this was built with.
fn version_of(name: &str) -> &'static str {
    const LOCK: &str = include_str!("../Cargo.lock");
    let mut lines = LOCK.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    lines.nth(1).and_then(|line| line.split('"').nth(1)).unwrap_or("?")
}

/// Memory that the process has resident, in bytes.
pub fn resident() -> f64 {
    // Exact, unlike the counters in /proc/self/statm.
    let all = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux tells of a process's memory");
    let line = all.lines().find_map(|line| line.strip_prefix("Rss:")).expect("there is a line for resident memory");
    1024.0 * line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number")
}

/// Processor time that all threads of the process have used, in nanoseconds. Threads that have ended do not count.
pub fn processor_time() -> f64 {
    let threads = fs::read_dir("/proc/self/task").expect("Linux tells of a process's threads");
    let of_one = |path: std::path::PathBuf| {
        let all = fs::read_to_string(path.join("schedstat")).ok()?;
        all.split(' ').next()?.parse::<f64>().ok()
    };
    threads.flatten().filter_map(|thread| of_one(thread.path())).sum()
}
