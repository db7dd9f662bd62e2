//! The thread of a [`Keeper`], which acts once the runtime is idle: it tells a test that has settled, moves the clock, or
//! gives a bubble up. It reports a clock that stands still.
//
// Invariants
// 1. One thread acts, and only if nothing has run for long enough and the runtime was then found idle.
// 2. What the keeper's lock shows while it acts is what it decided by: see [`Keeper::unchanged`].

use std::io::{self, Write as _};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::clock::{self, source::LAST};
use crate::test_util::idle::{Nap, Steps};
use crate::test_util::keeper::{Keeper, State, Waiting};
use crate::test_util::manual::ManualClock;
use crate::wheel::Tick;

/// The clock may stand still for this long, in real time, before it is reported.
const PATIENCE: Duration = Duration::from_secs(5);

/// The least patience. tokio moves its clock right after a worker counts as parked, and a check at that time keeps it
/// from that.
const LEAST: Duration = Duration::from_millis(20);

/// How a keeper treats the bubble on its runtime.
pub(super) struct Limits {
    /// What messages begin with.
    pub(super) label: String,
    /// The clock moves only after nothing has run for so long.
    pub(super) grace: Duration,
    /// The bubble is given up after nothing has run for so long.
    pub(super) patience: Duration,
    /// Or once the clock has passed this.
    pub(super) limit: Tick,
    pub(super) give_up: oneshot::Sender<End>,
    /// Disconnected once the runtime, with its blocking work, has ended.
    pub(super) ends: mpsc::Receiver<()>,
}

/// Why a bubble is given up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Deadlock,
    Limit,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Tell,
    MoveClock,
    GiveUp,
    /// Nothing, because the clock is held.
    Held,
    /// Nothing, because a test settles and is running.
    Later,
    /// Nothing at all: no bubble, and no test settles.
    Rest,
}

/// Lets the thread tell a test that the runtime is idle.
pub(super) fn tell_when_idle(keeper: &Arc<Keeper>, waiting: Waiting) {
    if keeper.is_told(waiting) {
        start(keeper, None);
        keeper.wake();
    }
}

/// Starts the thread, unless it runs. It ends with the runtime.
pub(super) fn start(keeper: &Arc<Keeper>, limits: Option<Limits>) {
    keeper.thread.get_or_init(|| {
        let runs = Run::new(keeper.clone(), limits);
        let run = || {
            let _ends = Ends(runs.keeper.clone());
            runs.run();
        };
        match thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            Ok(thread) => thread.thread().clone(),
            Err(error) => {
                panic!("hairspring failed to start the thread that checks whether a runtime is idle: {error}")
            }
        }
    });
}

/// Lets nobody wait for a thread that has panicked.
struct Ends(Arc<Keeper>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.has_failed.store(thread::panicking(), SeqCst);
        self.0.stop();
    }
}

/// The thread's work.
struct Run {
    keeper: Arc<Keeper>,
    limits: Option<Limits>,
    /// At the last look.
    steps: Steps,
    time: Tick,
    looked: Instant,
    /// The clock's time at the start.
    began: Tick,
    /// The bubble's own future at the last look, and since when it has not run, until that is reported.
    own: Option<u64>,
    absent: Option<Instant>,
    /// For how long nothing has run, as far as it looked.
    rested: Duration,
    /// Since when it should have acted.
    stuck: Instant,
    has_reported: bool,
    /// Whether it then waited to tell a test.
    tells: bool,
}

impl Run {
    fn new(keeper: Arc<Keeper>, limits: Option<Limits>) -> Run {
        let (steps, time, now) = (keeper.activity.steps(), keeper.time(), Instant::now());
        Run {
            keeper,
            limits,
            steps,
            time,
            looked: now,
            began: time,
            own: None,
            absent: None,
            rested: Duration::ZERO,
            stuck: now,
            has_reported: false,
            tells: false,
        }
    }

