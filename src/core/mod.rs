//! What arms, waits and fires, below every future: a timer's shards, the parking of its driver, the alarms, and the registry
//! that knows which timer a thread's runtime has.

pub(crate) mod alarm;
pub(crate) mod capacity;
pub(crate) mod driver;
pub(crate) mod holders;
pub(crate) mod hub;
pub(crate) mod lateness;
#[cfg(test)]
pub(crate) mod models;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod shard;
pub(crate) mod signal;
pub(crate) mod stand_ins;
pub(crate) mod task;
