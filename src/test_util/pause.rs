//! Pausing and resuming the clock of a runtime, which tokio does, and what a bubble's own clock replaces.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::clock::instant::ClockHooks;
use crate::clock::source::one_is_held;
use crate::clock::{self, Hooks, instant};
use crate::core::memory::{TimerHooks, TimerLease};
use crate::test_util::keeper::Keeper;
use crate::test_util::{held, own_clock};

/// Pauses the clock of the current runtime.
///
/// ```
/// use hairspring::{Duration, Instant, pause, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// pause();
/// let start = Instant::now();
/// sleep(Duration::from_secs(86_400)).await; // returns immediately
/// assert!(start.elapsed() >= Duration::from_secs(86_400));
/// # }
/// ```
///
/// This is [`tokio::time::pause`], and the timers that wait notice it at once. From then on the clock moves with
/// [`advance`](crate::advance()), and by itself to the next deadline whenever the runtime is idle: see [three
/// clocks](crate::test_util#three-clocks).
///
/// # Panics
///
/// Panics where tokio's function does: if the clock is already paused, outside a runtime, and on a multi-thread runtime. For
/// a test with workers, use [`Bubble::workers`](crate::test_util::Bubble::workers).
#[doc(alias = "autojump")]
#[doc(alias = "fast-forward")]
#[doc(alias = "start_paused")]
#[track_caller]
pub fn pause() {
    assert!(own_clock::here().is_none(), "time is already frozen: the clock of a bubble is paused from the start");
    assert_tokio_can("pause");
    tokio::time::pause();
    // From now on no thread relies on its cached timer, which may belong to an outer runtime.
    one_is_held();
    tell_the_drivers();
}

/// Resumes the clock of the current runtime: it continues from the time it shows.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// hairspring::resume();
/// hairspring::sleep(hairspring::Duration::from_millis(2)).await; // takes 2 ms
/// # }
/// ```
///
/// # Panics
///
/// Panics if the clock is not paused, outside a runtime, on a multi-thread runtime, and in a bubble with workers or a grace,
/// whose clock never runs.
#[track_caller]
pub fn resume() {
    assert!(
        own_clock::here().is_none(),
        "the clock of a bubble with workers or a grace cannot run: to wait for something outside, use `test_util::hold`"
    );
    assert_tokio_can("resume");
    tokio::time::resume();
    tell_the_drivers();
}

/// tokio's message says no way out.
#[track_caller]
fn assert_tokio_can(name: &str) {
    let is_current_thread = |runtime: Handle| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread;
    assert!(
        Handle::try_current().map_or(true, is_current_thread),
        "`{name}` requires the `current_thread` Tokio runtime: for a test with workers, use \
         `hairspring::test_util::Bubble::workers`"
    );
}

/// The clock has changed: wakes the drivers that may follow it.
fn tell_the_drivers() {
    held::wake_drivers_on(&Handle::current());
}

/// The keeper of a bubble, or of a runtime that tokio has paused.
/// Panics elsewhere, naming the function and its caller: nothing tells whether another runtime is idle.
pub(super) fn keeper_for(name: &str, called: &Location<'_>) -> Arc<Keeper> {
    if let Some(keeper) = Keeper::here().filter(|keeper| keeper.activity.own.is_some()) {
        return keeper;
    }
    match instant::runtime_that_may_pause().filter(|_| instant::is_paused()) {
        Some(runtime) => Keeper::of(&runtime),
        None => panic!(
            "`{name}` works in a bubble (`hairspring::test_util::bubble`, with workers `Bubble::workers`), or on a \
             current-thread runtime whose clock is paused (called at {called})"
        ),
    }
}

impl ClockHooks for Hooks {
    fn now() -> Option<std::time::Instant> {
        own_clock::here().map(|clock| clock::instant_of(clock.tick()).into_std())
    }
}

impl TimerHooks for Hooks {
    fn opens(timer: TimerLease) {
        held::opens(timer);
    }

    /// In a bubble with a clock of ours, the timer follows that.
    fn opens_here(timer: TimerLease) -> bool {
        own_clock::here().map(|clock| clock.open(timer)).is_some()
    }

    /// The same. A manual clock stays the timer's.
    fn is_here(timer: TimerLease) {
        if own_clock::here().is_some_and(|clock| clock.adopt(timer)) {
            timer.fire_at(timer.now());
        }
    }
}

/// Makes the first poll of a future that moves the clock panic if the clock is not paused.
#[track_caller]
pub(super) fn if_paused(name: &'static str, moves: impl Future<Output = ()>) -> impl Future<Output = ()> {
    let called = Location::caller();
    async move {
        let why = match Handle::try_current() {
            Err(_) => Some("time cannot be frozen from outside the Tokio runtime"),
            Ok(_) if own_clock::here().is_some() || instant::is_paused() => None,
            Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread => {
                Some("time is not frozen: call `pause` first")
            }
            Ok(_) => Some("time is not frozen: use `hairspring::test_util::Bubble::workers`"),
        };
        if let Some(why) = why {
            panic!("{why} (`{name}` was called at {called})");
        }
        moves.await;
    }
}
