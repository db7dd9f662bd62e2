//! Control over time in tests. Needs the feature `test-util`, as do `pause`, `resume` and `advance` in the root, and
//! [`timer::Builder::clock`](crate::timer::Builder::clock).
#![doc = include_str!("../../docs/testing.md")]
//!
//! # See also
//! - [`pause`](crate::pause()), [`resume`](crate::resume()) and [`advance`](crate::advance()), for the runtime's clock;
//!   [`pause_with_grace`], [`hold`](hold()) and [`spawn_blocking`](spawn_blocking()), for work that it cannot see.
//! - [`settle`](settle()) and [`advance_and_settle`], to wait until all is quiet.
//! - [`pending`](pending()) and [`assert_no_timers_left`], for what waits; [`bubble`](bubble()) and [`Bubble`], for a
//!   test that must come to an end.
//! - [`ManualClock`], [`ManualClock::auto_advance`] and [`ManualClock::rate`], for clocks of your own.
//! - [`set_wall`] and [`suspend`], for [`wall`](crate::wall) and [`boot`](crate::boot).

use std::future::Future;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinError, JoinHandle};

mod auto_advance;
mod bubble;
pub(crate) mod by_tokio;
pub(crate) mod chance;
pub(crate) mod deadlock;
pub(crate) mod held;
mod hold;
mod idle;
pub(crate) mod jumps;
mod manual;
pub(crate) mod pause;
pub(crate) mod pending;
mod settle;
mod when_idle;

pub use bubble::{Bubble, bubble};
pub use hold::Hold;
use idle::{Want, Watch};
pub use jumps::{set_wall, suspend};
pub use manual::ManualClock;
use pause::IfPaused;
pub use pause::pause_with_grace;
pub use pending::{Pending, assert_no_timers_left, pending};
pub use settle::{advance_and_settle, settle};

pub use crate::seam::TimerKind;

/// Pauses the clock of the current runtime: this crate's, and on a current-thread runtime tokio's too.
///
/// It then moves by [`advance`], and advances by itself to the next deadline when the runtime is idle. The
/// [module](self) says when that is, and what it cannot see. On a current-thread runtime tokio's clock moves to the
/// next deadline of either crate, and to this crate's exactly. On a multi-thread runtime, where tokio's clock cannot be
/// paused, this crate's timers on that runtime follow, and [`Instant::now`](crate::Instant::now) there.
///
/// # Panics
/// If the clock is already paused, outside a runtime, or if the system refuses the thread that advances the clock of a
/// multi-thread runtime. The [module](self) says what happens on a runtime without `enable_time` or `enable_io`.
///
/// ```
/// use hairspring::{Duration, Instant, pause, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// pause();
/// let start = Instant::now();
/// sleep(Duration::from_secs(86_400)).await; // returns at once
/// assert!(start.elapsed() >= Duration::from_secs(86_400));
/// # }
/// ```
#[track_caller]
pub fn pause() {
    pause_with_grace(Duration::ZERO);
}

/// Lets the clock of the current runtime run again, from what it shows.
///
/// # Panics
/// If the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// hairspring::resume();
/// hairspring::sleep(hairspring::Duration::from_millis(2)).await; // takes 2 ms
/// # }
/// ```
#[track_caller]
pub fn resume() {
    pause::check();
    if !pause::resume() {
        tokio::time::resume();
        by_tokio::look_at_the_clock();
    }
}

/// Advances the paused clock of the current runtime by exactly `duration`. More than 500 years are treated as 500
/// years.
///
/// Timers that are due by then fire on the way, in the order of their deadlines, and the clock shows each deadline
/// while its timers fire. This concerns the runtime's own timer, and on a multi-thread runtime every timer that follows
/// its clock. When this returns, their tasks have been woken; some may have run before this task ran again. Tokio's own
/// timers fire as with [`tokio::time::advance`], all at the end.
///
/// Time ends about 530 years from now: a clock moves no further, and later deadlines never come.
///
/// # Cancel safety
/// The first poll moves the clock all the way. You can drop the future after that.
///
/// # Panics
/// The first poll panics if the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime. The
/// panic has the line that awaits this, or names the line that called it.
///
/// ```
/// use hairspring::{Duration, Instant, advance};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let start = Instant::now();
/// advance(Duration::from_nanos(1_500)).await;
/// assert_eq!(start.elapsed(), Duration::from_nanos(1_500));
/// # }
/// ```
#[track_caller]
pub fn advance(duration: Duration) -> impl Future<Output = ()> {
    IfPaused::new("advance", settle::move_by(duration, None))
}

/// Keeps the paused clock of the current runtime from advancing by itself, as long as the returned [`Hold`] lives.
///
/// Use this for work that the runtime does not show: a thread of your own, or another process. [`advance`] still moves
/// the clock. On a current-thread runtime this takes a thread of the blocking pool.
///
/// # Panics
/// On a multi-thread runtime whose clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
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
    match Watch::clock_here() {
        Some(clock) => clock.hold(),
        None if pause::here().is_some() => panic!("{}", pause::NOT_PAUSED),
        None => Hold::of_tokio(&Handle::current()),
    }
}

/// The same as [`tokio::task::spawn_blocking`], but keeps the current runtime's clock, if it is paused, from advancing
/// by itself until `code` has returned.
///
/// Work that was aborted before it began never runs. Work that has begun goes on and holds the clock until it ends, even
/// if its handle is aborted, which then reports it as cancelled, or dropped.
///
/// In a [`bubble`](bubble()) tokio's own function does this too. The work must not wait for time to pass.
///
/// # Panics
/// Outside a runtime, as tokio's does.
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
    /// Cancels work that has not begun.
    struct Abort(AbortHandle);
    impl Drop for Abort {
        fn drop(&mut self) {
            self.0.abort();
        }
    }

    let work = Arc::new(Watch::of(&Handle::current()).want(Want::Work));
    let until_it_ends = work.clone();
    let blocking = tokio::task::spawn_blocking(move || {
        let _work = until_it_ends;
        code()
    });
    let abort = Abort(blocking.abort_handle());
    // The work ends in a task, which is seen until it has woken what waits for it.
    tokio::spawn(async move {
        let (_work, _abort) = (work, abort);
        let ended = blocking.await.map_err(JoinError::into_panic);
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes one of those that are equal to `item`.
fn remove<T: PartialEq>(items: &mut Vec<T>, item: &T) {
    let at = items.iter().position(|known| known == item);
    at.map(|at| items.swap_remove(at));
}
