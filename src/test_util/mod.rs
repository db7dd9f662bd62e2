//! Control over time in tests: a test that controls the clock finishes in milliseconds, however long its code sleeps.
//!
//! This module needs the feature `test-util`, as do [`pause`](crate::pause()), [`resume`](crate::resume()),
//! [`advance`](crate::advance()) and [`timer::Builder::clock`](crate::timer::Builder::clock).
//!
//! # Examples
//!
//! ```
//! use hairspring::{Duration, Instant, sleep, test_util::bubble};
//!
//! bubble(|| async {
//!     let start = Instant::now();
//!     sleep(Duration::from_secs(3_600)).await; // returns immediately
//!     assert_eq!(start.elapsed(), Duration::from_secs(3_600));
//! });
//! ```
//!
//! # Which item?
//!
//! | to | use |
//! |---|---|
//! | run a test on virtual time, and fail if it hangs or leaves tasks behind | [`bubble`](bubble()), [`Bubble`] |
//! | pause the clock of a runtime that you have | [`pause`](crate::pause()), [`resume`](crate::resume()), or `#[tokio::test(start_paused = true)]` |
//! | move a paused clock by hand | [`advance`](crate::advance()), [`advance_and_settle`] |
//! | wait until everything that can happen now has happened | [`settle`](settle()) |
//! | hold a paused clock during work that it cannot see | [`spawn_blocking`], [`hold`](hold()), [`pause_with_grace`] |
//! | list the timers that wait, or find one that leaks | [`pending`](pending()), [`assert_no_timers_left`] |
//! | run several clocks in one process, or a fast or slow one | [`ManualClock`] |
//! | set the time of day, or suspend the machine | [`set_wall`], [`suspend`] |
//!
//! # How a paused clock moves
//!
//! A paused clock stands still while anything in its runtime can make progress. When nothing can, the runtime is
//! *idle*: the clock jumps to the next deadline, fires the timers that are due there, and waits until the runtime is
//! idle again. Deadlines are therefore met in order, with any number of workers. Timers due in the same
//! nanosecond are woken together, in the order of registration; on several workers their tasks then run in parallel.
//! Cancelled and postponed timers do not move the clock. If a connection, a stream adapter, a queue or an entry of a map
//! postponed or ended its wait before the first pause or [`ManualClock`] of the process, the clock may still stop at the
//! old deadline. It may also stop before the first deadline of a queue or a map that has more than 16 entries, to sort
//! them: until then, that earlier time counts as the deadline.
//!
//! | | current-thread runtime | multi-thread runtime |
//! |---|---|---|
//! | pause it with | `start_paused`, [`pause`](crate::pause()) | [`pause`](crate::pause()) |
//! | the clock is | tokio's | this crate's |
//! | this crate's timers are | as late as tokio's, which rounds up to milliseconds | exact |
//! | tokio's timers | follow the clock | take real time |
//! | the runtime must have | `enable_time` | nothing |
//! | if the clock is stuck for 5 s of real time | a message only in a bubble | a message on standard error |
//!
//! With [`pause_with_grace`], every runtime is like the multi-thread one.
//!
//! `#[tokio::test(flavor = "multi_thread", start_paused = true)]` does not compile, because tokio cannot pause such a
//! runtime. Leave `start_paused` out and call [`pause`](crate::pause()) first, or use a bubble with
//! [`workers`](Bubble::workers).
//!
//! [`boot`](crate::boot) and [`wall`](crate::wall) move with the paused clock.
//!
//! # What holds a paused clock
//!
//! | | in a bubble | in a runtime that you built |
//! |---|---|---|
//! | tasks that run or are ready to run | yes | yes |
//! | sockets with data on the way to the same runtime | yes | yes |
//! | the future in `block_on` | yes | yes, see below |
//! | `spawn_blocking`, `block_in_place`, `tokio::fs`, name lookups, standard input | yes | only with this module's [`spawn_blocking`], or under [`hold`](hold()) |
//! | other threads, processes and runtimes | only under [`hold`](hold()) | only under [`hold`](hold()) |
//!
//! Data that the system holds back for a timer of its own is not on the way: with Nagle's algorithm, an answer to two
//! small writes takes 40 ms. Call `set_nodelay(true)`.
//!
//! If you do not know when something arrives from outside, use [`pause_with_grace`]. With the crate `turmoil`, do not
//! pause the clock at all.
//!
//! ```
//! use hairspring::{Duration, Instant, pause, test_util, timeout};
//! use tokio::process::Command;
//!
//! # #[tokio::main]
//! # async fn main() {
//! pause();
//! let start = Instant::now();
//! let hold = test_util::hold(); // the clock does not see the process
//! let answer = timeout(Duration::from_secs(60), Command::new("whoami").output()).await;
//! assert!(answer.is_ok());
//! drop(hold);
//! assert_eq!(start.elapsed(), Duration::ZERO);
//! # }
//! ```
//!
//! Blocking work that holds the clock must not wait for time to pass.
//!
//! The table is the same on every system, with one exception: the thread in `block_on` of a multi-thread runtime that
//! you built. To avoid it, use a bubble, or spawn the body of the test and await it. If several threads block on a
//! current-thread runtime, only the one that drives it holds the clock, as with tokio.
//!
//! - On Linux, time stands still while that thread computes, and for up to 100 ms while it blocks in another system call,
//!   for example on a mutex or a channel. It stands still longer if the thread waits to read an `RwLock` and no other
//!   waits to write.
//! - After `block_in_place`, a task may be on such a thread until it next waits; in a nested `block_on`, until it waits
//!   for 100 ms in `Condvar::wait_timeout`. If other blocking work then begins on that thread before the clock has moved,
//!   or at any time with `thread_keep_alive(Duration::MAX)`, time stands still during that, too.
//! - The clock sees such a thread only once that has paused the clock, or after the pause has read the runtime's time,
//!   created a timer there or dropped a [`Hold`]. If a task or another thread pauses the clock, it may move while the
//!   thread computes.
//! - Other systems do not report what threads do. There, the clock of a multi-thread runtime moves once nothing visible
//!   has run for 2 ms.
//! - tokio does not report that a thread has left `block_on`. If it then computes for long without using a timer, the
//!   clock of its former runtime stands still. If it uses timers of another runtime, it counts as gone.
//! - tokio does not show that a thread is in `block_on` if its future is wrapped in
//!   [`unconstrained`](tokio::task::coop::unconstrained). The clock then moves even while that thread computes.
//!
//! # Timers of other runtimes
//!
//! A timer reads the clock of the runtime in which you use it, unless it is on a [`ManualClock`], or was on a
//! multi-thread runtime when that was paused. In a paused runtime, use only timers of that runtime or of a
//! `ManualClock`: a sleep on the timer of a runtime whose clock runs may end there too early or too late.
//!
//! # tokio's clock
//!
//! The clock of a current-thread runtime is tokio's, and a program does there what it does with tokio's timers: time moves
//! in whole milliseconds, and [`advance`](crate::advance()) is tokio's. Within one instant, tasks may be woken in another
//! order.
//!
//! - A pause by [`pause`](crate::pause()) is noticed at once. One by `tokio::time::pause` while timers wait is noticed at
//!   the latest when the next of them is due in real time.
//! - A hold or a grace occupies a thread of tokio's blocking pool. With `max_blocking_threads(1)`, blocking work and these
//!   wait for each other.
//! - A task that blocks on an inner runtime should build it without `start_paused`, and call [`pause`](crate::pause())
//!   inside. Otherwise the inner sleeps may wait on the outer runtime's timer.
//! - Without `enable_time`, nothing moves a paused clock but [`advance`](crate::advance()).
//!
//! # Tests that hang
//!
//! If a clock has not moved for 5 seconds of real time, the message on standard error says why: which worker a task is
//! running on or blocking, whether the thread in `block_on` or blocking work is running, where each hold was taken, and
//! which timers wait. If the clock is held, or no timer waits, the 5 seconds begin again whenever a task runs. Nothing
//! watches a current-thread runtime that you built, unless it was paused with a grace. A bubble also detects deadlocks.
//!
//! A task that blocks its thread forever, for example in `futures::executor::block_on`, stops every clock, and a bubble
//! with it.

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

