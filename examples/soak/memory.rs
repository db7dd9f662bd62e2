//! How much memory this process has in use.

use std::fmt::{self, Display};
use std::fs;

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resident(u64);

/// What may be resident at the end beyond what was after the first waves: a part of that, and so much in any case.
///
/// What is resident after a wave is what the allocator keeps of the memory that was freed, and how much that is differs
/// from wave to wave: a hundred megabytes of some 200, at a peak of a million sleeps. It does not grow with the number
/// of waves, as a leak would: one in a hundred of the sleeps, lost in each wave, is more than this in forty waves.
const SLACK_PART: u64 = 4;
const SLACK: Resident = Resident(16 << 20);

impl Resident {
    /// `None` on systems that do not tell.
    pub(crate) fn now() -> Option<Self> {
        let status = fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(Resident(kilobytes << 10))
    }

    /// The most that is allowed at the end, where this was resident after the first waves.
    pub(crate) fn most_at_end(self) -> Resident {
        Resident(self.0 + self.0 / SLACK_PART + SLACK.0)
    }
}

impl Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", (self.0 + (1 << 19)) >> 20)
    }
}
