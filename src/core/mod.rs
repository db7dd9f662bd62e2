//! The engine below all futures: shards, turns, drivers, alarms, and the registry of each runtime's timer.

pub(crate) mod alarm;
pub(crate) mod capacity;
pub(crate) mod coalesce;
pub(crate) mod driver;
pub(crate) mod engine;
pub(crate) mod epoch;
pub(crate) mod helpers;
pub(crate) mod jumps;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod models;
pub(crate) mod parker;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod shard;
pub(crate) mod statistics;
pub(crate) mod wake_list;
