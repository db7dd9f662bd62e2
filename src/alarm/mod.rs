//! How the driver is woken at an instant.
//!
//! [`thread`] is the default: precise, and in need of nothing. [`tokio`] serves while a test has tokio's clock paused,
//! because it is tokio's own timers that make a paused clock move on.
//!
//! Must not know: wheel, shards.

pub(crate) mod thread;
pub(crate) mod tokio;