    fn run(mut self) {
        let mut nap = Nap::new();
        while !self.keeper.has_ended.load(SeqCst) {
            let (job, version) = self.job();
            let ran = self.look();
            if self.limits.as_ref().is_some_and(|limits| self.time > limits.limit) {
                self.give_up(version, End::Limit);
                continue;
            }
            if job == Job::Rest {
                thread::park();
                self.acted();
                nap = Nap::new();
                continue;
            }
            let (needed, patience) = self.needed(job);
            if needed.is_some_and(|needed| self.steps.all_rest && self.rested >= needed) {
                if self.act(job, version) {
                    self.acted();
                    nap = Nap::new();
                }
                self.rested = Duration::ZERO;
                self.steps = self.keeper.activity.steps();
            }
            let tells = job == Job::Tell;
            if std::mem::replace(&mut self.tells, tells) != tells {
                self.acted();
            }
            // A bubble with a grace waits for what comes from outside.
            if job == Job::Later || ran && !self.grace().is_zero() {
                self.stuck = Instant::now();
            }
            if self.stuck.elapsed() >= PATIENCE.saturating_add(patience) {
                self.report(job);
            }
            nap.take(thread::park_timeout);
        }
        let ends = self.limits.as_ref().map(|limits| limits.ends.recv_timeout(PATIENCE));
        if ends == Some(Err(mpsc::RecvTimeoutError::Timeout)) {
            self.print("the bubble's test has ended, and the bubble waits for blocking work that is left\n");
        }
    }

    /// Whether the bubble's own future has ended, or is no longer waited for.
    fn is_over(&self) -> bool {
        self.limits.as_ref().is_none_or(|limits| limits.give_up.is_closed())
    }

    fn grace(&self) -> Duration {
        self.limits.as_ref().map_or(Duration::ZERO, |limits| limits.grace)
    }

    /// For how long nothing may run before this is done, and how much later than usual it is reported.
    fn needed(&self, job: Job) -> (Option<Duration>, Duration) {
        let grace = self.grace();
        match (job, &self.limits) {
            (Job::Tell, _) => (Some(Duration::ZERO), Duration::ZERO),
            (Job::GiveUp, Some(limits)) => (Some(limits.patience.max(LEAST)), limits.patience),
            (Job::MoveClock, _) => (Some(grace), grace),
            _ => (None, grace),
        }
    }

    fn job(&self) -> (Job, u64) {
        // Before locking: the clock has locks of its own.
        let has_work = self.keeper.clock.as_ref().is_some_and(ManualClock::has_work);
        let mut state = self.keeper.state();
        state.waiting.retain(|waiting| !waiting.tell.is_closed());
        let is_over = self.is_over();
        let job = match () {
            () if !state.waiting.is_empty() => Job::Tell,
            () if is_over => Job::Rest,
            () if state.settling > 0 => Job::Later,
            () if !state.holds.is_empty() => Job::Held,
            () if has_work => Job::MoveClock,
            () => Job::GiveUp,
        };
        (job, state.version)
    }

    /// Returns whether anything ran since the last look. If this thread did not run either, it does not know how long
    /// the others had time.
    fn look(&mut self) -> bool {
        let (steps, time, now) = (self.keeper.activity.steps(), self.keeper.time(), Instant::now());
        let ran = steps != self.steps;
        self.rested += (now - self.looked).min(2 * Nap::LONGEST);
        if ran || !steps.all_rest {
            self.rested = Duration::ZERO;
        }
        let own = self.keeper.activity.own.as_ref().and_then(|own| own.waits());
        if own.is_none() || own != self.own {
            (self.own, self.absent) = (own, Some(now));
        }
        if time != self.time {
            self.acted();
            let longest = PATIENCE.saturating_add(self.grace());
            if !self.is_over() && self.absent.is_some_and(|since| now - since >= longest) {
                self.absent = None;
                self.print(&format!(
                    "the bubble's own future has not run for {longest:?}, but its clock moves and has come \
                     {:?}: set a limit with `Bubble::limit`\n{}",
                    clock::duration_of(time - self.began),
                    self.keeper.timers()
                ));
            }
        }
        (self.steps, self.time, self.looked) = (steps, time, now);
        ran
    }

    fn acted(&mut self) {
        (self.stuck, self.has_reported) = (Instant::now(), false);
    }

