//! Timers for tokio programs. To move from `tokio::time`, change the `use` line:
//!
//! ```
//! use hairspring::{Duration, sleep, timeout};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! sleep(Duration::from_millis(1)).await;
//! assert!(timeout(Duration::from_millis(1), std::future::pending::<()>()).await.is_err());
//! # }
//! ```
//!
//! Names, signatures and behaviour are tokio's, with two exceptions: [`Instant`] is a separate type that converts to
//! and from tokio's, and some behaviour differs, as listed in [Migrating](guide::migrating).
//!
//! Timers wait in hierarchical timing wheels, one per worker thread, and one tokio task per runtime fires them. What it
//! costs to register or cancel a timer hardly depends on the number of threads or timers.
//!
//! Deadlines have nanosecond resolution. A timer never fires early, and usually fires within a fraction of a
//! millisecond after its deadline. As with tokio, it fires only after its runtime has looked at its sockets: no limit
//! passes on a read whose data has come. Any duration is accepted. A limit of more than 500
//! years has no timer, and such a sleep ends after 500 years.
//!
//! # Overview
//!
//! | to | use |
//! |---|---|
//! | wait | [`sleep`](sleep()), [`sleep_until`] |
//! | limit how long a future takes | [`timeout`](timeout()), [`timeout_at`], [`FutureExt`] |
//! | run something periodically | [`interval`](interval()), [`interval_at`] |
//! | time out, throttle, debounce or batch the items of a stream | [`StreamExt`] |
//! | include the time that the machine is suspended | [`boot`] |
//! | wait for a time of day | [`wall`] |
//! | get values back when they are due | [`DelayQueue`] |
//! | expire keys unless they are touched | [`DeadlineMap`] |
//! | drop idle or slow connections | [`io::TimeoutStream`] |
//! | share one time budget across calls | [`Deadline`] |
//! | configure, measure, limit or shut down a timer | [`Timer`], [`Timer::builder`] |
//! | test without waiting | `pause`, `advance` and `test_util`, with the feature `test-util` |
//! | build your own timer | [`wheel::Wheel`] |
//!
//! # Further reading
//!
//! - [The guide](guide): an overview.
//! - [Migrating](guide::migrating) from `tokio::time` and from tokio-util.
//! - [The cookbook](guide::cookbook): debounce, throttle, retries, heartbeat, rate limit, cache expiry, cancellation,
//!   graceful shutdown.
//! - [Other crates](guide::ecosystem) that can use these timers.
//!
//! # Features
//!
//! No feature is on by default. If the compiler cannot find one of these names, its feature is off. The compiler says
//! so for modules, types and functions, but not for methods.
//!
//! - `test-util`: control over time in tests, for `[dev-dependencies]`. It adds `pause`, `resume`, `advance`, the
//!   module `test_util` and `timer::Builder::clock`. Arming a timer takes a few per cent longer.
//! - `hyper`: `hyper::HyperTimer`, a timer for hyper 1.
//! - `tower`: `tower::TimeoutLayer` and `tower::Timeout`, which limit how long a request takes.
//! - `tracing`: spans of sleeps, timeouts and intervals for tokio-console and similar tools, with the target
//!   `hairspring` at level `TRACE`. It adds no names.
//! - `metrics`: counts and lateness for the crate `metrics`. It adds `timer::Reporter`, and the method `reporter` of
//!   [`Timer`], [`DeadlineMap`] and [`DelayQueue`].
//! - `tokio-util`: `with_cancellation_token` and `with_cancellation_token_owned` of [`FutureExt`].
//!
//! # Panics
//!
//! A future of this crate panics if it has to wait on a [`Timer`] that is at capacity or was shut down. [`TrySleep`],
//! [`Timeout::fallible`], [`Interval::fallible`], [`io::TimeoutStream`] and `tower::TimeoutLayer` return an error
//! instead. Outside a runtime, a future waits on the process's own timer. On WebAssembly there is no thread to run that
//! timer, so a future that has to wait outside a runtime panics.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod collections;
mod core;
mod deadline;
/// The errors of this crate. [`Elapsed`] and [`DeadlineExceeded`] are at the root, too.
///
/// All are `Clone`, `PartialEq`, `Eq`, `Send` and `Sync`. All but [`TryInsertError`] and [`GrpcTimeoutError`] convert
/// to an [`io::Error`](std::io::Error).
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Timer, error::Elapsed};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::builder().build().unwrap();
/// let late = timer.timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
/// assert_eq!(late, Err(Elapsed::new()));
/// timer.shutdown();
/// assert!(timer.try_sleep(Duration::from_secs(60)).await.unwrap_err().is_shutdown());
/// # }
/// ```
///
/// [`TryInsertError`]: error::TryInsertError
/// [`GrpcTimeoutError`]: error::GrpcTimeoutError
pub mod error {
    #[doc(inline)]
    pub use crate::collections::deadline_map::builder::TryInsertError;
    #[doc(inline)]
    pub use crate::deadline::{DeadlineExceeded, GrpcTimeoutError};
    #[doc(inline)]
    pub use crate::io::limits::LimitExceeded;
    pub use crate::util::error::{BuildError, Elapsed, Error};
}
mod future;
#[cfg(any(doc, doctest))]
pub mod guide;
/// Integrations with other crates, each behind a feature.
mod integration {
    #[cfg(feature = "hyper")]
    pub mod hyper;
    #[cfg(feature = "metrics")]
    pub(crate) mod metrics;
    #[cfg(feature = "tower")]
    pub mod tower;
}
pub mod io;
pub mod stream;
#[cfg(feature = "test-util")]
pub mod test_util;
pub mod timer;
mod util;
pub mod wheel;

pub use std::time::Duration;

pub use crate::clock::Instant;
pub use crate::collections::deadline_map;
pub use crate::collections::deadline_map::expirations::Expirations;
pub use crate::collections::deadline_map::map::DeadlineMap;
// tokio-util has `DelayQueue` at both paths, too.
pub use crate::collections::delay_queue::{self, DelayQueue};
pub use crate::deadline::{Deadline, DeadlineExceeded};
pub use crate::future::{
    FutureExt, Interval, MissedTickBehavior, Sleep, Time, Timeout, TryInterval, TrySleep, boot, interval, interval_at,
    sleep, sleep_until, timeout, timeout_at, wall,
};
#[cfg(feature = "hyper")]
pub use crate::integration::hyper;
#[cfg(feature = "tower")]
pub use crate::integration::tower;
pub use crate::stream::ext::StreamExt;
#[cfg(feature = "test-util")]
pub use crate::test_util::{
    pause::{pause, resume},
    settle::advance,
};
pub use crate::timer::handle::Timer;
// `Elapsed` has a second path: tokio has it in `error`, and it is the one error of most programs.
pub use crate::util::error::Elapsed;

/// The examples of README.md.
#[cfg(all(doctest, feature = "test-util"))]
#[doc = include_str!("../README.md")]
struct Readme;
