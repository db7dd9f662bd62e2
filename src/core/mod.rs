//! What all futures share: timers, from a waker that waits to the thread that looks at the time.
//!
//! The lowest first:
//!
//! - `epoch`: the number of one use of memory that timers reuse, and how many hold it.
//! - `capacity`: the limit on entries over all shards.
//! - `statistics`: how late timers fired.
//! - `wake_list`: the wakers of timers that fired.
//! - `coalesce`: delays turns if timers are dense.
//! - `parker`: the handshake between who waits for the earliest deadline and who registers one.
//! - `helpers`: the helper thread, for work that may be user code.
//! - `alarm`: what starts a turn on time: the alarm thread, a `timerfd`, or a sleep of tokio's.
//! - `settings`: the validated configuration of a timer.
//! - `engine`: when a timer's next turn begins, and what starts it. It knows no shard.
//! - `shard`: what waits: one lock around one wheel of wakers. It reports to its engine.
//! - `memory`: who uses an engine and its shards: a timer, from its start to its end, and its turns over all shards.
//! - `driver`: the task of a timer in a runtime.
//! - `tasks`: this crate's own tasks, and the task that runs here.
//! - `registry`: the timers of all runtimes.
//! - `thread_shards`: a thread's shard of a timer.
//! - `jumps`: wakes tasks that wait on a clock that has jumped.

pub(crate) mod alarm;
pub(crate) mod capacity;
pub(crate) mod coalesce;
pub(crate) mod driver;
pub(crate) mod engine;
pub(crate) mod epoch;
pub(crate) mod helpers;
pub(crate) mod jumps;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod models;
pub(crate) mod parker;
pub(crate) mod registry;
pub(crate) mod settings;
pub(crate) mod shard;
pub(crate) mod statistics;
pub(crate) mod tasks;
pub(crate) mod thread_shards;
pub(crate) mod wake_list;
