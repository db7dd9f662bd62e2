//! Control over time in tests. Needs the feature `test-util`.
#![doc = include_str!("../../docs/testing.md")]
//!
//! # See also
//! - [`pause`](crate::pause()), [`resume`](crate::resume()) and [`advance`](crate::advance()), for the runtime's clock;
//!   [`hold`](hold()) and [`spawn_blocking`](spawn_blocking()), for what it cannot see.
//! - [`ManualClock`] and [`ManualClock::auto_advance`], for clocks of one's own.
//!
//! Must not know: the driver, futures.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

mod auto_advance;
mod idle;
pub(crate) mod manual;
pub(crate) mod paused;

pub use manual::{Hold, ManualClock};

use crate::clock;
use crate::clock::instant::{FAR, Instant};
use crate::clock::source::LAST;
use crate::core::by_hand;
use crate::core::registry;
use crate::core::shard::WakeList;
use crate::core::shards::{TimerLease, TurnBudget};

/// Stops the clock of the current runtime: this crate's, and on a current-thread runtime tokio's with it.
///
/// It then moves on by [`advance`], and by itself where nothing in the runtime can go on: to the next deadline. The
/// [module](self) says when that is, and what cannot be seen. On a current-thread runtime tokio's clock moves, to the next
/// deadline of either crate, in tokio's steps of a millisecond. On a multi-thread runtime, where tokio's cannot be
/// paused, it is this crate's timers on that runtime that follow, and [`Instant::now`] there.
///
/// # Panics
/// Where the clock is paused already, outside a runtime, and where the system refuses the thread that moves the clock
/// of a multi-thread one. The [module](self) says what happens on a runtime without `enable_time` or `enable_io`.
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
    let Some(runtime) = paused::here() else {
        tokio::time::pause();
        look_at_the_clock();
        return;
    };
    assert!(paused::pause(&runtime), "time is already frozen");
    paused::adopt(runtime.id(), registry::timer_of(&runtime));
    // A thread that reads the time here is known to block on the runtime.
    let _ = Instant::now();
    by_hand::wake_all_drivers();
}

/// Lets the clock of the current runtime run again, from what it shows.
///
/// # Panics
/// Where the clock is not paused, and outside a runtime.
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
    if let Some(runtime) = paused::here() {
        assert!(paused::resume(&runtime), "time is not frozen");
        return;
    }
    tokio::time::resume();
    look_at_the_clock();
}

/// Moves the paused clock of the current runtime on, exactly by `duration`. More than 500 years are taken as 500 years.
///
/// Timers that are due by then fire on the way, in the order of their deadlines, the clock showing each one's deadline
/// as it fires: those of the runtime's own timer, and on a multi-thread runtime of every timer that follows its clock.
/// When this returns, their tasks have been woken; they have not run, but for those that ran before this task had its
/// turn again. Timers of tokio's fire as [`tokio::time::advance`] fires them, all at the end.
///
/// Time ends some 530 years from now: a clock that has come there moves no further, and what would be due later never is.
///
/// # Cancel safety
/// The first poll moves the clock all the way. Dropped after that, the future leaves nothing undone.
///
/// # Panics
/// When polled where the clock is not paused, or outside a runtime.
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
    let duration = duration.min(FAR);
    if let Some(clock) = paused::here().and_then(|runtime| paused::clock(&runtime)) {
        let _hold = clock.hold();
        clock.advance(duration);
        tokio::task::yield_now().await;
        return;
    }
    let target = clock::after(duration).min(LAST);
    if let Some(timer) = timer_by_tokio() {
        while let Some(next) = Some(timer.earliest()).filter(|&next| next <= target) {
            move_tokio(clock::instant_of(next).duration_since(Instant::now()));
            timer.fire_at(next, &mut WakeList::default(), TurnBudget::UNBOUNDED);
        }
        timer.parking.wake_driver();
    }
    tokio::time::advance(clock::instant_of(target).duration_since(Instant::now())).await;
}

/// Keeps the paused clock of the current runtime from moving by itself, as long as the answer lives.
///
/// For work that nothing in the runtime shows: a thread of your own, another process. [`advance`] moves the clock all the
/// same. On a current-thread runtime this takes a thread of the blocking pool.
///
/// # Panics
/// On a multi-thread runtime whose clock is not paused, and outside a runtime.
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
///     // ... what takes its time, and then
///     sender.send(5).unwrap();
///     drop(hold);
/// });
/// assert_eq!(hairspring::timeout(Duration::from_secs(1), answer).await.unwrap(), Ok(5));
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[track_caller]
pub fn hold() -> Hold {
    let Some(runtime) = paused::here() else { return Hold::of_tokio() };
    match paused::clock(&runtime) {
        Some(clock) => clock.hold(),
        None => panic!("time is not frozen: a clock is held only where it is paused"),
    }
}

/// As [`tokio::task::spawn_blocking`], and keeps the current runtime's clock, where it is paused, from moving by itself
/// until `code` has returned and its caller has been woken.
///
/// Tokio's own does so too, on a current-thread runtime, and elsewhere on Linux as far as the [module](self) says. With
/// this one it is certain, whatever the system and however long the work takes.
///
/// # Panics
/// As tokio's: outside a runtime.
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
    let hold = paused::here().and_then(|runtime| paused::clock(&runtime)).map(|clock| clock.hold());
    let work = tokio::task::spawn_blocking(code);
    let Some(hold) = hold else { return work };
    tokio::spawn(async move {
        let done = work.await;
        // Let go while this worker runs, as it does until whoever waits for this task has been woken.
        drop(hold);
        match done {
            Ok(value) => value,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // Cancelled, as the runtime shuts down: so is this.
            Err(_) => std::future::pending().await,
        }
    })
}

/// Moves tokio's clock without letting other tasks run.
fn move_tokio(duration: Duration) {
    // It moves the clock when it is first polled, and lets others run after that.
    let _ = pin!(tokio::time::advance(duration)).poll(&mut Context::from_waker(Waker::noop()));
}

/// The timer of the current runtime, if it has one that goes by tokio's clock.
fn timer_by_tokio() -> Option<TimerLease> {
    let runtime = Handle::try_current().ok()?;
    by_hand::existing(runtime.id()).filter(|timer| !timer.parking.clock.is_shown())
}

/// Has the driver see that the clock is another, or runs at another pace.
fn look_at_the_clock() {
    if let Some(timer) = timer_by_tokio() {
        timer.parking.wake_driver();
    }
}
