//! [`WhenIdle`]: a thread that waits until a runtime is idle, and then acts: a test settles, a clock moves, a bubble is
//! given up.
//
// Invariants
// 1. It acts only if nothing has run for the grace, and the runtime was then found idle.
// 2. The action itself makes sure, under the lock of what it moves, that nobody has taken hold of that meanwhile.
// 3. If there is nothing to be done for long, or the runtime is not idle for long, it says why, once.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::Location;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::test_util::idle::{IsIdle, Nap, Want, Wanted, Watch};
use crate::test_util::pending::{self, Pending};

/// How long nothing may go on before it is reported, in real time.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// What a thread does when the runtime is idle.
pub(super) trait Action: Send + 'static {
    /// Whether it is for a test that settles. Any other waits until none does.
    const SETTLES: bool = false;

    /// Whether it is no reason for a report if anything goes on in the runtime. It always does on a clock that is held in
    /// tokio's place: tokio wakes the runtime again and again.
    const IS_PATIENT: bool = true;

    /// What there is to be done. Called before each look at the runtime.
    fn state(&mut self, watch: &Watch) -> State;

    /// The runtime is idle. Returns whether this acted.
    fn act(&mut self, watch: &Watch) -> bool;

    /// The runtime had seemed idle, and was not.
    fn was_not_idle(&mut self, _: &Watch) {}

    /// What to say if it did not act for `patience`.
    fn report(&self, _patience: Duration, _: &Watch) -> Option<String> {
        None
    }
}

/// What there is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// To act when the runtime is idle.
    Ready,
    /// Nothing, since somebody holds it, or since nothing waits.
    Waits,
    /// Nothing, since the clock has moved.
    Moves,
    /// Nothing any more.
    Over,
}

pub(super) struct WhenIdle<A> {
    pub(super) watch: Arc<Watch>,
    pub(super) action: A,
    /// For how long nothing may run before.
    pub(super) grace: Duration,
    /// How long it may not act until it says so.
    pub(super) patience: Duration,
    /// If tokio moves the clock of the runtime, what keeps it from that meanwhile.
    pub(super) held: Option<Wanted>,
    pub(super) print: Box<dyn Fn(&str) + Send>,
}

impl<A: Action> WhenIdle<A> {
    /// # Panics
    /// As [`Watch::assert_it_counts`] does.
    #[track_caller]
    pub(super) fn new(watch: Arc<Watch>, action: A) -> WhenIdle<A> {
        Watch::assert_it_counts();
        let (grace, patience, print) = (Duration::ZERO, PATIENCE, Box::new(print));
        WhenIdle { watch, action, grace, patience, held: None, print }
    }

    /// Starts the thread, which ends when the action is over, or with the runtime.
    ///
    /// # Panics
    /// If the system refuses the thread.
    #[track_caller]
    pub(super) fn start(self) -> JoinHandle<()> {
        match thread::Builder::new().name("hairspring-clock".into()).spawn(move || self.run()) {
            Ok(thread) => thread,
            Err(error) => panic!("hairspring could not start the thread that looks whether a runtime is idle: {error}"),
        }
    }

    fn run(mut self) {
        let watch = self.watch.clone();
        let (mut nap, mut no_alarm) = (Nap::new(), None);
        let (mut steps, mut rests_since) = (watch.steps(), Instant::now());
        let (mut waits_since, mut has_reported) = (Instant::now(), false);
        while !watch.has_ended() {
            let state = self.action.state(&watch);
            let before = std::mem::replace(&mut steps, watch.steps());
            let rests = steps == before && steps.all_rest && !watch.blocking.any_runs();
            if !rests {
                rests_since = Instant::now();
            }
            let (may_look, grace) = match state {
                State::Over => return,
                State::Ready if self.may_act() => (rests, self.grace.max(watch.blocking.grace())),
                _ => (false, self.grace),
            };
            if may_look && rests_since.elapsed() >= grace {
                // Nobody else looks until this has acted, and so woken what a move fires.
                match look(&watch, self.held.is_some(), &mut no_alarm) {
                    None => self.action.was_not_idle(&watch),
                    Some(_is_idle) if self.may_act() && self.action.act(&watch) => {
                        (waits_since, has_reported) = (Instant::now(), false);
                        nap = Nap::new();
                    }
                    Some(_) => {}
                }
                (steps, rests_since) = (watch.steps(), Instant::now());
            }
            // As long as anything goes on in the runtime, there may be no reason to act.
            let may_go_on = A::IS_PATIENT && (state == State::Waits || !self.grace.is_zero());
            if state == State::Moves || steps != before && may_go_on || !self.may_act() {
                waits_since = Instant::now();
            }
            if !has_reported && waits_since.elapsed() >= self.patience.saturating_add(self.grace) {
                has_reported = true;
                self.action.report(self.patience, &watch).inspect(|text| (self.print)(text));
            }
            nap.take(thread::park_timeout);
        }
    }

    /// Whether no other waits until the runtime is idle.
    fn may_act(&self) -> bool {
        A::SETTLES || !self.watch.any(Want::Settle)
    }
}

/// Whether the runtime is idle. On a clock that tokio has paused and we hold, tokio sleeps until its next timer in real
/// time: it is to have none of ours then.
fn look<'watch>(watch: &'watch Arc<Watch>, is_held: bool, no_alarm: &mut Option<Wanted>) -> Option<IsIdle<'watch>> {
    if is_held && no_alarm.is_none() {
        // Its drivers are woken by this, and the runtime is idle again after that.
        *no_alarm = Some(watch.want(Want::NoAlarm));
        return None;
    }
    let is_idle = watch.is_idle();
    if is_idle.is_none() && !watch.steps().all_rest {
        // A task that runs may move the clock by tokio's function, which fires tokio's timers.
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
        None if !waiting.is_empty() => "tasks go on being woken".into(),
        None => "every task waits or blocks, and no timer is left to wake one".into(),
    };
    let mut text = format!("hairspring: the paused clock has not moved for {patience:?}: {why}.\n");
    for place in holds {
        let _ = writeln!(text, "  a hold taken at {place} is alive");
    }
    if let Some(next) = waiting.first() {
        let _ = writeln!(text, "  timers waiting: {}, the next is due in {:?}", waiting.len(), next.remaining());
        text.push_str(&pending::list(waiting));
    }
    text
}

/// Prints at once. `eprintln` does not: a test harness keeps its output until the test ends, and this one may never end.
fn print(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
