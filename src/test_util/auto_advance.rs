//! [`AutoAdvance`]: a thread that advances a manual clock whenever a runtime is idle.
//
// Invariants
// 1. The clock moves only if the runtime was quiet for the grace, then found idle, and nobody holds the clock.
// 2. The thread ends with the runtime, with the clock, or when it is stopped.
// 3. If the clock does not move for long, the thread reports why, once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::test_util::idle::Watch;
use crate::test_util::manual::{ManualClock, WeakClock};
use crate::test_util::nap::Quiet;
use crate::test_util::nap::{self, Nap, PATIENCE};

/// How long the threads are looked at when a runtime has come to rest.
const FIRST_LOOKS: Duration = Duration::from_millis(50);

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
    /// When the clock last moved, or had no reason to. From here on it has its patience.
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
        let is_held = !clock.holds().is_empty();
        if self.watch.settles() {
            self.still_since = Instant::now();
        } else if !is_held && (!waits || !self.grace.is_zero()) {
            self.look_whether_all_is_still(waits);
        }
        if waits && !is_held && (self.grace.is_zero() || self.quiet.lasts(&self.watch) >= self.grace) {
            let moved = self.watch.lets_time_pass() && clock.holds().is_empty() && self.advance(clock);
            if moved || self.watch.blocking_thread().is_none() {
                self.quiet = Quiet::begin();
            }
            if moved {
                (self.still_since, self.has_reported) = (Instant::now(), false);
                return true;
            }
        }
        if self.has_reported || self.still_since.elapsed() < self.patience + self.grace {
            return false;
        }
        self.has_reported = true;
        let why = self.watch.describe(self.patience / 2);
        (self.print)(&nap::report(self.patience, why.as_deref(), &clock.holds(), &clock.waiting()));
        false
    }

    /// As long as anything goes on in the runtime, the clock has no reason to move. If nothing does, looks what else may
    /// keep it from moving when its time has come.
    fn look_whether_all_is_still(&mut self, waits: bool) {
        self.still_since = self.still_since.max(self.watch.went_on_at());
        let (still, ends) = (self.still_since.elapsed(), if waits { self.grace } else { self.patience });
        // First of all the pool may ask the workers who they are.
        if still < FIRST_LOOKS || still >= ends / 2 && !self.has_reported {
            self.watch.look_at_threads();
        }
    }

    fn advance(&self, clock: &ManualClock) -> bool {
        !self.is_over() && clock.advance_to_next().is_some()
    }

    fn is_over(&self) -> bool {
        self.stopped.load(Ordering::SeqCst) || self.watch.has_ended()
    }
}

/// How often a clock moves, in real time.
const STEP: Duration = Duration::from_millis(1);

impl ManualClock {
    /// Makes the clock run by itself from now on, `rate` times as fast as real time: at 60, an hour passes in a minute.
    /// Zero stops it. It moves about once in a millisecond of real time, and each timer fires while the clock shows that
    /// timer's deadline.
    ///
    /// Give the nodes of a cluster in one process clocks that run at 1.0 and 1.01, and they drift apart. You can still
    /// advance the clock. A [`hold`](Self::hold) stops it as long as it lives. When the last handle is dropped, the clock
    /// stops.
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
    pub fn rate(&self, rate: f64) {
        assert!(rate.is_finite() && rate >= 0.0, "the rate of a clock is zero or more, and finite, not {rate}");
        let course = self.next_course();
        if rate == 0.0 {
            return;
        }
        let weak = self.downgrade();
        let run = move || {
            let mut last = Instant::now();
            while let Some(clock) = weak.upgrade().filter(|clock| clock.is_on_course(course)) {
                let passed = last.elapsed();
                last += passed;
                if clock.holds().is_empty() {
                    let passed = passed.as_secs_f64() * rate;
                    clock.advance(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX));
                }
                drop(clock);
                thread::sleep(STEP);
            }
        };
        if let Err(error) = thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            panic!("hairspring could not start the thread that moves its clock: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use crate::{Sleep, Timer};

    const SOON: Duration = Duration::from_millis(200);

    /// Steps an advancer of `clock`, on a runtime that `does` something, until it reports why nothing advances.
    fn wait_for_report(clock: &ManualClock, does: impl FnOnce(&Handle)) -> String {
        wait_with(clock, SOON, Duration::ZERO, does)
    }

    fn wait_with(clock: &ManualClock, patience: Duration, grace: Duration, does: impl FnOnce(&Handle)) -> String {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, reports) = mpsc::channel();
        let watch = Watch::of(runtime.handle());
        // Behind the tasks of our own.
        runtime.block_on(runtime.spawn(async {})).unwrap();
        does(runtime.handle());
        watch.went_on_at();
        let mut advancer = Advancer {
            clock: clock.downgrade(),
            watch,
            grace,
            quiet: Quiet::begin(),
            stopped: Arc::default(),
            still_since: Instant::now(),
            has_reported: false,
            patience,
            print: Box::new(move |text| sender.send(text.to_owned()).unwrap()),
        };
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
        let report = wait_for_report(&ManualClock::new(), |_| ());
        assert!(report.contains("every task waits or blocks, and no timer is left"), "{report}");
    }

    /// Some looks can only be judged by the next one, but the patience is one.
    #[test]
    fn it_is_reported_after_one_patience_whatever_there_is_to_find_out() {
        const PATIENCE: Duration = Duration::from_secs(2);
        let (end, ends) = tokio::sync::oneshot::channel::<()>();
        let (release, released) = mpsc::channel::<()>();
        let start = Instant::now();
        let report = wait_with(&ManualClock::new(), PATIENCE, Duration::ZERO, |runtime| {
            let root = runtime.clone();
            thread::spawn(move || {
                Watch::of(&root).add_current_thread();
                root.block_on(ends)
            });
            runtime.spawn_blocking(move || released.recv());
        });
        let took = start.elapsed();
        drop((end, release));
        assert!(report.contains("every task waits or blocks, and no timer is left"), "{report}");
        assert!((PATIENCE..2 * PATIENCE).contains(&took), "{took:?}");
    }

    #[test]
    fn a_task_that_blocks_its_thread_is_reported_with_the_timers_that_wait() {
        for grace in [Duration::ZERO, SOON] {
            let (clock, _sleep) = clock_of_a_sleep();
            let mut release = None;
            let report = wait_with(&clock, SOON, grace, |runtime| release = Some(block(runtime)));
            drop(release);
            assert!(report.contains("a task blocks worker 0."), "{report}");
            assert!(report.contains("timers waiting: 1, the next is due in 7s"), "{report}");
        }
    }

    #[test]
    fn a_task_that_blocks_its_thread_is_reported_if_no_timer_waits() {
        let mut release = None;
        let report = wait_for_report(&ManualClock::new(), |runtime| release = Some(block(runtime)));
        drop(release);
        assert!(report.contains("a task blocks worker 0."), "{report}");
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
