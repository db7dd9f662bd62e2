//! The machine and the versions of a run, and the CPU time and memory it takes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{self, Command};
use std::time::Duration;
use std::{fs, thread};

/// Today's date in UTC, such as `2026-11-22`.
pub fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

/// Such as `Intel Xeon, 2 cores, Linux 6.18, rustc 1.95.0`.
pub fn system() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let all = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = all.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processor = processor.map_or("unknown processor", |(_, name)| name.trim());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    let output = Command::new("rustc").arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let compiler = String::from_utf8_lossy(&output).into_owned();
    let compiler: Vec<&str> = compiler.split_whitespace().take(2).collect();
    format!("{processor}, {cores} cores, Linux {}, {}", kernel.trim(), compiler.join(" "))
}

/// Such as `tokio 1.54.1, tick 0.8.0`, from the lock file of this build.
pub fn versions(names: &[&str]) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let version = |name: &&str| {
        let line = format!("name = \"{name}\"");
        let version = LOCK.lines().skip_while(|other| *other != line).nth(1).and_then(|line| line.split('"').nth(1));
        format!("{name} {}", version.unwrap_or("?"))
    };
    names.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// This process's resident memory in bytes.
pub fn resident() -> u64 {
    // Exact, unlike the counters in /proc/self/statm.
    let all = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux reports memory");
    let line = all.lines().find_map(|line| line.strip_prefix("Rss:")).expect("Linux reports resident memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// Measures the CPU time of a process from the moment it is created.
#[derive(Debug)]
pub struct Meter {
    process: u32,
    /// Of each thread, in nanoseconds.
    start: HashMap<OsString, u64>,
}

impl Meter {
    pub fn start() -> Self {
        Meter::of(process::id())
    }

    pub fn of(process: u32) -> Self {
        Meter { process, start: cpu_times(process) }
    }

    /// The CPU time since then of the threads that still exist.
    ///
    /// Totals before and after would not do, because threads may have ended in between.
    pub fn used(&self) -> Duration {
        let since = |(thread, now)| u64::saturating_sub(now, self.start.get(&thread).copied().unwrap_or(0));
        Duration::from_nanos(cpu_times(self.process).into_iter().map(since).sum())
    }
}

/// How often the threads of a process have blocked.
pub fn switches(process: u32) -> u64 {
    let count = |status: String| {
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).expect("Linux counts context switches")
    };
    threads(process, "status").map(|(_, status)| count(status)).sum()
}

fn cpu_times(process: u32) -> HashMap<OsString, u64> {
    let first = |times: &str| times.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    let nanos = |(thread, times): (_, String)| (thread, first(&times).expect("the time on a CPU comes first"));
    let times: HashMap<_, _> = threads(process, "schedstat").map(nanos).collect();
    assert!(!times.is_empty(), "this kernel does not report CPU time per thread");
    times
}

/// What a file under /proc says about each thread. Threads that end while this runs are left out.
fn threads(process: u32, file: &str) -> impl Iterator<Item = (OsString, String)> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("Linux lists threads");
    threads
        .flatten()
        .filter_map(move |thread| Some((thread.file_name(), fs::read_to_string(thread.path().join(file)).ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        let versions = versions(&["tokio", "no-such-crate"]);
        assert!(versions.starts_with("tokio 1.") && versions.ends_with("no-such-crate ?"), "{versions}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_takes_cpu_time_and_memory() {
        let meter = Meter::start();
        while meter.used() < Duration::from_millis(2) {}
        assert!(resident() > 100_000 && switches(process::id()) < u64::MAX);
        assert!(system().contains("cores, Linux ") && today().len() == "2026-11-22".len());
    }
}
