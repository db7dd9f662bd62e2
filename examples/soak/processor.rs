//! How long the threads of this process were ready to run and had no processor: what no timer can make up for.

use std::fs;
use std::time::Duration;

/// The sum over the threads there are, since each began; `None` on systems that do not tell.
pub(crate) fn waited() -> Option<Duration> {
    let mut sum = Duration::ZERO;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end meanwhile.
        let Ok(line) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        sum += Duration::from_nanos(line.split_whitespace().nth(1)?.parse().ok()?);
    }
    (!sum.is_zero()).then_some(sum)
}
