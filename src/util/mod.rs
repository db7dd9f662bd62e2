//! The base of all other folders: locks, atomics and statics, caught panics, thread states, and the errors.

pub(crate) mod error;
pub(crate) mod panics;
pub(crate) mod sync;
pub(crate) mod waits;
