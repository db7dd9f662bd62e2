//! Behaviour that users see, with one module per subject.
//!
//! | what | where |
//! |---|---|
//! | a sleep is never early, and ready at its deadline; resets; its waker | `sleep`, `reset`, `wakers` |
//! | timeouts, intervals, budgets of tasks | `timeout`, `interval`, `budget` |
//! | data that came before a limit is read; the order within a pass | `one_pass`, `alone::{limits, reads}` |
//! | no task holds up the sleeps of others | `starvation` |
//! | each runtime, several, none, and those that have ended | `runtimes`, `shutdown`, `alone::{nested, runtimes}` |
//! | names and behaviour are tokio's | `drop_in`, `fuzz::current`, `tokio_facts`, `tests/drop_in` |
//! | settings of a timer, and what it counts | `alarms`, `resolution`, `max_pending`, `metrics`, `metrics_facade` |
//! | queues and maps; what their drops may do | `delay_queue`, `deadline_map`, `drops` |
//! | streams, connections, deadlines | `stream`, `timeout_stream`, `deadline` |
//! | cancelled and postponed timers | `cancelled`, `alone::postponed` |
//! | other crates | `hyper`, `tower`, `tracing`, `cancellation_token` |
//! | errors, traits, huge values | `errors`, `traits`, `longest` |
//! | `boot` and `wall` | `clocks`, `test_time::{boot, wall}` |
//! | paused clocks, bubbles, manual clocks | `test_time` |
//! | threads, files, memory, forks, output, idleness | `alone` |
//! | random programs against models, and on the system's clock | `fuzz`, `real_time`, `alone::reads` |
//! | documents, architecture, dependencies | `repository` |
//!
//! Those of `alone` need a process to themselves. Tests of internals are in the source files.

#[path = "../common/mod.rs"]
mod common;

mod alarms;
mod budget;
#[cfg(feature = "tokio-util")]
mod cancellation_token;
mod cancelled;
mod clocks;
mod deadline;
mod deadline_map;
mod delay_queue;
mod drop_in;
mod drops;
mod errors;
mod fuzz;
#[cfg(feature = "hyper")]
mod hyper;
mod interval;
mod longest;
mod max_pending;
mod metrics;
#[cfg(all(feature = "metrics", feature = "test-util"))]
mod metrics_facade;
mod one_pass;
mod real_time;
mod reset;
mod resolution;
mod runtimes;
mod shutdown;
mod sleep;
mod starvation;
mod stream;
mod timeout;
mod timeout_stream;
mod tokio_facts;
#[cfg(feature = "tower")]
mod tower;
#[cfg(feature = "tracing")]
mod tracing;
mod traits;
mod wakers;

/// Without all features, `cargo test` lists this test as ignored.
macro_rules! needs_all_features {
    ($($feature:literal $name:ident)+) => {$(
        #[cfg(not(feature = $feature))]
        #[test]
        #[ignore = "needs --all-features"]
        fn $name() {}
    )+};
}

needs_all_features! {
    "hyper" hyper
    "metrics" metrics_facade
    "test-util" test_clock
    "tokio-util" cancellation_token
    "tower" tower
    "tracing" tracing
}
