//! [`Counts`] and [`Snapshot`]: what a shard has done and holds.

use crate::core::lateness::Lateness;
use crate::wheel::LEVELS;

/// What became of the entries of a shard. An entry that neither fired nor is pending was cancelled.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) registered: u64,
    pub(crate) fired: u64,
    pub(crate) pending: u64,
    pub(crate) cascaded: u64,
}

/// What a shard, or all of a timer, has done and holds. See [`Metrics`](crate::timer::Metrics).
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    pub(crate) counts: Counts,
    pub(crate) lateness: Lateness,
    /// For each level, a bit for each slot that has entries.
    pub(crate) occupancy: [u64; LEVELS],
}

impl Snapshot {
    pub(crate) fn empty() -> Self {
        Snapshot { counts: Counts::default(), lateness: Lateness::new(), occupancy: [0; LEVELS] }
    }
}
