//! Where a run was made and with what, and what it took of the machine.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

/// The day, as `2026-11-22`, in UTC.
pub fn today() -> String {
    let output = Command::new("date").args(["-u", "+%F"]).output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).trim().to_owned()
}

/// `processor, 2 cores, Linux 6.18, rustc 1.95.0`; what cannot be found out is said to be unknown.
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

/// `tokio 1.54.1, tick 0.8.0`, by the lock file that this was built with.
pub fn versions(names: &[&str]) -> String {
    const LOCK: &str = include_str!("../../Cargo.lock");
    let version = |name: &&str| {
        let line = format!("name = \"{name}\"");
        let version = LOCK.lines().skip_while(|other| *other != line).nth(1).and_then(|line| line.split('"').nth(1));
        format!("{name} {}", version.unwrap_or("?"))
    };
    names.iter().map(version).collect::<Vec<_>>().join(", ")
}

/// Memory that the process has resident, in bytes; `None` on systems that do not say.
pub fn resident() -> Option<u64> {
    // Exact, unlike the counters in /proc/self/statm.
    let all = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// How long a thread ran, and how long it was ready to run and had no processor.
#[derive(Debug, Default, Clone, Copy)]
struct Times {
    ran: Duration,
    waited: Duration,
}

/// What the threads of this process had taken when it was made.
#[derive(Debug)]
pub struct Meter(HashMap<OsString, Times>);

impl Meter {
    /// `None` on systems that do not say.
    pub fn start() -> Option<Self> {
        threads().map(Meter)
    }

    /// The processor time taken since then by the threads that have not ended.
    ///
    /// Not the sum over all threads before and after: some of those before may have ended.
    pub fn used(&self) -> Option<Duration> {
        let before = |thread| self.0.get(thread).copied().unwrap_or_default().ran;
        Some(threads()?.iter().map(|(thread, now)| now.ran.saturating_sub(before(thread))).sum())
    }
}

/// How long the threads there are have waited for a processor since each began.
pub fn waited() -> Option<Duration> {
    threads().map(|threads| threads.values().map(|times| times.waited).sum())
}

fn threads() -> Option<HashMap<OsString, Times>> {
    let mut threads = HashMap::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        // A thread may end meanwhile.
        let Ok(line) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let mut nanos = line.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        let times = Times { ran: nanos.next()?.ok()?, waited: nanos.next()?.ok()? };
        threads.insert(thread.file_name(), times);
    }
    // If the kernel does not count there is no file, and so no thread.
    (!threads.is_empty()).then_some(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        let versions = versions(&["tokio", "no-such-crate"]);
        assert!(versions.starts_with("tokio 1.") && versions.ends_with("no-such-crate ?"), "{versions}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_takes_processor_time_and_memory() {
        let meter = Meter::start().unwrap();
        while meter.used().unwrap() < Duration::from_millis(2) {}
        assert!(resident().unwrap() > 100_000 && waited().is_some());
        assert!(system().contains("cores, Linux ") && today().len() == "2026-11-22".len());
    }
}
