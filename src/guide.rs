//! Which type to use, what to tune, recipes, other crates, production.
//!
// Of two definitions of a link the first wins: the pages' own are for code hosts.
//! [dependencies]: crate::guide::migrating#moving-your-dependencies-too
//!
#![doc = include_str!("../docs/guide.md")]
//!
//! # See also
//!
#![cfg_attr(feature = "hyper", doc = "- [`hyper::HyperTimer`](crate::hyper::HyperTimer).")]
#![cfg_attr(feature = "tower", doc = "- [`tower::TimeoutLayer`](crate::tower::TimeoutLayer).")]
//! - [`timeout_at`](crate::timeout_at), [`Sleep::reset_at`](crate::Sleep::reset_at),
//!   [`io::TimeoutStream`](crate::io::TimeoutStream), [`Deadline`](crate::Deadline), [`DeadlineMap`](crate::DeadlineMap),
//!   [`Timer::builder`](crate::Timer::builder).
//!
//! This module exists only in the documentation. It has no items for programs to use.

/// Moving from `tokio::time`, and from tokio-util's queue and timeouts.
///
/// [crates]: crate::guide#other-crates
/// [process]: crate::guide::process
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
/// - The [guide](crate::guide).
pub mod migrating {}

/// What you can rely on, and what not.
///
/// [forks]: crate::guide::process#forks
///
#[doc = include_str!("../docs/promises.md")]
pub mod promises {}

/// Threads, files, tasks and memory of the crate in your process, and where it runs.
///
#[doc = include_str!("../docs/process.md")]
pub mod process {}
