//! What moves a manual clock on by itself: a thread that looks whether a runtime is quiet.
//!
//! Invariants
//! 1. The clock moves only where the runtime was found quiet and nobody held the clock.
//! 2. The thread ends with the runtime, with the clock, or when it is told to.
//! 3. Where nothing moves for long, it says why, once.
//!
//! Must not know: signals, shards, futures.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::clock;
use crate::core::task;
use crate::test_util::idle::{Quiet, Threads};
use crate::test_util::manual::{ManualClock, WeakClock};

/// How long it looks again and again, giving way to other threads, before it sleeps in between.
const EAGER: Duration = Duration::from_micros(500);
/// How long it sleeps in between, at most.
const LONGEST_NAP: Duration = Duration::from_millis(1);
/// How long nothing may move before it says why, in real time.
const PATIENCE: Duration = Duration::from_secs(5);

/// What moves a clock on until it is told to stop, or the runtime ends.
#[derive(Debug)]
pub(crate) struct Mover(Arc<AtomicBool>);

/// Calls `code` when a runtime is shut down.
pub(crate) fn with_runtime(runtime: &Handle, code: impl FnOnce() + Send + 'static) {
    struct AtEnd<F: FnOnce()>(Option<F>);
    impl<F: FnOnce()> Drop for AtEnd<F> {
        fn drop(&mut self) {
            self.0.take().into_iter().for_each(|code| code());
        }
    }
    let at_end = AtEnd(Some(code));
    task::spawn(runtime, "hairspring clock", async move {
        let _at_end = at_end;
        std::future::pending::<()>().await;
    });
}

impl ManualClock {
    /// Has the clock move on by itself from now on, whenever the current runtime is quiet: to the next deadline, firing
    /// exactly what is due there, and only on from there when the runtime is quiet again. It ends with the runtime.
    ///
    /// When a runtime counts as quiet is told in [`test_util`](crate::test_util). Works on every runtime; the runtime's
    /// own timers stay as they are.
    ///
    /// # Panics
    /// Outside a tokio runtime, where the clock moves by itself already, and where the system refuses the thread that
    /// moves it.
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
        assert!(self.begin_to_move(), "this clock moves by itself already");
        let threads = Arc::<Threads>::default();
        // A worker waits for sockets, too; it is known by its counts.
        if runtime.runtime_flavor() != RuntimeFlavor::CurrentThread && tokio::task::try_id().is_none() {
            threads.add_current();
        }
        Mover::start(self, &runtime, threads);
    }
}

impl Mover {
    /// Has `clock` moved on whenever `runtime` is quiet and none of the `threads` that block on it runs.
    ///
    /// # Panics
    /// Where the system refuses another thread.
    pub(crate) fn start(clock: &ManualClock, runtime: &Handle, threads: Arc<Threads>) -> Mover {
        let stopped = Arc::new(AtomicBool::new(false));
        let stops = stopped.clone();
        with_runtime(runtime, move || stops.store(true, Ordering::SeqCst));
        let moves = Moves {
            clock: clock.downgrade(),
            quiet: Quiet::of(runtime),
            threads,
            stopped: stopped.clone(),
            still_since: Instant::now(),
            has_told: false,
            patience: PATIENCE,
            // Not `eprintln`, which a test harness keeps until the test ends, as this one may not.
            tell: Box::new(|text| drop(std::io::stderr().write_all(text.as_bytes()))),
        };
        let started = thread::Builder::new().name("hairspring-clock".into()).spawn(|| moves.run());
        if let Err(error) = started {
            panic!("hairspring could not start the thread that moves its clock: {error}");
        }
        Mover(stopped)
    }

    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The thread's own.
struct Moves {
    clock: WeakClock,
    quiet: Quiet,
    threads: Arc<Threads>,
    stopped: Arc<AtomicBool>,
    /// When the clock last moved, or the runtime was last found busy.
    still_since: Instant,
    has_told: bool,
    patience: Duration,
    tell: Box<dyn Fn(&str) + Send>,
}

impl Moves {
    fn run(mut self) {
        let mut busy_since = Instant::now();
        while !self.stopped.load(Ordering::SeqCst) {
            let Some(clock) = self.clock.upgrade() else { return };
            if self.step(&clock) {
                busy_since = Instant::now();
                continue;
            }
            drop(clock);
            let busy = busy_since.elapsed();
            if busy < EAGER {
                thread::yield_now();
            } else {
                thread::sleep((busy / 4).min(LONGEST_NAP));
            }
        }
        self.clock.upgrade().inspect(ManualClock::stand);
    }