mod auto_advance;
mod bubble;
pub(crate) mod by_tokio;
pub(crate) mod chance;
pub(crate) mod held;
mod hold;
mod idle;
pub(crate) mod jumps;
mod manual;
pub(crate) mod pause;
pub(crate) mod pending;
pub(crate) mod settle;
mod when_idle;

pub use bubble::{Bubble, bubble};
use hold::Claim;
pub use hold::Hold;
use idle::{EndsOnThread, Watch};
pub use jumps::{set_wall, suspend};
pub use manual::ManualClock;
pub use pause::pause_with_grace;
pub use pending::{NoTimersLeft, Pending, assert_no_timers_left, pending};
pub use settle::{advance_and_settle, settle};

use crate::util::sync::lock;

/// Keeps the paused clock of the current runtime from advancing by itself while the returned [`Hold`] lives.
///
/// Use this for work that the clock [cannot see](self#what-holds-a-paused-clock): one of your threads, or another
/// process. [`advance`](crate::advance()) still moves the clock. On a current-thread runtime, a hold occupies a thread
/// of tokio's blocking pool.
///
/// # Panics
///
/// Panics on a multi-thread runtime whose clock is not paused ("time is not frozen: call `pause` first"), or outside a
/// runtime.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Instant, pause, sleep, test_util};
///
/// # #[tokio::main]
/// # async fn main() {
/// pause();
/// let start = Instant::now();
/// let (sender, answer) = tokio::sync::oneshot::channel();
/// let hold = test_util::hold();
/// std::thread::spawn(move || {
///     // ... work that takes time, and then
///     sender.send(5).unwrap();
///     drop(hold);
/// });
/// assert_eq!(hairspring::timeout(Duration::from_secs(1), answer).await.unwrap(), Ok(5));
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[track_caller]
pub fn hold() -> Hold {
    assert!(pause::is_tokios() || Watch::clock_here().is_some(), "{}", pause::NOT_PAUSED);
    Hold(Watch::of(&Handle::current()).claim(Claim::Hold))
}

