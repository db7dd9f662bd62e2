//! Behaviour that users see, with one module per subject. Tests that need a process to themselves are in `tests/alone`.

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
