//! [`WhenIdle`]: a thread that waits until a runtime is idle, and then acts: settles a test, moves a clock, or gives up
//! a bubble.
//
// Invariants
// 1. It acts only if nothing has run for the grace and the runtime was then found idle.
// 2. The action itself checks, under the lock of the claims on the clock it moves, that the clock is not held by now.
// 3. If there is nothing to do or the runtime is busy for long, it says why, once.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::panic::Location;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::test_util::hold::{Claim, Claimed};
use crate::test_util::idle::{IsIdle, Nap, Watch};
use crate::test_util::pending::{self, Pending};

/// Nothing may happen for this long, in real time, before it is reported.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) trait Action: Send + 'static {
    /// Whether activity in the runtime postpones the report. Not if we hold tokio's clock, because tokio keeps waking
    /// the runtime.
    const IS_PATIENT: bool = true;

    fn state(&mut self, watch: &Watch) -> State;

    /// The runtime is idle. Returns whether this acted. To let the alarms be set again wakes the drivers, so that is
    /// part of the action: a moment later, it would change the order in which a bubble runs its tasks.
    fn act(&mut self, watch: &Watch, no_alarm: &mut Option<Claimed>) -> bool;

    /// The runtime had seemed idle, but was not.
    fn was_not_idle(&mut self, _: &Watch) {}

    /// The message if it has not acted for `patience`.
    fn report(&mut self, _patience: Duration, _: &Watch) -> Option<String> {
        None
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Act when the runtime is idle.
    Ready,
    /// Nothing, because it is held or no timer waits.
    Waits,
    /// Nothing yet, because the clock has moved, or a test settles.
    Later,
    /// Nothing any more.
    Over,
}

pub(super) struct WhenIdle<A> {
    pub(super) watch: Arc<Watch>,
    pub(super) action: A,
    /// How long nothing may run before it acts.
    pub(super) grace: Duration,
    /// How long it may fail to act before it reports.
    pub(super) patience: Duration,
    /// Keeps tokio from moving the runtime's clock, if tokio does.
    pub(super) held: Option<Claimed>,
    pub(super) print: Box<dyn Fn(&str) + Send>,
}

impl<A: Action> WhenIdle<A> {
    /// Panics as [`Watch::assert_it_counts`] does.
    #[track_caller]
    pub(super) fn new(watch: Arc<Watch>, action: A) -> WhenIdle<A> {
        Watch::assert_it_counts();
        let (grace, patience, print) = (Duration::ZERO, PATIENCE, Box::new(print));
        WhenIdle { watch, action, grace, patience, held: None, print }
    }

    /// Starts the thread, which ends when the action is over, or with the runtime.
    #[track_caller]
    pub(super) fn start(self) -> JoinHandle<()> {
        match self.try_start() {
            Ok(thread) => thread,
            Err(error) => {
                panic!("hairspring failed to start the thread that checks whether a runtime is idle: {error}")
            }
        }
    }

    pub(super) fn try_start(self) -> io::Result<JoinHandle<()>> {
        thread::Builder::new().name("hairspring-clock".into()).spawn(move || self.run())
    }

    fn run(mut self) {
        let watch = self.watch.clone();
        let (mut nap, mut no_alarm) = (Nap::new(), None);
        let (mut steps, mut rests_since) = (watch.steps(), Instant::now());
        let (mut waits_since, mut has_reported) = (Instant::now(), false);
        while !watch.has_ended() {
            let state = self.action.state(&watch);
            let before = std::mem::replace(&mut steps, watch.steps());
            let rests = steps == before && watch.rests().is_some();
            if !rests {
                rests_since = Instant::now();
            }
            let (may_look, grace) = match state {
                State::Over => return,
                State::Ready => (rests, self.grace.max(watch.grace())),
                _ => (false, self.grace),
            };
            if may_look && rests_since.elapsed() >= grace {
                // No other thread checks until this has acted and woken the tasks of timers that fired.
                let is_idle = read_idle(&watch, self.held.is_some(), &mut no_alarm);
                if is_idle.is_none() {
                    self.action.was_not_idle(&watch);
                } else if self.action.act(&watch, &mut no_alarm) {
                    (waits_since, has_reported) = (Instant::now(), false);
                    nap = Nap::new();
                }
                (steps, rests_since) = (watch.steps(), Instant::now());
            }
            // While anything happens in the runtime, it may be right not to act.
            let may_go_on = A::IS_PATIENT && (state == State::Waits || !self.grace.is_zero());
            if state == State::Later || steps != before && may_go_on {
                waits_since = Instant::now();
            }
            if !has_reported && waits_since.elapsed() >= self.patience.saturating_add(self.grace) {
                has_reported = true;
                self.action.report(self.patience, &watch).inspect(|text| (self.print)(text));
            }
            nap.take(thread::park_timeout);
        }
    }
}

/// Whether the runtime is idle. While we hold a clock that tokio has paused, tokio parks in real time until its next
/// timer, so none of our alarms may be set.
fn read_idle<'watch>(
    watch: &'watch Arc<Watch>,
    is_held: bool,
    no_alarm: &mut Option<Claimed>,
) -> Option<IsIdle<'watch>> {
    if is_held && no_alarm.is_none() {
        // This wakes the drivers, and the runtime is idle again after that.
        *no_alarm = Some(watch.claim(Claim::NoAlarm));
        return None;
    }
    let is_idle = watch.is_idle();
    if is_idle.is_none() && !watch.steps().all_rest {
        // A running task may move the clock with tokio's function, which fires tokio's timers.
        *no_alarm = None;
    }
    is_idle
}

/// Says why a clock does not move.
pub(super) fn report(
    patience: Duration,
    watch: &Watch,
    holds: &[&'static Location<'static>],
    waiting: &[Pending],
) -> String {
    let why = match watch.describe() {
        _ if !holds.is_empty() => "it is held".into(),
        Some(what) => what,
        None if waiting.first().is_some_and(Pending::ends) => "tasks keep being woken".into(),
        None => "every task waits or blocks, and no timer is left to wake one".into(),
    };
    let mut text = format!("hairspring: the paused clock has not moved for {patience:?}: {why}.\n");
    for place in holds {
        let _ = writeln!(text, "  a hold taken at {place} is still alive");
    }
    if let Some(next) = waiting.first() {
        let _ = writeln!(text, "  timers waiting: {}, the next is {}", waiting.len(), next.due());
        text.push_str(&pending::list(waiting));
    }
    text
}

/// Bypasses the test harness, which keeps the output of `eprintln` until the test ends.
fn print(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
