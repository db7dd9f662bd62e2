//! The paused clock of a current-thread runtime, which is tokio's: how it reaches a deadline exactly, and how a test
//! moves it.
//!
//! If the runtime is idle, tokio moves that clock to its own next timer by whole milliseconds. tokio's alarm can
//! therefore reach a deadline that is whole milliseconds away. For any other deadline that is far enough ahead, the
//! alarm stops the clock a little more than a millisecond early, and there the fraction is corrected. The rest is a
//! step of less than a millisecond, which tokio cannot take. One of our threads takes it when the runtime is idle.
//
// Invariants
// 1. The clock moves only while the runtime is idle, and by tokio's alarm wherever that can do it.
// 2. It moves to no deadline before tokio's own timers of an earlier millisecond have fired.
// 3. If no thread can be started, or the runtime is not found idle for long, a step is left to tokio's alarm, which
//    rounds up: while the clock is held, tokio's own timers may wake the runtime more often than a busy machine can
//    check it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::{Duration, Instant as StdInstant};

use tokio::runtime::Handle;

use crate::clock::{self, Hooks, Instant, duration_of, instant, instant_of};
use crate::core::alarm::driver_sleep::DriverSleep;
use crate::core::driver::DriverHooks;
use crate::core::lease::{TimerHold, TimerLease};
use crate::test_util::held;
use crate::test_util::hold::{Claim, Claimed};
use crate::test_util::idle::Watch;
use crate::test_util::when_idle::{Action, State, WhenIdle};
use crate::util::sync::Counter;
use crate::util::waits;
use crate::wheel::{Tick, Ticks};

const STEP: u64 = 1_000_000;

/// How far ahead of a deadline the alarm fires, at least, if a test may pause the clock until then.
const AHEAD: Duration = Duration::from_millis(3);

/// The next move of the clock towards a deadline.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// By tokio's alarm, whole milliseconds, to this tick.
    Jump(Tick),
    /// By us, less than a millisecond, to this tick.
    Step(Tick),
}

fn next(now: Tick, at: Tick) -> Next {
    let left = (at - now).0;
    match (left / STEP, left % STEP) {
        (_, 0) => Next::Jump(at),
        (0 | 1, rest) => Next::Step(now + Ticks(rest)),
        (whole, _) => Next::Jump(now + Ticks((whole - 1) * STEP)),
    }
}

/// When to set tokio's alarm, to reach a tick that is whole milliseconds away: tokio rounds up, and the milliseconds of
/// its clock begin anywhere.
fn before(tick: Tick) -> Instant {
    instant_of(tick) - Duration::from_nanos(STEP - 1)
}

/// How many checks fail, and for how long, before a step is left to tokio.
const CHECKS: (u32, Duration) = (200, Duration::from_millis(500));

/// Moves a clock to the deadlines of one timer.
pub(crate) struct Approach {
    /// What became of the last step: the time at which it was left to tokio, or one of the constants below. Each step
    /// has its own, because the thread that has taken one may not have ended when the next begins.
    step: Arc<Counter>,
}

/// It is no longer needed. No clock shows this tick.
const NONE: u64 = u64::MAX;
/// A thread is to take a step. No clock shows tick 0, which lies 50 years in the past.
const BEGUN: u64 = 0;

impl Default for Approach {
    fn default() -> Self {
        Approach { step: Arc::new(Counter::new(NONE)) }
    }
}

impl Approach {
    fn begin_step(&mut self, timer: TimerLease) {
        let is_tried = [BEGUN, clock::now().0].contains(&self.step.load(SeqCst));
        let Some(timer) = timer.try_hold().filter(|_| !is_tried) else { return };
        self.step = Arc::new(Counter::new(BEGUN));
        let watch = Watch::of(&Handle::current());
        let held = Some(watch.claim(Claim::Move));
        let step = WhenIdle { held, ..WhenIdle::new(watch, TakeStep::new(timer, &self.step)) };
        if step.try_start().is_err() {
            self.step.store(clock::now().0, SeqCst);
        }
    }
}

impl DriverHooks for Hooks {
    type Approach = Approach;

