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
//! Names and signatures match tokio's. [`Instant`] is a separate type that converts to and from tokio's, and a few
//! behaviours differ: see [Migrating](guide::migrating).
//!
//! Sleeps wait in hierarchical timing wheels, one per worker thread. The cost of registering or cancelling one barely
//! changes with the number of threads or sleeps.
//!
//! Deadlines have nanosecond resolution. A sleep never ends early, and usually ends within a fraction of a millisecond
//! after its deadline. On Linux the runtime's own I/O driver fires it, so a timeout never wins over data that has
//! already arrived. Any duration is accepted. A sleep of more than 500 years ends after 500 years. A limit of more than
//! 500 years never passes.
//!
//! # Overview
//!
//! | to | use |
//! |---|---|
//! | wait | [`sleep`](sleep()), [`sleep_until`] |
//! | limit how long a future may take | [`timeout`](timeout()), [`timeout_at`], [`FutureExt`] |
//! | share one time limit among several calls | [`Deadline`] |
//! | do something periodically | [`interval`](interval()), [`interval_at`] |
//! | drop slow and silent connections | [`io::TimeoutStream`] |
//! | limit HTTP headers and requests | `hyper::HyperTimer`, `tower::TimeoutLayer` |
//! | time out, pace, debounce or batch the items of a stream | [`StreamExt`] |
//! | get values back when they are due | [`DelayQueue`] |
//! | let keys expire unless they are touched | [`DeadlineMap`] |
//! | count the time during which the machine is suspended | [`boot`] |
//! | wait for a time of day | [`wall`] |
//! | configure, measure or end a timer | [`Timer`], [`Timer::builder`] |
//! | test without waiting | `pause`, `advance`, `test_util` |
//! | write your own scheduler | [`wheel::Wheel`] |
//!
//! Timers work in a tokio runtime, on another executor and on a plain thread. `pause` and `advance` need a current-thread
//! tokio runtime.
//!
//! # Further reading
//!
//! - [The guide](guide): which type to use, settings, recipes, other crates, production.
//! - [Migrating](guide::migrating) from `tokio::time`, tokio-util and tokio-stream.
//! - [Promises and limits](guide::promises), and what the crate does [in your process](guide::process).
//!
//! # Features
//!
//! No feature is on by default. If a name below is missing, enable its feature. The compiler suggests the feature for
//! modules, types and functions, but not for methods.
//!
//! - `test-util`: control over time in tests, for `[dev-dependencies]`. It adds `pause`, `resume`, `advance`, the
//!   module `test_util` and `timer::Builder::clock`. Arming a timer takes a few per cent longer.
//! - `hyper`: `hyper::HyperTimer`, a timer for hyper 1.
//! - `tower`: `tower::TimeoutLayer`, which limits how long a request takes.
//! - `tokio-util`: `with_cancellation_token` and `with_cancellation_token_owned` of [`FutureExt`].
//! - `metrics`: counts and lateness for the crate `metrics`. It adds `timer::Reporter`, and the method `reporter` of
//!   [`Timer`], [`DeadlineMap`] and [`DelayQueue`].
//! - `tracing`: spans of sleeps, timeouts and intervals for tokio-console and similar tools, with the target
//!   `hairspring` at level `TRACE`. It adds no names.
//!
//! # Panics
//!
//! Outside `test_util`, a future of this crate panics in four cases:
//!
//! - It has to wait on a [`Timer`] that is at its limit or was shut down. [`TrySleep`], whatever was made `fallible`, and
//!   [`io::TimeoutStream`] return an error instead, and after a shutdown `tower::TimeoutLayer` answers with one.
//! - It has to wait, and the current runtime was shut down, as with tokio.
//! - It starts the process's first timer, and the system refuses a thread.
//! - It has to wait outside a runtime, on WebAssembly.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod collections;
mod core;
mod deadline;
/// The errors of this crate, but for [`DeadlineExceeded`], which is at the root. [`Elapsed`] is there, too.
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
    pub use crate::deadline::GrpcTimeoutError;
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
