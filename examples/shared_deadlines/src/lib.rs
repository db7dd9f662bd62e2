//! Delayed jobs that outlive the processes that handle them: in Redis, with the next minute of them in each worker's
//! [`DeadlineMap`](hairspring::DeadlineMap). `docs/shared_deadlines.md` says how it works and what it guarantees.

mod queue;
mod worker;

pub use queue::{Job, Queue};
pub use worker::Worker;