    /// Moves the clock on where it may. `false` where there is nothing to do yet.
    fn step(&mut self, clock: &ManualClock) -> bool {
        let waits = clock.next().is_some();
        let holds = clock.holds();
        if waits && holds.is_empty() {
            let moved = self.quiet.look(&self.threads) && clock.holds().is_empty() && self.advance(clock);
            if moved || self.quiet.blocking_thread().is_none() {
                self.start_over();
                return moved;
            }
        }
        if self.still_since.elapsed() < self.patience || self.has_told {
            return false;
        }
        if holds.is_empty() && !waits && !self.quiet.look(&self.threads) {
            self.start_over();
        } else {
            self.has_told = true;
            (self.tell)(&report(clock, self.patience, self.quiet.blocking_thread()));
        }
        false
    }

    fn advance(&self, clock: &ManualClock) -> bool {
        !self.stopped.load(Ordering::SeqCst) && clock.advance_to_next().is_some()
    }

    fn start_over(&mut self) {
        (self.still_since, self.has_told) = (Instant::now(), false);
    }
}

/// Why a clock does not move.
fn report(clock: &ManualClock, patience: Duration, blocking: Option<u32>) -> String {
    let mut text = format!("hairspring: the paused clock has not moved for {patience:?}: ");
    let holds = clock.holds();
    match blocking {
        _ if !holds.is_empty() => text.push_str("it is held.\n"),
        Some(thread) => {
            let _ = writeln!(text, "blocking work goes on, on thread {thread} of this process.");
        }
        None => text.push_str("every task waits, and no timer is left to wake one.\n"),
    }
    for place in holds {
        let _ = writeln!(text, "  a hold that lives was taken at {place}");
    }
    if let Some(next) = clock.next() {
        let next = clock::instant_of(next) - clock.now();
        let _ = writeln!(text, "  timers that wait: {}, the next for {next:?} from now", clock.pending());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use crate::Timer;

    const SOON: Duration = Duration::from_millis(20);

    /// Steps a mover of `clock`, on a runtime that does something, until it says why nothing moves.
    fn wait_for_report(clock: &ManualClock, does: impl FnOnce(&Handle)) -> String {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, told) = mpsc::channel();
        let mut moves = Moves {
            clock: clock.downgrade(),
            quiet: Quiet::of(runtime.handle()),
            threads: Arc::default(),
            stopped: Arc::default(),
            still_since: Instant::now(),
            has_told: false,
            patience: SOON,
            tell: Box::new(move |text| sender.send(text.to_owned()).unwrap()),
        };
        does(runtime.handle());
        let report = loop {
            assert!(!moves.step(clock), "nothing can move");
            if let Ok(report) = told.try_recv() {
                break report;
            }
            thread::sleep(Duration::from_millis(1));
        };
        thread::sleep(SOON);
        moves.step(clock);
        assert!(told.try_recv().is_err(), "it says so once");
        runtime.shutdown_background();
        report
    }

    #[test]
    fn a_clock_that_nothing_can_move_is_reported() {
        let report = wait_for_report(&ManualClock::new(), |_| ());
        assert!(report.contains("every task waits, and no timer is left"), "{report}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn blocking_work_that_does_not_end_is_reported_with_its_thread() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let mut sleep = std::pin::pin!(timer.sleep(Duration::from_secs(7)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
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
        let goes_on = format!("blocking work goes on, on thread {} of", number.recv().unwrap());
        assert!(report.contains(&goes_on), "{report}");
        assert!(report.contains("timers that wait: 1, the next for 7s"), "{report}");
    }

    #[test]
    fn a_hold_that_is_never_released_is_reported_with_its_place_and_what_waits() {
        let clock = ManualClock::new();
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let mut sleep = std::pin::pin!(timer.sleep(Duration::from_secs(7)));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (_hold, line) = (clock.hold(), line!());
        let report = wait_for_report(&clock, |_| ());
        let taken = format!("taken at {}:{line}:", file!());
        assert!(report.contains(&taken), "{report}");
        assert!(report.contains("timers that wait: 1, the next for 7s"), "{report}");
    }
}
