//! Control over time in tests: a test that controls the clock finishes in milliseconds, however long its code sleeps.
//!
//! ```
//! use hairspring::test_util::{Bubble, settle};
//! use hairspring::{Duration, Instant, sleep};
//!
//! Bubble::new().workers(2).run(|| async {
//!     let start = Instant::now();
//!     let job = tokio::spawn(sleep(Duration::from_secs(3_600)));
//!     settle().await;
//!     assert!(!job.is_finished());
//!     job.await.unwrap(); // returns immediately
//!     assert_eq!(start.elapsed(), Duration::from_secs(3_600));
//! });
//! ```
//!
//! This module needs the feature `test-util`, as do [`pause`](crate::pause()), [`resume`](crate::resume()),
//! [`advance`](crate::advance()) and [`timer::Builder::clock`](crate::timer::Builder::clock).
//!
//! # Three clocks
//!
//! | | tokio's paused clock | a bubble with workers | [`ManualClock`] |
//! |---|---|---|---|
//! | get it with | [`#[hairspring::test]`](macro@crate::test), [`bubble`](bubble()), `start_paused = true`, [`pause`](crate::pause()) | `#[hairspring::test(workers = n)]`, [`Bubble::workers`], [`Bubble::grace`] | `ManualClock::new()`, [`Builder::clock`](crate::timer::Builder::clock) |
//! | runtime | one thread, with `enable_time` | the bubble's own | any, or none |
//! | moves | when nothing can run, or by [`advance`](crate::advance()) | the same | by its methods only |
//! | follows it | tokio's timers, and this crate's as late as tokio's | this crate's timers, exact to the nanosecond | the timers built on it, exact |
//! | held by | tasks, sockets, blocking work, [`hold`](hold()) | the same | |
//!
//! A clock that moves by itself jumps to the next deadline, fires the timers due there, and waits until nothing can run
//! again. Deadlines are met in order, with any number of workers. Timers due at the same instant are woken in the order
//! of registration, or in a bubble in random order. A cancelled timer does not stop the clock. It may stop early for a
//! queue or a map that has more than 16 entries, to sort them.
//!
//! The clock does not see other threads, processes and runtimes, nor data that the system holds back, as Nagle's
//! algorithm does. [`hold`](hold()) it meanwhile. If you do not know when something arrives from outside, use
//! [`Bubble::grace`].
//!
//! [`settle`](settle()) and [`advance_and_settle`] let everything happen that can happen now. They and `hold` work in
//! any bubble, and on a current-thread runtime whose clock is paused. Only a bubble shows them its blocking work.
//! [`pending`](pending()), [`assert_no_timers_left`], [`set_wall`] and [`suspend`] work anywhere.
//!
//! # Tests that hang
//!
//! A bubble fails if it deadlocks, or if its [`limit`](Bubble::limit) passes. If its clock has not moved for 5 seconds
//! of real time, or moves while the test itself has not run for so long, or a runtime has not settled, a message on
//! standard error says which worker is busy, where each hold was taken, and which timers wait. A task that blocks its
//! thread forever stops its clock, and work that holds a clock must not wait for time to pass.
//!
//! # tokio's clock
//!
//! - A pause by `tokio::time::pause` itself is noticed at the latest when the next timer is due in real time.
//! - Within one instant, tasks may be woken in another order than with tokio's timers.
//! - A task that blocks on an inner runtime should build it without `start_paused`, and call [`pause`](crate::pause())
//!   inside. Otherwise the inner sleeps may wait on the outer runtime's timer.
//! - A sleep on the timer of a runtime whose clock runs may end too early or too late in one whose clock is paused.

mod bubble;
pub(crate) mod by_tokio;
pub(crate) mod chance;
mod clock_thread;
pub(crate) mod held;
mod hold;
mod idle;
pub(crate) mod jumps;
mod keeper;
mod manual;
mod own_clock;
mod own_runtime;
pub(crate) mod pause;
pub(crate) mod pending;
pub(crate) mod settle;

pub use bubble::{Bubble, bubble};
pub use hold::{Hold, hold};
pub use jumps::{set_wall, suspend};
pub use manual::ManualClock;
pub use pending::{NoTimersLeft, Pending, assert_no_timers_left, pending};
pub use settle::{advance_and_settle, settle};

use crate::util::sync::lock;

/// The examples of docs/testing.md.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;
