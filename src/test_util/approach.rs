//! [`Approach`]: how a clock that tokio has paused comes to a deadline exactly.
//!
//! Tokio moves that clock if the runtime is idle, to its own next timer, by whole milliseconds: the fraction that the
//! clock shows stays. So tokio's alarm brings it to a deadline that is whole milliseconds away. If another deadline is
//! far enough ahead, the alarm stops the clock a little more than a millisecond before it, and there the fraction is
//! set right. The rest is a step of less than a millisecond, which tokio cannot take.
//
// Invariants
// 1. The clock moves only while the runtime is idle, and by tokio's alarm wherever that can do it.
// 2. It moves to no deadline before tokio's own timers of an earlier millisecond have fired.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::{self, duration_of, instant, instant_of};
use crate::core::alarm::has_threads;
use crate::core::alarm::own::OwnAlarm;
use crate::core::lease::TimerLease;
use crate::core::shards::Shards;
use crate::test_util::settle;
use crate::util::waits;
use crate::wheel::{Tick, Ticks};

/// A millisecond: a step of tokio's clock.
const STEP: u64 = 1_000_000;

/// How far ahead of a deadline the alarm goes off at least, if a test may pause the clock until then.
const AHEAD: Duration = Duration::from_millis(3);

/// What brings the clock nearer to a deadline.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// Tokio's alarm, by whole milliseconds to this tick.
    Jump(Tick),
    /// Ourselves, by less than a millisecond to this tick.
    Step(Tick),
}

/// Whether the clock is paused, and it can be seen that the runtime is idle. If not, tokio's alarm alone moves the clock,
/// and rounds up.
fn is_possible() -> bool {
    has_threads() && waits::PARKS_ARE_COUNTED && instant::is_paused()
}

/// Waits until the current runtime is idle and its clock may move. Tokio does not move that clock as long as this lives.
type Quiet = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Brings a clock to the deadlines of one timer.
pub(crate) struct Approach {
    /// Waits for the moment in which the clock may take a step.
    quiet: Option<Quiet>,
}

impl Approach {
    pub(crate) fn new() -> Self {
        Approach { quiet: None }
    }

    /// Begins to wait for a tick, on a clock that tokio has paused. Returns `false` if this is none.
    pub(crate) fn begin(&mut self, alarm: &mut OwnAlarm, at: Tick, cx: &mut Context<'_>) -> bool {
        if !is_possible() {
            return false;
        }
        if let Next::Jump(to) = next(clock::now(), at) {
            self.quiet = None;
            alarm.set_tokio((at < Tick::MAX).then(|| before(to)));
            return true;
        }
        // A test may move the clock meanwhile.
        alarm.set_tokio(Some(instant_of(at)));
        let quiet = self.quiet.get_or_insert_with(|| Box::pin(settle::quiet()));
        if poll(quiet, cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        true
    }

    /// Takes the step to `at` if it may be taken by now. Returns whether it did; what is due fires when the alarm goes
    /// off, which may be at once.
    pub(crate) fn step(&mut self, alarm: &mut OwnAlarm, at: Tick, cx: &mut Context<'_>) -> bool {
        if self.quiet.as_mut().is_none_or(|quiet| poll(quiet, cx).is_pending()) {
            return false;
        }
        self.quiet = None;
        let now = clock::now();
        let Next::Step(to) = next(now, at) else { return false };
        if !instant::is_paused() {
            return false;
        }
        move_by(to - now);
        // After those of tokio's own timers that are due by now.
        alarm.set_tokio(Some(before(to)));
        true
    }
}

/// What comes first on the way from `now` to `at`.
fn next(now: Tick, at: Tick) -> Next {
    let left = (at - now).0;
    match (left / STEP, left % STEP) {
        (_, 0) => Next::Jump(at),
        (0 | 1, rest) => Next::Step(now + Ticks(rest)),
        (whole, _) => Next::Jump(now + Ticks((whole - 1) * STEP)),
    }
}

/// When tokio's alarm has to be set to go off at a tick that is whole milliseconds away: tokio rounds up, and the
/// milliseconds of its clock begin anywhere.
fn before(tick: Tick) -> instant::Instant {
    instant_of(tick) - Duration::from_nanos(STEP - 1)
}

/// When to set tokio's alarm on a clock that runs, if a test may pause it until `at`: so early that what is left then
/// can be approached.
pub(crate) fn ahead_of(at: instant::Instant) -> instant::Instant {
    let early = at - AHEAD;
    if early > instant::Instant::now() { early } else { at }
}

/// Tokio's alarm has gone off for a timer whose clock does not run. If that was before the deadline, to set the fraction of
/// the clock right, does that and returns `true`.
pub(crate) fn rang_early(timer: TimerLease) -> bool {
    let (now, next_wake) = (clock::now(), timer.schedule.next_wake());
    let is_early = now < next_wake && next_wake < Tick::MAX && instant::is_paused();
    if is_early {
        align(&timer, now);
        timer.schedule.wake_driver();
    }
    is_early
}

/// The alarm has gone off before a deadline, at the time `now`. Sets the fraction of the clock right.
fn align(timer: &Shards, now: Tick) {
    let left = (timer.first_deadline() - now).0;
    if left > STEP && left < Tick::MAX.0 / 2 && is_idle() {
        move_by(Ticks(left % STEP));
    }
}

/// Whether tokio has parked the runtime's thread because it has nothing to do, and calls this from there.
fn is_idle() -> bool {
    waits::while_parked(&Handle::current().metrics(), 0).is_some()
}

/// Moves the clock without letting other tasks run.
///
/// # Panics
/// If it is not paused.
pub(super) fn move_by(Ticks(nanos): Ticks) {
    // The first poll moves the clock. Later polls would let other tasks run.
    let _ = pin!(tokio::time::advance(duration_of(Ticks(nanos)))).poll(&mut Context::from_waker(Waker::noop()));
}

fn poll(quiet: &mut Quiet, cx: &mut Context<'_>) -> Poll<()> {
    // It must not spend the budget of the driver's task.
    Pin::new(&mut tokio::task::coop::unconstrained(quiet)).poll(cx)
}

#[cfg(test)]
mod tests {
    use super::*;

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
