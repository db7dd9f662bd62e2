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
//! | test without waiting | `#[hairspring::test]`, `pause`, `advance`, `test_util` |
//! | write your own scheduler | [`wheel::Wheel`] |
//!
//! Timers work in a tokio runtime, on another executor and on a plain thread. `pause` needs a current-thread tokio
//! runtime, and `advance` that or a bubble.
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
//!   module `test_util`, the attribute `test` and `timer::Builder::clock`. Arming a timer takes a few per cent longer.
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
//! Outside `test_util`, a future of this crate panics in five cases:
//!
//! - It has to wait on a [`Timer`] that is at its limit or was shut down. [`TrySleep`], whatever was made `fallible`, and
//!   [`io::TimeoutStream`] return an error instead, and after a shutdown `tower::TimeoutLayer` answers with one.
//! - It has to wait, and the current runtime was shut down, as with tokio.
//! - It starts the process's first timer, and the system refuses a thread.
//! - It has to wait outside a runtime, on WebAssembly.
//! - It has to wait on a paused clock, in a runtime without `enable_time`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod collections;
mod core;
mod deadline;
/// The errors of this crate. [`DeadlineExceeded`] is at the root, and [`Elapsed`] in both places.
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
pub use crate::deadline::ext::FutureExt;
pub use crate::deadline::{Deadline, DeadlineExceeded};
pub use crate::future::{
    Interval, MissedTickBehavior, Sleep, Time, Timeout, TryInterval, TrySleep, boot, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at, wall,
};
#[cfg(feature = "hyper")]
pub use crate::integration::hyper;
#[cfg(feature = "tower")]
pub use crate::integration::tower;
pub use crate::stream::ext::StreamExt;
/// Makes an `async fn` a test that runs in a [`Bubble`](test_util::Bubble): on its own runtime, with a clock that skips
/// the waiting.
///
/// A test that fails, for it waits for something that never happens:
/// ```rust,test_harness
/// #[hairspring::test(patience = "100ms")]
/// #[should_panic(expected = "test `nobody_answers`: deadlock")]
/// async fn nobody_answers() {
///     let (_sender, answer) = tokio::sync::oneshot::channel::<()>();
///     answer.await.unwrap();
/// }
/// ```
///
/// ```rust,test_harness
/// use hairspring::{Duration, Instant, sleep};
///
/// #[hairspring::test(workers = 2)]
/// async fn an_hour_passes() {
///     let start = Instant::now();
///     sleep(Duration::from_secs(3_600)).await; // returns immediately
///     assert_eq!(start.elapsed(), Duration::from_secs(3_600));
/// }
/// ```
///
/// The function may return whatever a `#[test]` may, such as a `Result`. Other attributes, such as `#[ignore]` and
/// `#[should_panic]`, work as usual. Messages of the bubble begin with the test's name.
///
/// # Arguments
///
/// Each is a setting of [`Bubble`](test_util::Bubble), and may be left out.
///
/// | argument | value | without it |
/// |---|---|---|
/// | [`workers`](test_util::Bubble::workers) | the number of a multi-thread runtime's workers, at least 1 | a current-thread runtime on tokio's clock |
/// | [`limit`](test_util::Bubble::limit) | a duration on the bubble's clock | no limit |
/// | [`patience`](test_util::Bubble::patience) | a duration in real time | one second |
/// | [`grace`](test_util::Bubble::grace) | a duration in real time | none: time moves once nothing can run |
/// | [`seed`](test_util::Bubble::seed) | a whole number, up to `u64::MAX` | a new seed in each run |
/// | `crate` | the path of this crate, in a string | `"::hairspring"` |
///
/// Values are literals. A duration is a number of seconds, such as `5` or `0.5`, or a string of a number and a unit:
/// `"7ns"`, `"7us"`, `"500ms"`, `"5s"`, `"10m"` (minutes), `"1.5h"`, `"2d"`. Nothing is rounded: a part of a nanosecond
/// is an error.
///
/// Wrong arguments do not compile. For a runtime of your own, call [`Bubble::runtime`](test_util::Bubble::runtime) in a
/// `#[test]`.
///
/// # Panics
///
/// The test panics as [`Bubble::run`](test_util::Bubble::run) does: if it deadlocks, leaves tasks behind, or goes on
/// beyond its limit.
#[cfg(feature = "test-util")]
#[doc(inline)]
pub use hairspring_macros::test;

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
