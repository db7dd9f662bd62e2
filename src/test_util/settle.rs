//! [`settle`]: waits until a runtime is idle, without moving its clock.
//
// Invariants
// 1. While a test settles, the clock does not move by itself.
// 2. A thread checks, not a task: a task that checks would itself be work.
// 3. If several wait, the one that began last goes on first. Its task then runs, so the runtime is not idle for the
//    others.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task;

use crate::clock::instant::{self, FAR_FUTURE};
use crate::clock::{self, source::LAST};
use crate::test_util::by_tokio;
use crate::test_util::clock_thread;
use crate::test_util::keeper::{FAILED, Keeper, Still, Waiting};
use crate::test_util::manual::allowed;
use crate::test_util::pause::{self, if_paused};

/// Waits until every other task of the current runtime waits and nothing is about to wake one, and in a bubble until no
/// blocking work runs; elsewhere it does not see blocking work. It moves no clock.
///
/// ```
/// use hairspring::test_util::settle;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::sync::Arc;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (sender, mut requests) = tokio::sync::mpsc::channel(1);
/// let served = Arc::<AtomicU32>::default();
/// let count = served.clone();
/// tokio::spawn(async move {
///     while requests.recv().await.is_some() {
///         count.fetch_add(1, Ordering::Relaxed);
///         hairspring::sleep(hairspring::Duration::from_secs(60)).await;
///     }
/// });
/// sender.send(()).await.unwrap();
/// settle().await;
/// assert_eq!(served.load(Ordering::Relaxed), 1); // it is sleeping now
/// # }
/// ```
///
/// It works in a [bubble](crate::test_util::bubble()), and on a current-thread runtime whose clock is paused.
///
/// When this returns, everything that can happen at the current time has happened: messages have arrived, including
/// through sockets; spawned tasks have run until they wait; due timers have fired. The number of tasks and of their
/// steps does not matter, which makes this safer than a few `yield_now` calls. It waits for [what holds a paused
/// clock](crate::test_util#three-clocks), except for a [`hold`](crate::test_util::hold()), and for nothing
/// else.
///
/// If the runtime is still busy after five seconds of real time, a message on standard error says why. Tasks that keep
/// waking each other never settle. Several tasks may settle at the same time: the most recent caller
/// resumes first, and the others once it waits again.
///
/// # Cancel safety
///
/// Dropping the future changes nothing. From its first poll until it completes or is dropped, the clock does not move
/// by itself: drop it if it loses a race.
///
/// # Panics
///
/// The first poll panics elsewhere, or if no thread can be started. The message names the line that called this.
#[doc(alias = "run_until_stalled")]
#[doc(alias = "run_until_idle")]
#[track_caller]
pub fn settle() -> impl Future<Output = ()> {
    let called = Location::caller();
    async move { Settle::begin("settle", called).wait().await }
}

/// Like [`settle`], but gives up instead of reporting that it takes long.
pub(super) async fn settle_for_a_while() {
    Settle { gives_up: true, ..Settle::begin("settle", Location::caller()) }.wait().await;
}

/// Advances the paused clock of the current runtime by exactly `duration`. Durations are capped at 500 years.
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
///
/// On a current-thread runtime this is [`tokio::time::advance`], except that it saturates where that overflows: the
/// clock moves first, and then due timers fire in the runtime's next pass, after tasks that were woken before. All of
/// them see the new time. As with tokio, a sleep is due if the clock has reached its deadline, rounded up to a millisecond.
///
/// In a bubble with workers or a grace, this yields once before the clock moves. Then timers due by the new time fire
/// in deadline order, while the clock shows their deadlines. A clock stops about 530 years from now, and later
/// deadlines are never reached.
///
/// When this returns, the tasks of due timers have been woken; [`advance_and_settle`] lets them run at each deadline.
///
/// # Cancel safety
///
/// The clock moves all the way in one poll: on tokio's clock the first, otherwise the second.
///
/// # Panics
///
/// The first poll panics if the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
/// The message names the line that called it.
#[track_caller]
pub fn advance(duration: Duration) -> impl Future<Output = ()> {
    if_paused("advance", async move {
        let duration = duration.min(FAR_FUTURE);
        let keeper = Keeper::here().and_then(|keeper| Some((keeper.clock.clone()?, keeper)));
        let Some((clock, keeper)) = keeper else { return by_tokio::advance(duration).await };
        task::yield_now().await;
        let still = keeper.keep_still(None);
        clock.advance(duration);
        drop(still);
        task::yield_now().await;
    })
}

