//! What a program may see: the clock moves by itself only while everything waits, and then exactly to the next deadline.
//! Besides, it moves while the program itself moves it, and only then may a task see a time later than it expects.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use hairspring::test_util::{self, Hold, ManualClock, settle};
use hairspring::{DelayQueue, Duration, Instant, Interval, Sleep, Timeout, Timer};
use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock, oneshot};

/// The time of the clock under test, counted from the start of the program.
pub(super) type Time = Duration;

/// The clock under test.
#[derive(Clone)]
pub(super) enum Clock {
    OfTheRuntime,
    Manual(ManualClock, Timer),
}

impl Clock {
    pub(super) fn now(&self) -> Instant {
        match self {
            Clock::OfTheRuntime => Instant::now(),
            Clock::Manual(clock, _) => clock.now(),
        }
    }

    pub(super) fn sleep(&self, length: Duration) -> Sleep {
        match self {
            Clock::OfTheRuntime => hairspring::sleep(length),
            Clock::Manual(_, timer) => timer.sleep(length),
        }
    }

    pub(super) fn timeout_at<F: Future>(&self, at: Instant, future: F) -> Timeout<F> {
        match self {
            Clock::OfTheRuntime => hairspring::timeout_at(at, future),
            Clock::Manual(_, timer) => timer.timeout_at(at, future),
        }
    }

    pub(super) fn interval_at(&self, at: Instant, period: Duration) -> Interval {
        match self {
            Clock::OfTheRuntime => hairspring::interval_at(at, period),
            Clock::Manual(_, timer) => timer.interval_at(at, period),
        }
    }

    pub(super) fn queue(&self) -> DelayQueue<()> {
        match self {
            Clock::OfTheRuntime => DelayQueue::new(),
            Clock::Manual(_, timer) => DelayQueue::with_timer(timer),
        }
    }
}

/// What a program has seen, in order: a task, its step, and the time afterwards.
pub(super) type Event = (usize, usize, Time);

/// What the program does to time. While several tasks move it at once, that is one move.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: Time,
    to: Time,
    /// Whether all tasks run at each deadline on the way: then only a hold does not stop it.
    settles: bool,
}

#[derive(Default)]
struct State {
    trace: Vec<Event>,
    latest: Time,
    moves: Vec<Move>,
    moving: usize,
    /// How many moves have ended.
    moved: usize,
    fault: Option<String>,
    /// A message from each thread that holds the clock, when it ends.
    outside: Vec<oneshot::Receiver<()>>,
    /// How many hold a manual clock now, and how many ever did.
    holds: [usize; 2],
}

/// Keeps the clock still.
pub(super) struct Held(Arc<Model>, #[allow(dead_code)] Hold);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().holds[0] -= 1;
    }
}

pub(super) struct Model {
    pub(super) clock: Clock,
    pub(super) start: Instant,
    /// Taken to control the clock, alone by who resumes it: then nobody else can move or hold it.
    pub(super) control: RwLock<()>,
    /// Taken by who resumes the clock, and shared by threads that hold it. Nobody waits for it.
    pub(super) runs: RwLock<()>,
    /// How many steps have ever controlled the clock, and how many do now.
    pub(super) controls: [AtomicUsize; 2],
    /// Called when a step that controls the clock ends.
    pub(super) is_free: Notify,
    /// How many tasks and threads compute.
    pub(super) busy: AtomicUsize,
    /// Whether the clock is tokio's. It rounds deadlines up to milliseconds, and moves by whole ones from a time that may
    /// lie between two: deadlines are met up to two milliseconds late.
    rounds: bool,
    state: Mutex<State>,
}