    /// Does it if the runtime is idle and nothing has changed. Returns whether it did.
    fn act(&mut self, job: Job, version: u64) -> bool {
        if !self.keeper.activity.is_idle(self.steps) {
            return false;
        }
        let keeper = &self.keeper;
        match (job, &keeper.clock) {
            (Job::Tell, None) if keeper.state().told != Some(keeper.time()) && keeper.is_paused() => {
                // A task has moved the clock. What is due by now fires.
                keeper.let_none_alarm();
                false
            }
            (Job::Tell, _) => keeper.unchanged(version).is_some_and(|state| tell_the_last(state, |_| true)),
            (Job::MoveClock, Some(clock)) => {
                let limit = self.limits.as_ref().map_or(LAST, |limits| limits.limit);
                let moved = clock.step(limit, |_| keeper.unchanged(version)).is_some();
                moved || clock.is_next_after(limit) && self.give_up(version, End::Limit)
            }
            // If timers on tokio's clock were left, tokio has moved it by now.
            (Job::GiveUp, clock)
                if keeper.time() == self.time && !clock.as_ref().is_some_and(ManualClock::has_work) =>
            {
                self.give_up(version, End::Deadlock)
            }
            _ => false,
        }
    }

    fn give_up(&mut self, version: u64, why: End) -> bool {
        let unchanged = self.keeper.unchanged(version);
        let limits = unchanged.as_ref().and_then(|_| self.limits.take());
        limits.is_some_and(|limits| limits.give_up.send(why).is_ok())
    }

    fn report(&mut self, job: Job) {
        if job == Job::Tell && tell_the_last(self.keeper.state(), |waiting| waiting.gives_up) {
            return self.acted();
        }
        if !std::mem::replace(&mut self.has_reported, true) {
            self.print(&match job {
                Job::Tell => {
                    let what = self.keeper.activity.describe().unwrap_or_else(|| "tasks keep being woken".into());
                    format!("the runtime has not settled after {PATIENCE:?}: {what}\n")
                }
                _ => self.keeper.report(PATIENCE),
            });
        }
    }

    /// Bypasses the test harness, which keeps the output of `eprintln` until the test ends.
    fn print(&self, text: &str) {
        let label = self.limits.as_ref().map_or("", |limits| &limits.label);
        let _ = io::stderr().write_all(format!("hairspring: {label}{text}").as_bytes());
    }
}

/// Tells the last that began to settle, of those that are `meant`, that it may go on.
fn tell_the_last(mut state: MutexGuard<'_, State>, meant: impl Fn(&Waiting) -> bool) -> bool {
    let all = state.waiting.iter().enumerate().filter(|(_, waiting)| meant(waiting));
    let last = all.max_by_key(|(_, waiting)| waiting.number).map(|(at, _)| at);
    let Some(waiting) = last.map(|at| state.waiting.swap_remove(at)) else { return false };
    drop(state);
    waiting.tell.send(()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use tokio::runtime::Builder;

    use super::*;
    use crate::test_util::idle::wait_until;

    /// A bug that this crate had: a hold that was taken while a bubble was about to be given up ended the bubble.
    #[test]
    fn a_bubble_is_not_given_up_if_its_clock_was_held_just_now() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let keeper = Keeper::open(runtime.handle(), None, Some(ManualClock::new()));
        let ((give_up, mut told), (_, ends)) = (oneshot::channel(), mpsc::channel());
        let (grace, patience) = (Duration::ZERO, Duration::ZERO);
        let limits = Limits { label: String::new(), grace, patience, limit: LAST, give_up, ends };
        let mut run = Run::new(keeper.clone(), Some(limits));
        let mut acts = |version| {
            wait_until(Duration::MAX, || {
                run.look();
                run.steps.all_rest
            });
            run.act(Job::GiveUp, version)
        };
        let before = keeper.state().version;
        drop(keeper.keep_still(Some(Location::caller())));
        assert!(!acts(before));
        assert_eq!(told.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        let now = keeper.state().version;
        // A thread of the runtime may run just then.
        wait_until(Duration::MAX, || acts(now));
        assert_eq!(told.try_recv(), Ok(End::Deadlock));
    }
}
