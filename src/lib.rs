//! Timers for tokio programs that replace `tokio::time`: change the `use` line.
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
//! Timers wait in hierarchical timing wheels, one for each worker thread. One tokio task per runtime fires them.
//! Registering and cancelling a timer takes the same time whatever the number of threads and timers. A timer fires a
//! fraction of a millisecond after its deadline, and never before it.
//!
//! # Overview
//!
//! | to | use |
//! |---|---|
//! | wait | [`sleep`](sleep()), [`sleep_until`] |
//! | limit how long a future takes | [`timeout`](timeout()), [`timeout_at`], [`FutureExt`] |
//! | do something periodically | [`interval`](interval()), [`interval_at`] |
//! | limit, slow down or gather the items of a stream | [`StreamExt`] |
//! | count the time that the machine sleeps | [`boot`] |
//! | wait for a time of day | [`wall`] |
//! | get values back when they are due | [`DelayQueue`] |
//! | let keys expire unless they are touched | [`DeadlineMap`] |
//! | limit a connection | [`io::TimeoutStream`] |
//! | pass a budget of time through calls | [`Deadline`] |
//! | configure, measure, limit or end a timer | [`Timer`], [`Timer::builder`] |
//! | test without waiting | `pause`, `advance` and `test_util`, with the feature `test-util` |
//! | build a timer of your own | [`wheel::Wheel`] |
//!
//! # Further reading
//!
//! - [The guide](guide): each of these in turn, tuning, and a wheel stepped tick by tick.
//! - [Migrating](guide::migrating) from `tokio::time` and from tokio-util.
//! - [The cookbook](guide::cookbook): debounce, throttle, retries, heartbeat, rate limit, cache expiry,
//!   cancellation, graceful shutdown.
//! - [With other crates](guide::ecosystem): those that can use these timers, and how.
//! - Testing with time: the module `test_util`, with the feature `test-util`.
//!
//! # Features
//!
//! No feature is on by default. If the compiler does not find one of these names, its feature is off. It says so for
//! modules, types and functions, but not for methods.
//!
//! - `test-util`: control over time in tests, for `[dev-dependencies]`. It adds `pause`, `resume`, `advance`, the module
//!   `test_util` and `timer::Builder::clock`. It costs nothing on multi-thread runtimes. On a current-thread runtime it
//!   makes timers slower, because they also watch for a test that pauses the clock.
//! - `hyper`: `hyper::HyperTimer`, a timer for hyper 1.
//! - `tower`: `tower::TimeoutLayer` and `tower::Timeout`, which limit how long a request takes.
//! - `tracing`: spans of sleeps, timeouts and intervals for tokio-console and similar tools, with the target
//!   `hairspring`. It adds no names.
//! - `metrics`: counts and lateness for the crate `metrics`. It adds `timer::Reporter`, and the method `reporter` of
//!   [`Timer`], [`DeadlineMap`] and [`DelayQueue`].
//! - `tokio-util`: [`FutureExt`] also ends futures by a `CancellationToken`. It adds `with_cancellation_token` and
//!   `with_cancellation_token_owned`.
//!
//! # Panics
//!
//! A future of this crate panics if it has to wait on a [`Timer`] that was shut down or is full. [`Timer::try_sleep`],
//! [`Timer::try_timeout`] and [`Timer::try_interval`] return errors instead. No future panics for lack of a runtime:
//! outside one, it waits on the process's own timer. WebAssembly has no thread to run that timer: there a future that has
//! to wait outside a runtime panics.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod clock;
mod collections;
mod core;
pub mod deadline;
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
mod seam;
pub mod stream;
#[cfg(feature = "test-util")]
pub mod test_util;
pub mod timer;
mod util;
pub mod wheel;

pub use std::time::Duration;

pub use crate::clock::Instant;
pub use crate::collections::deadline_map::{self, DeadlineMap, Expirations};
pub use crate::collections::delay_queue::{self, DelayQueue};
pub use crate::deadline::{Deadline, DeadlineExceeded};
pub use crate::future::{
    FutureExt, Interval, MissedTickBehavior, Sleep, Timeout, Try, TrySleep, boot, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at, wall,
};
#[cfg(feature = "hyper")]
pub use crate::integration::hyper;
#[cfg(feature = "tower")]
pub use crate::integration::tower;
pub use crate::stream::StreamExt;
#[cfg(feature = "test-util")]
pub use crate::test_util::{advance, pause, resume};
pub use crate::timer::Timer;
pub use crate::util::error;

/// The examples of README.md.
#[cfg(all(doctest, feature = "test-util"))]
#[doc = include_str!("../README.md")]
struct Readme;