/// Advances the paused clock of the current runtime by `duration`, and lets tasks run at each deadline on the way, as
/// if the time had passed.
///
/// ```
/// use hairspring::test_util::advance_and_settle;
/// use hairspring::{Duration, interval};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (sender, ticks) = std::sync::mpsc::channel();
/// tokio::spawn(async move {
///     let mut seconds = interval(Duration::from_secs(1));
///     loop {
///         let at = seconds.tick().await;
///         sender.send(hairspring::Instant::now() - at).unwrap();
///     }
/// });
/// advance_and_settle(Duration::from_secs(10)).await;
/// assert_eq!(ticks.try_iter().collect::<Vec<_>>(), [Duration::ZERO; 11]); // each at its time
/// # }
/// ```
///
/// The clock moves to the next deadline, fires the timers due there, and [settles](settle()) before it moves on. Use
/// this rather than [`advance`](crate::advance()) if a task sleeps several times in that span.
///
/// A [`hold`](crate::test_util::hold()) does not stop this. If a task begins another advance or a [`settle`](settle())
/// on the way, that ends before this goes on. tokio's own timers do not stop the clock: they fire when it reaches the
/// next deadline of this crate after theirs, or the end.
///
/// # Cancel safety
///
/// If the future is dropped, the clock stays where it is. Until then it does not move by itself, as with [`settle`]. A
/// task that resumes the clock ends the advance, unless it pauses the clock again at once.
///
/// # Panics
///
/// The first poll panics as [`advance`](crate::advance())'s does, or if the system refuses a thread.
#[track_caller]
pub fn advance_and_settle(duration: Duration) -> impl Future<Output = ()> {
    let called = Location::caller();
    if_paused("advance_and_settle", async move {
        let duration = duration.min(FAR_FUTURE);
        let settle = Settle::begin("advance_and_settle", called);
        settle.wait().await;
        if let Some(clock) = &settle.still.keeper.clock {
            let target = clock.after(duration);
            while clock.step(target, allowed).is_some() {
                settle.wait().await;
            }
            clock.move_by_steps(target, allowed);
        } else {
            let target = clock::after(duration).min(LAST);
            while instant::is_paused() && by_tokio::move_to_next(target) {
                settle.wait().await;
            }
            // Not if the runtime has ended, or a task has resumed its clock.
            if instant::is_paused() {
                by_tokio::move_to(target).await;
            }
        }
        settle.wait().await;
    })
}

/// Keeps the clock of the current runtime still, except for its owner.
pub(super) struct Settle {
    still: Still,
    gives_up: bool,
}

impl Settle {
    /// Panics, naming the function and its caller, where nothing can tell whether the runtime is idle.
    fn begin(name: &str, called: &Location<'_>) -> Settle {
        let keeper = pause::keeper_for(name, called);
        Settle { still: keeper.keep_still(None), gives_up: false }
    }

    async fn wait(&self) {
        let keeper = &self.still.keeper;
        if keeper.is_tokios() {
            // The clock may have moved while another thread, which drives the runtime, waits for tokio's timers.
            keeper.activity.call();
        }
        let (tell, told) = oneshot::channel();
        clock_thread::tell_when_idle(keeper, Waiting { number: self.still.number, tell, gives_up: self.gives_up });
        // An error means that the runtime has ended, which may be about to drop the task.
        if told.await.is_err() {
            assert!(!keeper.has_failed(), "{FAILED}");
            task::yield_now().await;
        }
    }
}
