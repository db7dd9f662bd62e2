//! The base of all other folders: locks, atomics and statics, code that may panic, what a thread waits for, and the
//! errors.

pub mod error;
pub(crate) mod panics;
pub(crate) mod sync;
pub(crate) mod waits;
