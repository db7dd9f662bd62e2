//! [`AutoAdvance`]: a thread that advances a manual clock whenever a runtime is idle.
//
// Invariants
// 1. The clock moves only if the runtime was quiet for the grace, then found idle, and nobody holds the clock.
// 2. The thread ends with the runtime, with the clock, or when it is stopped.
// 3. If the clock does not move for long, the thread reports why, once.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock;
use crate::test_util::idle::Watch;
use crate::test_util::manual::{ManualClock, WeakClock};
use crate::test_util::nap::{self, Nap};
use crate::test_util::pending;
use crate::test_util::quiet::Quiet;

/// How long the clock may stand still before it reports why, in real time.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Advances a clock until it is stopped or the runtime ends.
#[derive(Debug)]
pub(crate) struct AutoAdvance(Arc<AtomicBool>);

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
        let runtime = Handle::current();
        assert!(self.begin_auto_advance(), "this clock moves by itself already");
        let watch = Watch::of(&runtime);
        watch.add_current_thread();
        AutoAdvance::start(self, watch, Duration::ZERO);
    }
}

impl AutoAdvance {
    /// Advances `clock` whenever `watch` finds its runtime idle, after a `grace` in which nothing ran.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub(crate) fn start(clock: &ManualClock, watch: Arc<Watch>, grace: Duration) -> AutoAdvance {
        let stopped = Arc::new(AtomicBool::new(false));
        let advancer = Advancer {
            clock: clock.downgrade(),
            watch,
            grace,
            quiet: Quiet::begin(),
            stopped: stopped.clone(),
            still_since: Instant::now(),
            has_reported: false,
            patience: PATIENCE,
            print: Box::new(nap::print),
        };
        let started = thread::Builder::new().name("hairspring-clock".into()).spawn(|| advancer.run());
        if let Err(error) = started {
            panic!("hairspring could not start the thread that advances its clock: {error}");
        }
        AutoAdvance(stopped)
    }

    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The state of the thread.
struct Advancer {
    clock: WeakClock,
    watch: Arc<Watch>,
    grace: Duration,
    quiet: Quiet,
    stopped: Arc<AtomicBool>,
    /// When the clock last moved, or had no reason to.
    still_since: Instant,
    has_reported: bool,
    patience: Duration,
    print: Box<dyn Fn(&str) + Send>,
}

impl Advancer {
    fn run(mut self) {
        let mut nap = Nap::new();
        while !self.is_over() {
            let Some(clock) = self.clock.upgrade() else { return };
            if self.step(&clock) {
                nap = Nap::new();
                continue;
            }
            drop(clock);
            nap.take();
        }
        self.clock.upgrade().inspect(ManualClock::end_auto_advance);
    }

    /// Advances the clock if possible. Returns `false` if it cannot yet.
    fn step(&mut self, clock: &ManualClock) -> bool {
        let waits = clock.next().is_some();
        let holds = clock.holds();
        if waits && holds.is_empty() {
            if !self.grace.is_zero() && self.quiet.lasts(&self.watch) < self.grace {
                self.start_over();
                return false;
            }
            let moved = self.watch.lets_time_pass() && clock.holds().is_empty() && self.advance(clock);
            if moved || self.watch.blocking_thread().is_none() {
                self.quiet = Quiet::begin();
            }
            if moved {
                self.start_over();
                return true;
            }
        }
        if self.still_since.elapsed() < self.patience || self.has_reported {
            return false;
        }
        if self.watch.settles() || holds.is_empty() && !waits && !self.watch.is_idle() {
            self.start_over();
        } else {
            self.has_reported = true;
            (self.print)(&report(clock, self.patience, &self.watch));
        }
        false
    }

    fn advance(&self, clock: &ManualClock) -> bool {
        !self.is_over() && clock.advance_to_next().is_some()
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::SeqCst) || self.watch.has_ended()
    }

    fn start_over(&mut self) {
        (self.still_since, self.has_reported) = (Instant::now(), false);
    }
}

/// Says why a clock does not move.
fn report(clock: &ManualClock, patience: Duration, watch: &Watch) -> String {
    let (holds, next) = (clock.holds(), clock.next());
    let why = match next {
        _ if !holds.is_empty() => "it is held".into(),
        Some(_) => watch.describe(),
        None => "every task waits, and no timer is left to wake one".into(),
    };
    let mut text = format!("hairspring: the paused clock has not moved for {patience:?}: {why}.\n");
    for place in holds {
        let _ = writeln!(text, "  a hold taken at {place} is alive");
    }
    if let Some(next) = next {
        let next = clock::instant_of(next) - clock.now();
        let waiting = clock.waiting();
        let _ = writeln!(text, "  timers waiting: {}, the next is due in {next:?}", waiting.len());
        text.push_str(&pending::list(&waiting));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use crate::{Sleep, Timer};

    const SOON: Duration = Duration::from_millis(20);

    /// Steps an advancer of `clock`, on a runtime that `does` something, until it reports why nothing advancer.
    fn wait_for_report(clock: &ManualClock, does: impl FnOnce(&Handle)) -> String {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, reports) = mpsc::channel();
        let mut advancer = Advancer {
            clock: clock.downgrade(),
            watch: Watch::of(runtime.handle()),
            grace: Duration::ZERO,
            quiet: Quiet::begin(),
            stopped: Arc::default(),
            still_since: Instant::now(),
            has_reported: false,
            patience: SOON,
            print: Box::new(move |text| sender.send(text.to_owned()).unwrap()),
        };
        does(runtime.handle());
        let report = loop {
            assert!(!advancer.step(clock), "nothing can move");
            if let Ok(report) = reports.try_recv() {
                break report;
            }
            thread::sleep(Duration::from_millis(1));
        };
        thread::sleep(SOON);
        advancer.step(clock);
        assert!(reports.try_recv().is_err(), "it reports once");
        runtime.shutdown_background();
        report
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
        let report = wait_for_report(&ManualClock::new(), |_| ());
        assert!(report.contains("every task waits, and no timer is left"), "{report}");
    }

    #[test]
    fn a_task_that_blocks_its_thread_is_reported_with_the_timers_that_wait() {
        let (clock, _sleep) = clock_of_a_sleep();
        let (release, released) = mpsc::channel::<()>();
        let report = wait_for_report(&clock, |runtime| {
            runtime.spawn(async move { released.recv() });
        });
        drop(release);
        assert!(report.contains("a task runs on worker 0."), "{report}");
        assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn blocking_work_that_does_not_end_is_reported_with_its_thread() {
        if !crate::util::waits::are_known() {
            return; // Under an emulator.
        }
        let (clock, _sleep) = clock_of_a_sleep();
        let ended = Arc::<AtomicBool>::default();
        let (ends, (sender, number)) = (ended.clone(), mpsc::channel());
        let report = wait_for_report(&clock, |runtime| {
            runtime.spawn_blocking(move || {
                sender.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                while !ends.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(1));
                }
            });
        });
        ended.store(true, Ordering::SeqCst);
        let runs = format!("blocking work runs on thread {} of", number.recv().unwrap());
        assert!(report.contains(&runs), "{report}");
        assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
    }

    #[test]
    fn a_hold_that_is_never_released_is_reported_with_its_place_and_the_timers_that_wait() {
        let (clock, _sleep) = clock_of_a_sleep();
        let (_hold, line) = (clock.hold(), line!());
        let report = wait_for_report(&clock, |_| ());
        let taken = format!("taken at {}:{line}:", file!());
        assert!(report.contains(&taken), "{report}");
        assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
    }
}
