//! Threads that move a manual clock: one whenever a runtime is idle, one at a rate.
//
// Invariants
// 1. The clock moves only if it is not held, which is decided under the lock of its claims.
// 2. The thread ends with the runtime, with the clock, or when it is stopped.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle};

use crate::clock::source::LAST;
use crate::test_util::hold::{Claim, Claimed};
use crate::test_util::idle::Watch;
use crate::test_util::manual::{By, ManualClock, Moves, WeakClock};
use crate::test_util::when_idle::{self, Action, State, WhenIdle};

impl ManualClock {
    /// Makes the clock advance by itself whenever the current runtime is idle, until the runtime ends. It moves to the
    /// next deadline, fires the timers due there, and waits until the runtime is idle again.
    ///
    /// The clock is held by [whatever holds a paused clock](crate::test_util#what-holds-a-paused-clock), but by its own
    /// [`hold`](Self::hold) instead of [`test_util::hold`](crate::test_util::hold()). This works on every runtime, and
    /// does not affect the runtime's own timers. Returns a handle to this clock, for chaining.
    ///
    /// Do not pause a current-thread runtime as well: tokio moves its clock at once, so with an interval there the
    /// runtime is never idle.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime, if the clock already advances by itself, or if no thread can be started.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new().auto_advance();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(86_400)).await; // returns immediately
    /// assert_eq!(clock.now() - start, Duration::from_secs(86_400));
    /// # }
    /// ```
    #[allow(clippy::must_use_candidate, clippy::return_self_not_must_use)] // Often called for its effect only.
    #[track_caller]
    pub fn auto_advance(&self) -> Self {
        let watch = Watch::of(&Handle::current());
        // The thread of a runtime that has ended may not have noticed yet.
        let before = self.state().auto_advances.and_then(Watch::find);
        assert!(before.is_none(), "this clock already advances by itself");
        Watch::note_this_thread(Some(&watch));
        start(self, watch, Duration::ZERO);
        self.clone()
    }

    /// Makes the clock run at `rate`, that many times as fast as real time: at 60, an hour passes in a minute. Zero
    /// stops it. Returns a handle to this clock, for chaining.
    ///
    /// The clock moves about once per millisecond of real time, and each timer fires while the clock shows its
    /// deadline. Give the nodes of a cluster in one process the rates 1.0 and 1.01, and their clocks drift apart.
    ///
    /// A [`hold`](Self::hold) stops the clock, and you can still advance it. A hold or a new rate is in force when its
    /// call returns: only timers that are already due may still fire. The step in which a hold ends does not count.
    /// Dropping the last handle stops the clock.
    ///
    /// # Panics
    ///
    /// Panics if `rate` is negative or not finite, or if no thread can be started.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new().rate(360_000.0);
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(3_600)).await; // takes 10 ms
    /// assert!(clock.now() - start >= Duration::from_secs(3_600));
    /// # }
    /// ```
    #[allow(clippy::must_use_candidate, clippy::return_self_not_must_use)] // Often called for its effect only.
    #[track_caller]
    pub fn rate(&self, rate: f64) -> Self {
        /// How often the clock moves, in real time.
        const STEP: Duration = Duration::from_millis(1);

        assert!(rate.is_finite() && rate >= 0.0, "the rate of a clock must be finite and at least 0, not {rate}");
        let number = {
            let mut state = self.state();
            state.rate += 1;
            state.rate
        };
        // A claim that ends forbids the move that an earlier rate may have begun.
        drop(self.claims().claim(Claim::Move));
        if rate == 0.0 {
            return self.clone();
        }
        let (weak, mut ended, mut since) = (self.downgrade(), self.claims().ended(), Instant::now());
        let run = move || {
            while let Some(clock) = weak.upgrade().filter(|clock| clock.state().rate == number) {
                let (before, passed) = (ended, since.elapsed());
                (ended, since) = (clock.claims().ended(), since + passed);
                let passed = Duration::try_from_secs_f64(passed.as_secs_f64() * rate).unwrap_or(Duration::MAX);
                clock.advance_to(clock.after(passed), By::Itself(before));
                drop(clock);
                thread::sleep(STEP);
            }
        };
        if let Err(error) = thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            panic!("hairspring failed to start the thread that moves the clock: {error}");
        }
        self.clone()
    }
}

/// Advances `clock` whenever `watch` finds its runtime idle after a `grace` in which nothing ran.
#[track_caller]
pub(super) fn start(clock: &ManualClock, watch: Arc<Watch>, grace: Duration) {
    let advance = Advance::new(clock, &watch);
    WhenIdle { grace, ..WhenIdle::new(watch, advance) }.start();
}

struct Advance {
    clock: WeakClock,
    runtime: runtime::Id,
    /// What the last check decided.
    by: By,
}

impl Advance {
    fn new(clock: &ManualClock, watch: &Watch) -> Advance {
        let runtime = watch.runtime.id();
        clock.state().auto_advances = Some(runtime);
        Advance { clock: clock.downgrade(), runtime, by: By::IdleAfter(Moves::default(), 0) }
    }
}