impl Model {
    pub(super) fn new(clock: Clock, rounds: bool) -> Model {
        Model {
            start: clock.now(),
            clock,
            control: RwLock::default(),
            runs: RwLock::default(),
            controls: [AtomicUsize::new(0), AtomicUsize::new(0)],
            is_free: Notify::new(),
            busy: AtomicUsize::new(0),
            rounds,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the first fault. The program goes on.
    pub(super) fn require(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.lock().fault.get_or_insert_with(what);
        }
    }

    /// The trace so far, or the first fault.
    pub(super) fn trace(&self) -> Result<Vec<Event>, String> {
        let state = self.lock();
        state.fault.clone().map_or_else(|| Ok(state.trace.clone()), Err)
    }

    pub(super) fn note(&self, task: usize, step: usize, at: Time) {
        self.lock().trace.push((task, step, at));
    }

    /// Returns the time, which has to be as expected.
    pub(super) fn sees(&self, expected: Time, after: impl FnOnce() -> String) -> Time {
        self.look(expected, false, after)
    }

    /// The same after a step during which a task that settles may have moved the clock.
    pub(super) fn sees_at_least(&self, expected: Time, after: impl FnOnce() -> String) -> Time {
        self.look(expected, true, after)
    }

    pub(super) fn look(&self, expected: Time, settles: bool, after: impl FnOnce() -> String) -> Time {
        let mut state = self.lock();
        let shown = self.clock.now() - self.start;
        let wrong = match () {
            () if shown < state.latest => Some(("went back", state.latest)),
            () if shown < expected => Some(("is early", expected)),
            () if !self.may_pass(&state, expected, shown, settles) => Some(("is late", expected)),
            () => None,
        };
        if let Some((how, expected)) = wrong.filter(|_| state.fault.is_none()) {
            let (after, last) = (after(), state.moves.last());
            state.fault = Some(format!("the time {how}: {shown:?} instead of {expected:?}, after {after}; {last:?}"));
        }
        state.latest = state.latest.max(shown);
        shown
    }

    /// Whether the program has moved the clock all the way from one time to a later one, or to the same.
    pub(super) fn has_moved(&self, from: Time, to: Time, settles: bool) -> bool {
        self.may_pass(&self.lock(), from, to, settles)
    }

    fn may_pass(&self, state: &State, from: Time, to: Time, settles: bool) -> bool {
        let rounded = if self.rounds { Duration::from_millis(2) } else { Duration::ZERO };
        let moves = state.moves.iter().filter(|by| settles || !by.settles);
        let reached =
            moves.fold(from, |reached, by| if by.from <= reached + rounded { reached.max(by.to) } else { reached });
        to <= reached + rounded
    }

    /// The program begins to move the clock this far from the time that was last seen, or to let it run.
    pub(super) fn begin_move(&self, by: Option<Duration>, settles: bool) {
        let mut state = self.lock();
        if state.moving == 0 {
            let from = state.latest;
            state.moves.push(Move { from, to: from, settles: true });
        }
        state.moving += 1;
        let all = state.moves.last_mut().expect("one was begun");
        all.to = by.map_or(Time::MAX / 2, |by| all.to + by);
        all.settles &= settles;
    }

    pub(super) fn end_move(&self) {
        let mut state = self.lock();
        state.moving -= 1;
        state.moved += 1;
        if state.moving == 0 {
            let now = self.clock.now() - self.start;
            state.moves.last_mut().expect("one was begun").to = now;
        }
    }

    pub(super) fn hold(self: &Arc<Self>) -> Held {
        let mut state = self.lock();
        state.holds = state.holds.map(|count| count + 1);
        drop(state);
        Held(self.clone(), test_util::hold())
    }

    /// Moves a manual clock to the next deadline whenever the runtime has settled, and nothing holds the clock or has since,
    /// and no move has ended since: it may have woken tasks after the runtime had settled.
    pub(super) async fn moves_its_clock(self: Arc<Self>) {
        let Clock::Manual(clock, _) = &self.clock else { return };
        loop {
            let before = {
                let state = self.lock();
                (state.holds, state.moved)
            };
            settle().await;
            if self.controls[1].load(SeqCst) > 0 {
                self.is_free.notified().await;
                continue;
            }
            let state = self.lock();
            if before.0[0] == 0 && before == (state.holds, state.moved) {
                clock.advance_to_next();
            }
        }
    }

    /// Lets a thread hold the clock again and again. Meanwhile only the program may move it.
    pub(super) fn hold_outside(self: &Arc<Self>, real: Duration) {
        let (model, runtime, (ends, ended)) = (self.clone(), Handle::current(), oneshot::channel());
        self.lock().outside.push(ended);
        thread::spawn(move || {
            let _inside = runtime.enter();
            for _ in 0..20 {
                thread::sleep(real / 20);
                // Nobody resumes the clock during the hold.
                let Ok(_stands) = model.runs.try_read() else { continue };
                let _hold = model.hold();
                let before = model.clock.now() - model.start;
                thread::sleep(real / 20);
                let after = model.clock.now() - model.start;
                let stands = model.has_moved(before, after, true);
                model.require(stands, || format!("a clock that was held moved from {before:?} to {after:?}"));
            }
            let _ = ends.send(());
        });
    }

    /// Waits for the threads that hold the clock. A bubble does not see them, and gives up if none runs for a second.
    pub(super) async fn waits_for_threads(self: &Arc<Self>) {
        let _hold = self.hold();
        let outside = std::mem::take(&mut self.lock().outside);
        for ended in outside {
            ended.await.expect("the thread ends");
        }
    }

    /// Counts code that computes, while the result lives.
    pub(super) fn computes(self: Arc<Self>) -> Computes {
        self.busy.fetch_add(1, SeqCst);
        Computes(self)
    }
}

pub(super) struct Computes(Arc<Model>);

impl Drop for Computes {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, SeqCst);
    }
}
