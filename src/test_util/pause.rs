//! Pausing and resuming the clock of a runtime.
//!
//! tokio can pause only the clock of a current-thread runtime, without a grace. Otherwise, paused timers follow a
//! manual clock that advances when the runtime is idle, and `Instant::now` shows its time. After a resume they follow
//! the system's clock again, offset by the difference at that moment.
//
// Invariants
// 1. A runtime's time never goes back.
// 2. A timer joins or leaves a runtime's clock only while that clock cannot change.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::runtime::{self, Handle, RuntimeFlavor};

use crate::clock::instant::ClockHooks;
use crate::clock::source::{Offset, any_is_held, one_is_held};
use crate::clock::{self, Hooks, Instant, instant};
use crate::core::lease::{TimerHooks, TimerLease};
use crate::core::registry;
use crate::core::turns::Turns;
use crate::test_util::idle::{Time, Watch};
use crate::test_util::manual::ManualClock;
use crate::test_util::{auto_advance, by_tokio, held};

/// Pauses the clock of the current runtime.
///
/// From then on the clock moves with [`advance`](crate::advance()), and by itself to the next deadline whenever the
/// runtime is idle. See [how a paused clock moves](crate::test_util#how-a-paused-clock-moves) and [what holds
/// it](crate::test_util#what-holds-a-paused-clock).
///
/// On a current-thread runtime this pauses tokio's clock, so tokio's timers follow too. On a multi-thread runtime only
/// this crate's timers and [`Instant::now`](crate::Instant::now) do.
///
/// # Panics
///
/// Panics if the clock is already paused, outside a runtime, or if the thread that moves the clock of a multi-thread
/// runtime cannot be started.
///
/// # Examples
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
#[doc(alias = "autojump")]
#[doc(alias = "fast-forward")]
#[doc(alias = "start_paused")]
#[track_caller]
pub fn pause() {
    pause_with_grace(Duration::ZERO);
}

/// Pauses the clock of the current runtime as [`pause`](crate::pause()) does, but lets it move only after nothing has
/// run for `grace` in real time. [`resume`](crate::resume()) ends this.
///
/// Use it if something may arrive at an unknown time from another process, a server or one of your threads. Each move
/// of the clock takes at least the grace, so use it in tests with few timers. Holding the clock while you wait, with
/// [`hold`](crate::test_util::hold()), is faster and needs no guess.
///
/// Such a clock is this crate's on every runtime: tokio's own timers take real time. A current-thread runtime keeps
/// this clock, and later calls of [`pause`](crate::pause()) and the like apply to it.
///
/// # Panics
///
/// Panics if the clock is already paused, outside a runtime, or if the thread that moves the clock cannot be started.
///
/// # Examples
///
/// ```
/// use hairspring::test_util::pause_with_grace;
/// use hairspring::{Duration, Instant, timeout};
///
/// # #[tokio::main]
/// # async fn main() {
/// pause_with_grace(Duration::from_secs(5));
/// let start = Instant::now();
/// // The clock does not see the other process.
/// let answer = tokio::process::Command::new("whoami").output();
/// assert!(timeout(Duration::from_secs(60), answer).await.is_ok());
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[doc(alias = "grace period")]
#[track_caller]
pub fn pause_with_grace(grace: Duration) {
    if grace.is_zero() && is_tokios() {
        tokio::time::pause();
        // From now on no thread relies on its cached timer, which may belong to an outer runtime.
        one_is_held();
        by_tokio::read_clock();
        return;
    }
    // Before taking the lock: this is slow, and others read the time. It also creates the runtime's timer, so that no
    // other thread can do that meanwhile.
    let (watch, _) = (Watch::of(&Handle::current()), registry::owner());
    let clock = ManualClock::with(watch.claims.clone());
    auto_advance::start(&clock, watch.clone(), grace);
    let mut time = watch.time_to_change();
    let was_paused = matches!(*time, Some(Time::Paused(_))) || instant::is_paused();
    if !was_paused {
        // Its timers follow first: a sleep that ends just before must not be early by what the clock then shows. If a
        // program runs the driver, its timer follows when that is polled.
        for timer in held::timers_on(watch.runtime.id()) {
            clock.adopt(timer);
        }
        let tokios_now = || clock::tick_of(tokio::time::Instant::now().into());
        clock.start_at(if let Some(Time::Runs(offset)) = *time { offset.now() } else { tokios_now() });
        *time = Some(Time::Paused(clock.clone()));
    }
    drop(time);
    assert!(!was_paused, "time is already frozen");
    // What was due before and has not fired would otherwise wait for the clock to move, which a test may prevent.
    clock.advance(Duration::ZERO);
    // Registers this thread, if it blocks on the runtime.
    let _ = Instant::now();
    held::wake_drivers_on(&watch.runtime);
}

/// Resumes the clock of the current runtime: it continues from the time it shows.
///
/// # Panics
///
/// Panics if the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
///
/// # Examples
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
    if let Some(why) = refusal() {
        panic!("{why}");
    }
    if !resume_own() {
        tokio::time::resume();
        by_tokio::read_clock();
    }
}

