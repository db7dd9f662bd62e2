//! Delayed jobs of many processes that outlive each of them, and the machine: in Redis, with the next minute of them in
//! each worker's [`DeadlineMap`](hairspring::DeadlineMap). `docs/shared_deadlines.md` says how it works and what it guarantees.

mod queue;
mod worker;

pub use queue::{Batch, Claimed, Queue};
pub use worker::{Job, Worker};
