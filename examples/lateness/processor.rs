//! The processor time that this process uses, as Linux counts it.
//!
//! `benches/rivals` uses this file too.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::time::Duration;

/// What each thread had used at the start. Of `/proc/self/stat`, the sum is to be had in hundredths of a second only.
pub(crate) struct Meter(HashMap<OsString, Duration>);

impl Meter {
    /// `None` on systems that have no such count.
    pub(crate) fn start() -> Option<Self> {
        read_threads().map(Meter)
    }

    /// What has been used since the start by threads that have not ended.
    pub(crate) fn used(&self) -> Option<Duration> {
        let before = |thread| self.0.get(thread).copied().unwrap_or_default();
        Some(read_threads()?.iter().map(|(thread, now)| now.saturating_sub(before(thread))).sum())
    }
}

fn read_threads() -> Option<HashMap<OsString, Duration>> {
    let mut threads = HashMap::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        // A thread may end meanwhile.
        let Ok(line) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let nanos = line.split_whitespace().next()?.parse().ok()?;
        threads.insert(thread.file_name(), Duration::from_nanos(nanos));
    }
    // Where the kernel does not count there is no file, and so no thread.
    (!threads.is_empty()).then_some(threads)
}
