//! How to use this crate, how to tune it, and how it works.
#![doc = include_str!("../docs/guide.md")]
//!
//! # See also
//! - [`migrating`]: moving from `tokio::time` and tokio-util. [`drop_in`]: tests of crates that moved. [`whole_graph`]:
//!   moving dependencies. [`cookbook`]: recipes. [`ecosystem`]: other crates.
#![cfg_attr(feature = "test-util", doc = "- [`test_util`](crate::test_util): testing with time.")]
//! - Sleeping: [`sleep`](crate::sleep()), [`sleep_until`](crate::sleep_until),
//!   [`Sleep::reset_at`](crate::Sleep::reset_at).
//! - Timeouts: [`timeout`](crate::timeout()), [`timeout_at`](crate::timeout_at), [`FutureExt`](crate::FutureExt).
//! - Deadlines: [`Deadline`](crate::Deadline), [`DeadlineExceeded`](crate::DeadlineExceeded). Connections:
//!   [`TimeoutStream`](crate::io::TimeoutStream).
//! - Intervals: [`interval`](crate::interval()), [`interval_at`](crate::interval_at),
//!   [`MissedTickBehavior`](crate::MissedTickBehavior).
//! - Other clocks: [`boot`](crate::boot), [`wall`](crate::wall). Streams: [`StreamExt`](crate::StreamExt).
//! - Queues: [`DelayQueue`](crate::DelayQueue). Keyed deadlines: [`DeadlineMap`](crate::DeadlineMap),
//!   [`Expirations`](crate::Expirations).
//! - Tuning: [`Builder`](crate::timer::Builder), [`Alarm`](crate::timer::Alarm), [`Metrics`](crate::timer::Metrics),
//!   [`Timer::try_sleep`](crate::Timer::try_sleep).
//! - The wheel: [`wheel`](crate::wheel).
//!
//! This module exists only in the documentation. It has no items for programs to use.

/// Moving from `tokio::time`, and from tokio-util's queue and timeouts.
///
#[doc = include_str!("../docs/migrating.md")]
///
/// # See also
/// - Replacements for tokio's items: the [crate](crate)'s root, [`DelayQueue`](crate::DelayQueue),
///   [`FutureExt`](crate::FutureExt).
/// - Only in this crate: [`Sleep::reset_at`](crate::Sleep::reset_at), [`DeadlineMap`](crate::DeadlineMap),
///   [`Timer::builder`](crate::Timer::builder).
/// - [The tests of published crates](crate::guide::drop_in), before and after.
/// - [Moving the dependencies too](crate::guide::whole_graph).
/// - The [guide](crate::guide) and the [cookbook](crate::guide::cookbook).
pub mod migrating {}

/// The tests of published crates, before and after a move to this crate.
///
#[doc = include_str!("../docs/drop_in.md")]
///
/// # See also
/// - [Migrating](crate::guide::migrating).
pub mod drop_in {}

/// Moving the timers of dependencies too, with rewritten copies of them.
///
#[doc = include_str!("../docs/whole_graph.md")]
///
/// # See also
/// - [Migrating](crate::guide::migrating).
pub mod whole_graph {}

/// Recipes: debounce, throttle, retries, heartbeat, rate limit, cache expiry, cancellation, graceful shutdown.
///
#[doc = include_str!("../docs/cookbook.md")]
///
/// # See also
/// - [`timeout_at`](crate::timeout_at), [`sleep`](crate::sleep()), [`sleep_until`](crate::sleep_until),
///   [`Sleep::reset_at`](crate::Sleep::reset_at), [`interval`](crate::interval()), [`StreamExt`](crate::StreamExt),
///   [`DelayQueue`](crate::DelayQueue), [`DeadlineMap`](crate::DeadlineMap).
/// - The [guide](crate::guide).
pub mod cookbook {}

/// Crates that accept a timer, and how to give them this one.
///
#[doc = include_str!("../docs/ecosystem.md")]
///
/// # See also
#[cfg_attr(feature = "hyper", doc = "- [`hyper::HyperTimer`](crate::hyper::HyperTimer).")]
#[cfg_attr(feature = "tower", doc = "- [`tower::TimeoutLayer`](crate::tower::TimeoutLayer).")]
/// - [`io::TimeoutStream`](crate::io::TimeoutStream), [`Deadline`](crate::Deadline). The [guide](crate::guide).
pub mod ecosystem {}
