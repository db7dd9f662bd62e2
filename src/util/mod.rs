//! The base of all other folders: locks, atomics and statics, caught panics, thread states, and the errors.

pub(crate) mod error;
pub(crate) mod panics;
pub(crate) mod sync;
#[cfg(all(test, not(hairspring_loom)))]
pub(crate) mod testing;
pub(crate) mod waits;