    /// When to set tokio's alarm on a running clock, if a test may pause it before `at`: early enough to correct the
    /// rest.
    fn ahead_of(at: Instant) -> Instant {
        let early = at - AHEAD;
        if early > Instant::now() { early } else { at }
    }

    /// tokio's alarm has fired for a timer whose clock is paused. If it fired before the deadline, corrects the
    /// fraction of the clock and returns `true`.
    fn rang_early(timer: TimerLease) -> bool {
        let (now, next_wake) = (clock::now(), timer.turns().next_wake());
        let is_early = now < next_wake && next_wake < Tick::MAX && instant::is_paused();
        if is_early {
            let left = (timer.first_deadline() - now).0;
            // tokio has parked the runtime's thread because it is idle, and calls this from there.
            let is_idle = waits::while_parked(&Handle::current().metrics(), 0).is_some();
            if left > STEP && left < Tick::MAX.0 / 2 && is_idle {
                move_by(Ticks(left % STEP));
            }
            timer.turns().wake_driver();
        }
        is_early
    }

    /// Begins to wait for a tick, on a clock that tokio has paused. Returns `false` if it is not paused, or if idleness
    /// cannot be detected: then only tokio's alarm moves the clock, and rounds up.
    fn approach(approach: &mut Approach, alarm: &mut DriverSleep, timer: TimerLease, at: Tick) -> bool {
        if !waits::PARKS_ARE_COUNTED || !instant::is_paused() {
            return false;
        }
        let next = if at < Tick::MAX { Some(next(clock::now(), at)) } else { None };
        alarm.set(match next {
            _ if Watch::existing().is_some_and(|watch| watch.claims.any(Claim::NoAlarm)) => None,
            Some(Next::Jump(to)) => Some(before(to)),
            // A test may move the clock first.
            Some(Next::Step(_)) => Some(instant_of(at)),
            None => None,
        });
        if let Some(Next::Step(_)) = next {
            approach.begin_step(timer);
        }
        true
    }
}

/// Takes one step to the next deadline of a timer, when the runtime is idle.
struct TakeStep {
    timer: TimerHold,
    step: Arc<Counter>,
    /// The time before the last check. If it differs afterwards, the clock may have run: then a task may run, too.
    at: Tick,
    /// How many claims had ended before it.
    ended: u64,
    /// How many checks have failed although the runtime did nothing visible.
    failed: u32,
    since: StdInstant,
}

impl TakeStep {
    fn new(timer: TimerHold, step: &Arc<Counter>) -> TakeStep {
        TakeStep { timer, step: step.clone(), at: Tick::ZERO, ended: 0, failed: 0, since: StdInstant::now() }
    }
}

impl Action for TakeStep {
    fn state(&mut self, watch: &Watch) -> State {
        let _entered = watch.runtime.enter();
        (self.at, self.ended) = (clock::now(), watch.claims.ended());
        match () {
            () if self.step.load(SeqCst) != BEGUN => State::Over,
            () if watch.claims.any(Claim::Settle) => State::Later,
            () if watch.claims.any(Claim::Hold) => State::Waits,
            () => State::Ready,
        }
    }

    fn was_not_idle(&mut self, watch: &Watch) {
        self.failed += u32::from(watch.describe().is_none());
        if self.failed >= CHECKS.0 && self.since.elapsed() >= CHECKS.1 {
            self.step.store(self.at.0, SeqCst);
        }
    }

    fn act(&mut self, watch: &Watch, no_alarm: &mut Option<Claimed>) -> bool {
        let _entered = watch.runtime.enter();
        let timer = self.timer.lease();
        let acted = watch.claims.unless_held(self.ended, || {
            let now = clock::now();
            if let Next::Step(to) = next(now, timer.first_deadline()) {
                if now == self.at && instant::is_paused() {
                    move_by(to - now);
                }
            }
            self.step.store(NONE, SeqCst);
        });
        if acted {
            *no_alarm = None;
            if watch.claims.any(Claim::NoAlarm) {
                timer.turns().wake_driver();
            }
        }
        acted
    }
}

