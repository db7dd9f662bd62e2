//! [`settle`]: waits until a runtime is idle, without moving its clock.
//
// Invariants
// 1. While a test settles, no paused clock that follows the runtime moves by itself.
// 2. A thread checks, not a task: a task that checks would itself be work.
// 3. If several wait, the one that began last goes on first. Its task then runs, so the runtime is not idle for the
//    others.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task;

use crate::clock::instant::{self, FAR_FUTURE};
use crate::clock::{self, source::LAST};
use crate::test_util::by_tokio;
use crate::test_util::hold::{Claim, Claimed};
use crate::test_util::idle::Watch;
use crate::test_util::manual::{By, ManualClock};
use crate::test_util::pause::if_paused;
use crate::test_util::when_idle::{Action, State, WhenIdle};
use crate::util::sync::Counter;

/// Waits until every other task of the current runtime waits and nothing is about to wake one. It moves no clock, and
/// the clock need not be paused.
///
/// When this returns, everything that can happen at the current time has happened: messages have arrived, including
/// through sockets; spawned tasks have run until they wait; due timers have fired. The number of tasks and of their
/// steps does not matter, which makes this safer than a few `yield_now` calls. It waits for [what holds a paused
/// clock](crate::test_util#what-holds-a-paused-clock), except for a [`hold`](crate::test_util::hold()), and for nothing
/// else.
///
/// If the runtime is still busy after five seconds of real time, a message on standard error says why. Tasks that keep
/// waking each other never settle. Several tasks may settle at the same time: the one that began last goes on first, and
/// the others once it waits again.
///
/// # Cancel safety
///
/// Dropping the future changes nothing. From its first poll until it completes or is dropped, the clock does not move
/// by itself: drop it if it loses a race.
///
/// # Panics
///
/// Panics outside a runtime, or if no thread can be started.
///
/// # Examples
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
#[doc(alias = "run_until_stalled")]
#[doc(alias = "run_until_idle")]
pub async fn settle() {
    Settle::begin().wait().await;
}

/// Like [`settle`], but gives up instead of reporting that it takes long.
pub(super) async fn settle_for_a_while() {
    Settle { gives_up: true, ..Settle::begin() }.wait().await;
}

/// Advances the paused clock of the current runtime by exactly `duration`. Durations are capped at 500 years.
///
/// On a current-thread runtime this is [`tokio::time::advance`], except that it saturates where that overflows: the clock
/// moves first, and then due timers fire in the runtime's next pass, after tasks that were woken before. All of them see
/// the new time. As with tokio, a timer is due if its deadline, rounded up to a millisecond, has come.
///
/// On a multi-thread runtime, this yields once before the clock moves. Then timers due by the new time fire in deadline
/// order, while the clock shows their deadlines. A clock stops about 530 years from now, and later deadlines are never
/// reached.
///
/// When this returns, the tasks of due timers have been woken; [`advance_and_settle`] lets them run at each deadline.
///
/// # Cancel safety
///
/// The clock moves all the way in one poll: the first on a current-thread runtime, otherwise the second.
///
/// # Panics
///
/// The first poll panics if the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
/// The message names the line that called it.
///
/// # Examples
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
    if_paused("advance", async move {
        if Watch::clock_here().is_none() {
            return by_tokio::advance(duration.min(FAR_FUTURE)).await;
        }
        task::yield_now().await;
        move_by(duration, None).await;
    })
}

/// Advances the paused clock of the current runtime by `duration`, and lets tasks run at each deadline on the way, as
/// if the time had passed.
///
/// The clock moves to the next deadline, fires the timers due there, and [settles](settle()) before it moves on. Use
/// this rather than [`advance`](crate::advance()) if a task sleeps several times in that span.
///
/// A [`hold`](crate::test_util::hold()) does not stop this. If a task begins another advance or a [`settle`](settle()) on
/// the way, that ends before this goes on. tokio's own timers do not stop the clock: they fire when it reaches the next
/// deadline of this crate after theirs, or the end.
///
/// # Cancel safety
///
/// If the future is dropped, the clock stays where it is. Until then it does not move by itself, as with [`settle`]. A
/// task that resumes the clock ends the advance, on a current-thread runtime unless it pauses the clock again at once.
///
/// # Panics
///
/// The first poll panics if the clock is not paused ("time is not frozen: call `pause` first"), or outside a runtime.
/// The message names the line that called it. A poll also panics if the system refuses a thread.
///
/// # Examples
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
#[track_caller]
pub fn advance_and_settle(duration: Duration) -> impl Future<Output = ()> {
    if_paused("advance_and_settle", async move {
        let settle = Settle::begin();
        settle.wait().await;
        move_by(duration, Some(&settle)).await;
        settle.wait().await;
    })
}

/// Advances the paused clock of the current runtime from deadline to deadline. With `settle`, settles at each.
pub(super) async fn move_by(duration: Duration, settle: Option<&Settle>) {
    let duration = duration.min(FAR_FUTURE);
    let clock = Watch::clock_here();
    let target = match &clock {
        Some(clock) if settle.is_none() => clock.end_of_advance(duration),
        Some(clock) => clock.after(duration),
        None => clock::after(duration).min(LAST),
    };
    let _hold = clock.as_ref().map(ManualClock::hold);
    while match &clock {
        Some(clock) => clock.move_to_next(target, By::Test).is_some(),
        None => instant::is_paused() && by_tokio::move_to_next(target),
    } {
        if let Some(settle) = settle {
            settle.wait().await;
        }
    }
    match &clock {
        Some(clock) => {
            clock.advance_to(target, By::Test);
            task::yield_now().await;
        }
        // The runtime has ended, or a task has resumed its clock.
        None if !instant::is_paused() => {}
        None => by_tokio::move_to(target).await,
    }
}

