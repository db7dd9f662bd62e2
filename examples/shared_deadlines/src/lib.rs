//! Delayed jobs that outlive the processes that handle them: in Redis, with the next minute of them in each worker's
//! [`DeadlineMap`](hairspring::DeadlineMap). `README.md` has its guarantees and limits.

mod queue;
mod worker;

pub use queue::{Job, Queue};
pub use worker::Worker;