/// Resumes the clock of the current runtime if it is this crate's. Returns `false` if tokio has to do that.
fn resume_own() -> bool {
    let Some(watch) = Watch::existing() else { return false };
    let mut time = watch.time_to_change();
    let Some(Time::Paused(clock)) = &*time else { return false };
    let (now, timers) = clock.release();
    let offset = Offset::from(now);
    let all_turns = || timers.iter().map(|held| held.lease().turns());
    // Under the lock: the next pause takes over these timers.
    all_turns().for_each(|turns| turns.run(offset));
    let before = time.replace(Time::Runs(offset));
    drop(time);
    drop(before);
    all_turns().for_each(Turns::turn_again);
    true
}

/// Whether the current runtime's clock is tokio's, even if paused without a grace. Also outside a runtime.
pub(super) fn is_tokios() -> bool {
    let runtime = Handle::try_current().ok();
    runtime.is_none_or(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread)
        && Watch::existing().is_none_or(|watch| watch.time().is_none())
}

impl ClockHooks for Hooks {
    fn now() -> Option<std::time::Instant> {
        let watch = Watch::existing();
        Watch::note_this_thread(watch.as_ref());
        let time = watch.as_deref().map(Watch::time);
        let now = match time.as_deref() {
            Some(Some(Time::Paused(clock))) => clock.tick(),
            Some(Some(Time::Runs(offset))) => offset.now(),
            _ => return None,
        };
        Some(clock::instant_of(now).into_std())
    }
}

impl TimerHooks for Hooks {
    fn opens(timer: TimerLease) {
        held::opens(timer);
    }

    fn spawns_driver(runtime: runtime::Id, timer: TimerLease) {
        held::spawns_driver(runtime, timer);
    }

    /// If the runtime's clock is this crate's, the timer follows it.
    fn is_on(runtime: runtime::Id, timer: TimerLease) {
        if let Some(watch) = any_is_held().then(|| Watch::find(runtime)).flatten() {
            let turns = timer.turns();
            let follows = match &*watch.time() {
                Some(Time::Paused(clock)) => clock.adopt(timer),
                // A manual clock stays the timer's.
                Some(Time::Runs(offset)) if !turns.clock.is_shown() => {
                    turns.run(*offset);
                    false
                }
                _ => false,
            };
            if follows {
                timer.fire_at(timer.now());
            }
        }
    }
}

pub(crate) fn is_paused() -> bool {
    Watch::clock_here().is_some() || instant::is_paused()
}

/// The panic message if a paused clock is needed. Begins with tokio's words.
pub(super) const NOT_PAUSED: &str = "time is not frozen: call `pause` first";

/// Why the clock of the current runtime cannot be moved or resumed; `None` if it can.
fn refusal() -> Option<&'static str> {
    if Handle::try_current().is_err() {
        return Some("time cannot be frozen from outside the Tokio runtime");
    }
    (!is_paused()).then_some(NOT_PAUSED)
}

/// Makes the first poll of a future that moves the clock panic if the clock is not paused.
#[track_caller]
pub(super) fn if_paused(name: &'static str, moves: impl Future<Output = ()>) -> impl Future<Output = ()> {
    let called = Location::caller();
    async move {
        if let Some(why) = refusal() {
            panic!("{why} (`{name}` was called at {called})");
        }
        moves.await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::task::{Context, Waker};
    use std::thread;

    use super::*;

    /// A bug that this crate had: the timer followed the clock that had been resumed, although it was paused again.
    #[test]
    fn timers_follow_a_clock_that_is_paused_while_another_thread_resumes_it() {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let _entered = runtime.enter();
        let timer = registry::owner().unwrap().timer();
        pause_with_grace(Duration::ZERO);
        for _ in 0..200 {
            thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = runtime.enter();
                    assert!(resume_own());
                });
                while is_paused() {
                    std::hint::spin_loop();
                }
                pause_with_grace(Duration::ZERO);
            });
            assert!(timer.turns().clock.is_shown());
        }
    }

    /// Bugs that this crate had: a thread that was about to read the running clock read a later time than the clock
    /// showed once it was paused, and sleeps ended by such a time.
    #[test]
    fn while_another_thread_pauses_time_does_not_go_back_and_no_sleep_is_early() {
        let new = || runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let used = new();
        let is_over = AtomicBool::new(false);
        let sleeps = |runtime: &runtime::Runtime| {
            let _entered = runtime.enter();
            let mut before = Instant::now();
            while !is_over.load(SeqCst) {
                let mut sleep = crate::sleep(Duration::from_nanos(1));
                let ended = Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready();
                let now = Instant::now();
                assert!(before <= now, "time went back");
                assert!(!ended || sleep.deadline() <= now, "early");
                before = now;
            }
        };
        // As a helper thread, which fires timers by this time.
        let outside = |timer: TimerLease| {
            let mut latest = timer.now();
            while !is_over.load(SeqCst) {
                latest = latest.max(timer.now());
            }
            latest
        };
        for _ in 0..150 {
            for runtime in [&new(), &used] {
                is_over.store(false, SeqCst);
                thread::scope(|scope| {
                    scope.spawn(|| sleeps(runtime));
                    let _entered = runtime.enter();
                    let timer = registry::owner().unwrap().timer();
                    let outside = scope.spawn(move || outside(timer));
                    let _ = is_paused() && resume_own();
                    thread::sleep(Duration::from_micros(50));
                    pause_with_grace(Duration::ZERO);
                    thread::sleep(Duration::from_micros(50));
                    is_over.store(true, SeqCst);
                    assert!(outside.join().unwrap() <= clock::now(), "time goes back for a helper thread");
                });
            }
        }
    }
}