/// How many have begun to settle in this process.
static BEGUN: Counter = Counter::new(0);

/// Keeps the clock of the current runtime still, except for its owner.
pub(super) struct Settle {
    watch: Arc<Watch>,
    _settles: Claimed,
    /// `Some` if tokio moves the clock.
    held: Option<Claimed>,
    /// How many began before.
    number: u64,
    gives_up: bool,
}

impl Settle {
    fn begin() -> Settle {
        let watch = Watch::of(&Handle::current());
        Watch::note_this_thread(Some(&watch));
        let is_tokios = watch.is_one_thread() && !instant::clock_is_the_systems();
        let held = is_tokios.then(|| watch.claim(Claim::Move));
        let number = BEGUN.fetch_add(1, SeqCst);
        Settle { _settles: watch.claim(Claim::Settle), watch, held, number, gives_up: false }
    }

    async fn wait(&self) {
        let watch = self.watch.clone();
        let (tell, is_idle) = Tell::new(&watch, self.number, self.gives_up);
        let held = self.held.as_ref().map(|_| watch.claim(Claim::Move));
        if held.is_some() {
            // The clock may have moved while another thread, which drives the runtime, waits for tokio's timers.
            watch.wake();
        }
        WhenIdle { held, ..WhenIdle::new(watch, tell) }.start();
        // Dropped by the task. An error means that the runtime has ended, which may be about to drop the task.
        let Ok(_no_alarm) = is_idle.await else { return task::yield_now().await };
    }
}

/// Tells a test that the runtime is idle or, if it gives up, that this takes long.
struct Tell {
    waits: Option<(oneshot::Sender<Option<Claimed>>, Claimed)>,
    gives_up: bool,
}

impl Tell {
    fn new(watch: &Watch, number: u64, gives_up: bool) -> (Tell, oneshot::Receiver<Option<Claimed>>) {
        let (idle, is_idle) = oneshot::channel();
        let waits = Some((idle, watch.claim(Claim::Waits(number))));
        (Tell { waits, gives_up }, is_idle)
    }

    /// Whoever waits may do so again at once.
    fn tell(&mut self, no_alarm: Option<Claimed>) -> bool {
        self.waits.take().is_some_and(|(idle, waits)| {
            drop(waits);
            idle.send(no_alarm).is_ok()
        })
    }
}

impl Action for Tell {
    fn state(&mut self, _: &Watch) -> State {
        match &self.waits {
            None => State::Over,
            Some((idle, _)) if idle.is_closed() => State::Over,
            Some((_, waits)) if waits.began_last() => State::Ready,
            Some(_) => State::Later,
        }
    }

    fn act(&mut self, _: &Watch, no_alarm: &mut Option<Claimed>) -> bool {
        // Another may have begun during the check.
        let is_next = self.waits.as_ref().is_some_and(|(_, waits)| waits.began_last());
        is_next && self.tell(no_alarm.take())
    }

    fn report(&mut self, patience: Duration, watch: &Watch) -> Option<String> {
        if self.gives_up {
            self.tell(None);
            return None;
        }
        let what = watch.describe().unwrap_or_else(|| "tasks keep being woken".into());
        Some(format!("hairspring: the runtime has not settled after {patience:?}: {what}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_task_that_goes_on_is_reported_once() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let ((begins, begun), (sender, reports)) = (mpsc::channel(), mpsc::channel());
        let stop = Arc::<AtomicBool>::default();
        let stopped = stop.clone();
        runtime.spawn(async move {
            begins.send(()).unwrap();
            while !stopped.load(SeqCst) {
                task::yield_now().await;
            }
        });
        begun.recv().unwrap();
        let print = Box::new(move |text: &str| sender.send(text.to_owned()).unwrap());
        let watch = Watch::of(runtime.handle());
        let (tell, is_idle) = Tell::new(&watch, 0, false);
        let looks = WhenIdle { patience: Duration::from_secs(1), print, ..WhenIdle::new(watch, tell) }.start();
        let report = reports.recv().unwrap();
        assert!(report.contains("has not settled after 1s: a task is running on worker 0 or blocking it"), "{report}");
        thread::sleep(Duration::from_millis(20));
        stop.store(true, SeqCst);
        assert!(is_idle.blocking_recv().unwrap().is_none());
        looks.join().unwrap();
        assert!(reports.try_recv().is_err(), "it reports once");

        let watch = Watch::of(runtime.handle());
        let (mut tell, mut is_idle) = Tell::new(&watch, 0, false);
        let mut no_alarm = Some(watch.claim(Claim::NoAlarm));
        assert!(tell.act(&watch, &mut no_alarm));
        assert!(
            no_alarm.is_none() && is_idle.try_recv().unwrap().is_some(),
            "the test's own task sets the alarms again"
        );
    }
}
