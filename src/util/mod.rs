//! What every other folder may use: locks and atomics that loom can model, caught panics, statics that survive a fork,
//! what a runtime has enabled, how often its workers park, what a thread waits for, names, random numbers, and the
//! errors.

pub(crate) mod catch_panic;
pub(crate) mod enabled;
pub mod error;
pub(crate) mod fair_mutex;
#[cfg(any(target_os = "linux", feature = "test-util"))]
pub(crate) mod parks;
pub(crate) mod per_process;
#[cfg(feature = "test-util")]
pub(crate) mod random;
pub(crate) mod sync;
#[cfg(target_os = "linux")]
pub(crate) mod waits;
