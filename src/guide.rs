//! The guide: which item to use, and what to tune. The pages below have the rest.
//!
#![doc = include_str!("../docs/guide.md")]
//!
//! This module exists only in the documentation. It has no items for programs to use.
// Of two definitions of a link the first wins: the pages' own are for code hosts.

/// Moving from `tokio::time`, and from tokio-util's queue and timeouts.
///
/// [drop_in]: crate::guide::drop_in
/// [ecosystem]: crate::guide::ecosystem
/// [process]: crate::guide::process
/// [whole_graph]: crate::guide::whole_graph
#[cfg_attr(feature = "test-util", doc = "[testing]: crate::test_util")]
#[cfg_attr(not(feature = "test-util"), doc = "[testing]: crate#features")]
///
#[doc = include_str!("../docs/migrating.md")]
///
/// # See also
///
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
/// [migrating]: crate::guide::migrating
///
#[doc = include_str!("../docs/drop_in.md")]
///
/// # See also
///
/// - [Migrating](crate::guide::migrating).
pub mod drop_in {}

/// Moving the timers of dependencies too, with rewritten copies of them.
///
#[doc = include_str!("../docs/whole_graph.md")]
///
/// # See also
///
/// - [Migrating](crate::guide::migrating).
pub mod whole_graph {}

/// Recipes: debounce, throttle, retries, heartbeat, rate limit, cache expiry, cancellation, graceful shutdown.
///
#[doc = include_str!("../docs/cookbook.md")]
///
/// # See also
///
/// - [`timeout_at`](crate::timeout_at), [`sleep`](crate::sleep()), [`sleep_until`](crate::sleep_until),
///   [`Sleep::reset_at`](crate::Sleep::reset_at), [`interval`](crate::interval()), [`StreamExt`](crate::StreamExt),
///   [`DelayQueue`](crate::DelayQueue), [`DeadlineMap`](crate::DeadlineMap).
/// - The [guide](crate::guide).
pub mod cookbook {}

/// Crates that accept a timer, and how to give them this one.
///
/// [whole_graph]: crate::guide::whole_graph
///
#[doc = include_str!("../docs/ecosystem.md")]
///
/// # See also
///
#[cfg_attr(feature = "hyper", doc = "- [`hyper::HyperTimer`](crate::hyper::HyperTimer).")]
#[cfg_attr(feature = "tower", doc = "- [`tower::TimeoutLayer`](crate::tower::TimeoutLayer).")]
/// - [`io::TimeoutStream`](crate::io::TimeoutStream), [`Deadline`](crate::Deadline). The [guide](crate::guide).
pub mod ecosystem {}

/// Counts and alarms for programs in production.
///
#[doc = include_str!("../docs/operating.md")]
pub mod operating {}

/// Where the crate runs, and what differs there.
///
#[doc = include_str!("../docs/platforms.md")]
pub mod platforms {}

/// Threads, files, tasks and memory of the crate in your process.
///
#[doc = include_str!("../docs/process.md")]
pub mod process {}