/// Moves the clock to the next deadline of this crate's timers up to `target`, and fires the timers due there. Returns
/// `false` if there is none.
pub(super) fn move_to_next(target: Tick) -> bool {
    let Some(held) = timer() else { return false };
    let timer = held.lease();
    loop {
        let next = timer.earliest();
        if next > target {
            return false;
        }
        move_by(next - clock::now());
        if timer.fire_at(next) > 0 {
            timer.turns().wake_driver();
            return true;
        }
    }
}

/// Moves the clock, and lets other tasks run.
pub(super) async fn move_to(target: Tick) {
    read_clock();
    tokio::time::advance(instant_of(target) - Instant::now()).await;
}

/// Moves the clock without letting other tasks run.
pub(super) fn move_on(target: Tick) {
    read_clock();
    move_by(target - clock::now());
}

/// Moves the clock, and nothing else.
fn move_by(by: Ticks) {
    // The first poll moves the clock. Later polls would let other tasks run.
    let _ = pin!(tokio::time::advance(duration_of(by))).poll(&mut Context::from_waker(Waker::noop()));
}

/// Wakes the driver to read its clock.
pub(super) fn read_clock() {
    timer().inspect(|held| held.lease().turns().wake_driver());
}

/// The timer of the current runtime, if it has one that follows tokio's clock.
fn timer() -> Option<TimerHold> {
    let runtime = Handle::try_current().ok()?;
    held::existing(runtime.id()).filter(|held| !held.lease().turns().clock.is_shown())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short sleep that waits. On a slow machine it may end before that.
    fn waiting() -> crate::Sleep {
        loop {
            let mut sleep = crate::sleep(Duration::from_micros(1_900));
            if pin!(&mut sleep).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                return sleep;
            }
        }
    }

    /// A bug that this crate had: the runtime was idle while its clock ran, and before the step a task paused the clock
    /// and began blocking work.
    #[test]
    fn no_step_is_taken_on_a_clock_that_was_paused_after_its_runtime_was_idle() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let _sleep = waiting();
            let mut step = TakeStep::new(timer().unwrap(), &Arc::new(Counter::new(BEGUN)));
            let watch = Watch::of(&Handle::current());
            assert_eq!(step.state(&watch), State::Ready);
            drop(crate::test_util::hold());
            assert!(!step.act(&watch, &mut None), "what came during the hold may run by now");
            assert_eq!(step.state(&watch), State::Ready);
            tokio::time::pause();
            let paused = clock::now();
            let mut no_alarm = Some(watch.claim(Claim::NoAlarm));
            assert!(step.act(&watch, &mut no_alarm));
            assert!(no_alarm.is_none(), "the alarms are set again before other tasks run");
            assert_eq!(clock::now(), paused);
        });
    }

    /// The thread that has taken a step may notice it only when the next has begun: it then ended that one.
    #[test]
    fn a_step_that_begins_is_not_that_of_an_earlier_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let _sleep = waiting();
            let (mut approach, timer) = (Approach::default(), timer().unwrap());
            approach.begin_step(timer.lease());
            let first = approach.step.clone();
            first.store(NONE, SeqCst);
            approach.begin_step(timer.lease());
            assert_eq!([&first, &approach.step].map(|step| step.load(SeqCst)), [NONE, BEGUN]);
            approach.step.store(NONE, SeqCst);
        });
    }

    #[test]
    fn whole_milliseconds_are_left_to_tokio_and_a_fraction_is_set_right_on_the_way() {
        let now = Tick(77);
        for (left, then) in [
            (0, Next::Jump(now)),
            (1, Next::Step(now + Ticks(1))),
            (999_999, Next::Step(now + Ticks(999_999))),
            (1_000_000, Next::Jump(now + Ticks(1_000_000))),
            (1_300_000, Next::Step(now + Ticks(300_000))),
            (2_000_001, Next::Jump(now + Ticks(1_000_000))),
            (9_300_000, Next::Jump(now + Ticks(8_000_000))),
            (9_000_000, Next::Jump(now + Ticks(9_000_000))),
        ] {
            assert_eq!(next(now, now + Ticks(left)), then, "{left}");
        }
    }
}
