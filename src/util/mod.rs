//! What every other folder may use: locks and atomics that loom can model, caught panics, statics that survive a fork,
//! what a runtime has enabled, what a thread waits for, names, random numbers, and the
//! errors.

pub(crate) mod catch_panic;
pub(crate) mod enabled;
pub mod error;
pub(crate) mod fair_mutex;
pub(crate) mod per_process;
#[cfg(feature = "test-util")]
pub(crate) mod random;
pub(crate) mod sync;
pub(crate) mod waits;
