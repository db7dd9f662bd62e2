//! Control over time in tests. Needs the feature `test-util`.
//!
//! Must not know: the driver, futures.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

pub use crate::manual::ManualClock;

use crate::clock;
use crate::hub::{Allowance, Hub};
use crate::instant::Instant;
use crate::shard::Batch;
use crate::timer::current;

/// Stops the clock of the current runtime, this crate's and tokio's.
///
/// It then moves on by [`advance`], and by itself where every task waits: to the next deadline of either crate, in
/// tokio's steps of a millisecond.
///
/// # Panics
/// As [`tokio::time::pause`]: where the clock is paused already, and outside a current-thread runtime.
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
    tokio::time::pause();
    look_at_the_clock();
}

/// Lets the clock of the current runtime run again, from what it shows.
///
/// # Panics
/// As [`tokio::time::resume`]: where the clock is not paused, and outside a runtime.
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
    tokio::time::resume();
    look_at_the_clock();
}

/// Moves the paused clock of the current runtime on, exactly by `duration`.
///
/// Timers on the runtime's own timer that are due by then fire on the way: in the order of their deadlines, the clock showing each
/// one's deadline as it fires. When this returns, their tasks have been woken; they have not run, but for those that ran
/// before this task had its turn again. Timers of tokio's fire as [`tokio::time::advance`] fires them, all at the end.
///
/// # Panics
/// As [`tokio::time::advance`]: where the clock is not paused, and outside a runtime.
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
pub async fn advance(duration: Duration) {
    let target = clock::after(duration);
    if let Some(hub) = current::existing().filter(|hub| !hub.signal.is_by_hand()) {
        while let Some(next) = Some(hub.earliest()).filter(|&next| next <= target) {
            move_tokio(clock::instant_of(next).duration_since(Instant::now()));
            hub.fire_at(next, &mut Batch::default(), Allowance::UNBOUNDED);
        }
        hub.signal.wake_driver();
    }
    tokio::time::advance(clock::instant_of(target).duration_since(Instant::now())).await;
}

/// Moves tokio's clock without letting other tasks run.
fn move_tokio(duration: Duration) {
    // It moves the clock when it is first polled, and lets others run after that.
    let _ = pin!(tokio::time::advance(duration)).poll(&mut Context::from_waker(Waker::noop()));
}

/// Has the driver see that the clock is another, or runs at another pace.
fn look_at_the_clock() {
    if let Some(Hub { signal, .. }) = current::existing().filter(|hub| !hub.signal.is_by_hand()) {
        signal.wake_driver();
    }
}
