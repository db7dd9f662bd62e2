//! How much memory the program holds, counted where it is allocated.
//!
//! What is resident says little: of the memory that was freed, the allocator keeps more in one wave and less in another.

use std::alloc::System;

use stats_alloc::StatsAlloc;
use tools::machine::resident;

#[global_allocator]
static ALLOCATOR: StatsAlloc<System> = StatsAlloc::system();

/// The most that may be held while no sleep is pending. If one in a hundred sleeps were lost, it would be less than is
/// held after six waves of a million.
pub(crate) const ALLOWED: u64 = 8 << 20;

/// The most in the course of the run, in bytes.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) held: u64,
    /// Held while no sleep was pending.
    pub(crate) left: u64,
    /// Zero on systems that do not say.
    pub(crate) resident: u64,
}

impl Memory {
    pub(crate) fn now(are_pending: bool) -> Memory {
        let stats = ALLOCATOR.stats();
        // They are read one after the other.
        let held = stats.bytes_allocated.saturating_sub(stats.bytes_deallocated) as u64;
        Memory { held, left: if are_pending { 0 } else { held }, resident: resident().unwrap_or(0) }
    }

    pub(crate) fn max(self, other: Memory) -> Memory {
        Memory {
            held: self.held.max(other.held),
            left: self.left.max(other.left),
            resident: self.resident.max(other.resident),
        }
    }
}
