//! What moves a manual clock by itself: a thread whenever a runtime is idle, or a thread at a rate.
//
// Invariants
// 1. The clock moves only if nobody holds it, which is decided under its lock.
// 2. The thread ends with the runtime, with the clock, or when it is stopped.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::source::LAST;
use crate::test_util::idle::Watch;
use crate::test_util::manual::{By, ManualClock, WeakClock};
use crate::test_util::when_idle::{self, Action, State, WhenIdle};

impl ManualClock {
    /// From now on advances the clock whenever the current runtime is idle. It moves to the next deadline and fires
    /// exactly what is due there, and moves on when the runtime is idle again. This ends with the runtime.
    ///
    /// [`test_util`](crate::test_util) says when a runtime counts as idle. This works on every runtime, and does not
    /// change the runtime's own timers.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the clock already moves by itself, or if the system refuses a thread for this.
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new();
    /// clock.auto_advance();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(86_400)).await; // returns at once
    /// assert_eq!(clock.now() - start, Duration::from_secs(86_400));
    /// # }
    /// ```
    #[track_caller]
    pub fn auto_advance(&self) {
        let watch = Watch::of(&Handle::current());
        assert!(!self.auto_advances(), "this clock moves by itself already");
        Watch::note_this_thread(Some(&watch));
        start(self, watch, Duration::ZERO);
    }

    /// Makes the clock run by itself from now on, `rate` times as fast as real time: at 60, an hour passes in a minute.
    /// Zero stops it. It moves about once in a millisecond of real time, and each timer fires while the clock shows that
    /// timer's deadline.
    ///
    /// Give the nodes of a cluster in one process clocks that run at 1.0 and 1.01, and they drift apart. You can still
    /// advance the clock. A [`hold`](Self::hold) stops it as long as it lives. Both a hold and a new rate are in force
    /// when their call returns: only timers that are due at what the clock shows may still fire. When the last handle is
    /// dropped, the clock stops.
    ///
    /// # Panics
    /// If `rate` is negative or not finite, or if the system refuses a thread for this.
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new();
    /// clock.rate(360_000.0);
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(3_600)).await; // takes 10 ms
    /// assert!(clock.now() - start >= Duration::from_secs(3_600));
    /// # }
    /// ```
    #[track_caller]
    pub fn rate(&self, rate: f64) {
        /// How often a clock moves, in real time.
        const STEP: Duration = Duration::from_millis(1);

        assert!(rate.is_finite() && rate >= 0.0, "the rate of a clock is zero or more, and finite, not {rate}");
        let number = self.next_rate();
        if rate == 0.0 {
            return;
        }
        let weak = self.downgrade();
        let run = move || {
            while let Some(clock) = weak.upgrade() {
                let Some(passed) = clock.passed(number) else { break };
                let passed = Duration::try_from_secs_f64(passed.as_secs_f64() * rate).unwrap_or(Duration::MAX);
                clock.advance_by(passed, By::Rate(number));
                drop(clock);
                thread::sleep(STEP);
            }
        };
        if let Err(error) = thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            panic!("hairspring could not start the thread that moves its clock: {error}");
        }
    }
}

/// Advances `clock` whenever `watch` finds its runtime idle, after a `grace` in which nothing ran.
///
/// # Panics
/// If the system refuses a thread.
#[track_caller]
pub(super) fn start(clock: &ManualClock, watch: Arc<Watch>, grace: Duration) {
    WhenIdle { grace, ..WhenIdle::new(watch, Advance::new(clock)) }.start();
}

/// Advances a clock to its next deadline.
struct Advance {
    clock: WeakClock,
}

impl Advance {
    fn new(clock: &ManualClock) -> Advance {
        clock.set_auto_advance(true);
        Advance { clock: clock.downgrade() }
    }
}

impl Action for Advance {
    fn state(&mut self, _: &Watch) -> State {
        match self.clock.upgrade().filter(ManualClock::auto_advances) {
            None => State::Over,
            Some(clock) if clock.next().is_none() || !clock.holds().is_empty() => State::Waits,
            Some(_) => State::Ready,
        }
    }

    fn act(&mut self, watch: &Watch) -> bool {
        self.clock.upgrade().is_some_and(|clock| clock.move_to_next(LAST, By::Itself(watch)))
    }

    fn report(&self, patience: Duration, watch: &Watch) -> Option<String> {
        let clock = self.clock.upgrade()?;
        Some(when_idle::report(patience, watch, &clock.holds(), &clock.waiting()))
    }
}

impl Drop for Advance {
    fn drop(&mut self) {
        self.clock.upgrade().inspect(|clock| clock.set_auto_advance(false));
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

    /// What an advancer of `clock` reports, on a runtime that `does` something, until nothing advances.
    fn report_on(clock: &ManualClock, grace: Duration, does: impl FnOnce(&Handle)) -> String {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, reports) = mpsc::channel();
        let watch = Watch::of(runtime.handle());
        // Behind the tasks of our own.
        runtime.block_on(runtime.spawn(async {})).unwrap();
        does(runtime.handle());
        let print = Box::new(move |text: &str| sender.send(text.to_owned()).unwrap());
        let before = clock.now();
        let advancer = WhenIdle { grace, patience: SOON, print, ..WhenIdle::new(watch, Advance::new(clock)) }.start();
        let report = reports.recv().unwrap();
        thread::sleep(2 * SOON);
        clock.set_auto_advance(false);
        advancer.join().unwrap();
        assert!(reports.try_recv().is_err(), "it reports once");
        assert_eq!(clock.now(), before);
        runtime.shutdown_background();
        report
    }

    /// A task that blocks its worker until what is returned is dropped.
    fn block(runtime: &Handle) -> mpsc::Sender<()> {
        let ((release, released), (begins, begun)) = (mpsc::channel::<()>(), mpsc::channel());
        runtime.spawn(async move {
            begins.send(()).unwrap();
            released.recv()
        });
        begun.recv().unwrap();
        release
    }

    /// A clock on which something waits for seven seconds.
    fn clock_of_a_sleep() -> (ManualClock, (Timer, Sleep)) {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let mut sleep = timer.sleep(Duration::from_secs(7));
        assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        (clock, (timer, sleep))
    }

    #[test]
    fn a_clock_that_nothing_can_move_is_reported() {
        let report = report_on(&ManualClock::new(), Duration::ZERO, |_| ());
        assert!(report.contains("every task waits or blocks, and no timer is left"), "{report}");
    }

    /// A bug that this crate had: a paused clock stopped without a word while a task blocked its worker: each look that
    /// found the runtime busy began the patience anew.
    #[test]
    fn a_task_that_blocks_its_thread_is_reported_with_the_timers_that_wait() {
        for grace in [Duration::ZERO, SOON] {
            let (clock, _sleep) = clock_of_a_sleep();
            let mut release = None;
            let report = report_on(&clock, grace, |runtime| release = Some(block(runtime)));
            drop(release);
            assert!(report.contains("a task runs on worker 0, or blocks it."), "{report}");
            assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
        }
    }

    #[test]
    fn a_task_that_blocks_its_thread_is_reported_if_no_timer_waits() {
        let mut release = None;
        let report = report_on(&ManualClock::new(), Duration::ZERO, |runtime| release = Some(block(runtime)));
        drop(release);
        assert!(report.contains("a task runs on worker 0, or blocks it."), "{report}");
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
