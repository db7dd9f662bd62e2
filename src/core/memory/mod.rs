//! A timer: an engine and its shards, for as long as one timer uses them, and the turns over all of them.

mod lease;
mod pool;
mod turn;

pub(crate) use self::lease::{Owner, TimerGuard, TimerHooks, TimerLease};