/// Runs blocking code as [`tokio::task::spawn_blocking`] does, and holds the current runtime's paused clock until
/// `code` returns.
///
/// Work that is aborted before it begins never runs. Work that has begun continues and holds the clock until it ends,
/// even if its handle is dropped or aborted.
///
/// The work must not wait for time to pass. In a [`bubble`](bubble()), tokio's own function does the same.
///
/// # Panics
///
/// Panics outside a runtime, as tokio's function does.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Instant, pause, sleep, test_util};
///
/// # #[tokio::main]
/// # async fn main() {
/// pause();
/// let start = Instant::now();
/// let work = test_util::spawn_blocking(|| std::thread::sleep(Duration::from_millis(20)));
/// tokio::select! {
///     done = work => done.unwrap(),
///     () = sleep(Duration::from_secs(1)) => panic!("time went on without it"),
/// }
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[track_caller]
pub fn spawn_blocking<F, R>(code: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    let watch = Watch::of(&Handle::current());
    let work = Some(watch.claim(Claim::Work));
    tokio::task::spawn_blocking(move || {
        let _ends = EndsOnThread { watch, work };
        code()
    })
}

/// The examples of docs/testing.md.
#[cfg(doctest)]
#[doc = include_str!("../../docs/testing.md")]
struct Testing;