impl Action for Advance {
    fn state(&mut self, watch: &Watch) -> State {
        let Some(clock) = self.clock.upgrade() else { return State::Over };
        let (auto_advances, moves) = {
            let state = clock.state();
            (state.auto_advances == Some(self.runtime), state.moves())
        };
        self.by = By::IdleAfter(moves.unwrap_or_default(), clock.claims().ended());
        match () {
            () if !auto_advances => State::Over,
            () if moves.is_none() || watch.claims.any(Claim::Settle) => State::Later,
            () if !clock.has_work() || clock.claims().any(Claim::Hold) => State::Waits,
            () => State::Ready,
        }
    }

    fn act(&mut self, watch: &Watch, _: &mut Option<Claimed>) -> bool {
        let Some(clock) = self.clock.upgrade().filter(|_| !watch.claims.any(Claim::Settle)) else { return false };
        clock.move_to_next(LAST, self.by).is_some()
    }

    fn report(&mut self, patience: Duration, watch: &Watch) -> Option<String> {
        let clock = self.clock.upgrade()?;
        Some(when_idle::report(patience, watch, &clock.claims().places(Claim::Hold), &clock.waiting()))
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        self.clock.upgrade().inspect(|clock| _ = clock.state().auto_advances.take_if(|on| *on == self.runtime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use crate::{Sleep, Timer};

    const SOON: Duration = Duration::from_millis(200);

    /// The report of an advancer of `clock`, on a runtime that `does` something, until nothing advances.
    fn report_on(clock: &ManualClock, grace: Duration, does: impl FnOnce(&Handle)) -> String {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, reports) = mpsc::channel();
        let watch = Watch::of(runtime.handle());
        // Behind our own tasks.
        runtime.block_on(runtime.spawn(async {})).unwrap();
        does(runtime.handle());
        let print = Box::new(move |text: &str| sender.send(text.to_owned()).unwrap());
        let before = clock.now();
        let advance = Advance::new(clock, &watch);
        let advancer = WhenIdle { grace, patience: SOON, print, ..WhenIdle::new(watch, advance) }.start();
        let report = reports.recv().unwrap();
        thread::sleep(2 * SOON);
        clock.state().auto_advances = None;
        advancer.join().unwrap();
        assert!(reports.try_recv().is_err(), "it reports once");
        assert_eq!(clock.now(), before);
        runtime.shutdown_background();
        report
    }

    /// A task that blocks its worker until the returned sender is dropped.
    fn block(runtime: &Handle) -> mpsc::Sender<()> {
        let ((release, released), (begins, begun)) = (mpsc::channel::<()>(), mpsc::channel());
        runtime.spawn(async move {
            begins.send(()).unwrap();
            released.recv()
        });
        begun.recv().unwrap();
        release
    }

    fn clock_of_a_sleep() -> (ManualClock, (Timer, Sleep)) {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let mut sleep = timer.sleep(Duration::from_secs(7));
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (clock, (timer, sleep))
    }

    /// Bugs that this crate had: what came while the clock was held, or was woken by another thread that moved it, could
    /// still run when that was over.
    #[test]
    fn a_clock_does_not_move_if_a_hold_or_a_move_ended_during_the_check() {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let ((clock, (timer, _sleep)), watch) = (clock_of_a_sleep(), Watch::of(runtime.handle()));
        let (mut advance, mut sooner) = (Advance::new(&clock, &watch), timer.sleep(Duration::from_secs(1)));
        assert!(Pin::new(&mut sooner).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let during: [fn(&ManualClock); 2] = [|clock| drop(clock.hold()), |clock| clock.advance(Duration::from_secs(1))];
        for during in during {
            assert_eq!(advance.state(&watch), State::Ready);
            during(&clock);
            let before = clock.now();
            assert!(!advance.act(&watch, &mut None));
            assert_eq!(clock.now(), before);
        }
        assert_eq!(advance.state(&watch), State::Ready);
        assert!(advance.act(&watch, &mut None));
    }

    #[test]
    fn a_clock_that_nothing_can_move_is_reported() {
        let (clock, (_timer, mut sleep)) = clock_of_a_sleep();
        sleep.reset_at(clock.now() + Duration::MAX);
        for (clock, waiting) in [(ManualClock::new(), ""), (clock, "timers waiting: 1, the next is never due")] {
            let report = report_on(&clock, Duration::ZERO, |_| ());
            assert!(report.contains("every task waits or blocks, and no timer is left"), "{report}");
            assert!(report.contains(waiting), "{report}");
        }
    }

    /// A bug that this crate had: a paused clock stopped silently while a task blocked its worker, because each check
    /// that found the runtime busy restarted the patience.
    #[test]
    fn a_task_that_blocks_its_thread_is_reported_with_the_timers_that_wait() {
        for grace in [Duration::ZERO, SOON] {
            let (clock, _sleep) = clock_of_a_sleep();
            let mut release = None;
            let report = report_on(&clock, grace, |runtime| release = Some(block(runtime)));
            drop(release);
            assert!(report.contains("a task is running on worker 0 or blocking it."), "{report}");
            assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
        }
    }

    #[test]
    fn a_hold_that_is_never_released_is_reported_with_its_place_and_the_timers_that_wait() {
        let (clock, _sleep) = clock_of_a_sleep();
        let (_hold, line) = (clock.hold(), line!());
        let report = report_on(&clock, Duration::ZERO, |_| ());
        let taken = format!("taken at {}:{line}:", file!());
        assert!(report.contains(&taken), "{report}");
        assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
    }
}
