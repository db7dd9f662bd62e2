//! [`Keeper`]: everything that keeps the clock of a runtime still. Its thread is in `clock_thread.rs`.
//!
//! A bubble has a keeper from the start. A runtime that a test built gets one when the test first holds its clock or
//! settles there.
//
// Invariants
// 1. A hold, or a test that settles, is in force when its call returns: the thread decides under the lock of the state.
//    What came while the clock was still may go on to run when that has ended, so nothing that was decided before takes
//    place.
// 2. While tokio's clock must stand still, one of our blocking tasks waits on the runtime. The task ends with the
//    runtime, even if the clock is still held, because the end of a runtime waits for blocking tasks.

use std::fmt::Write as _;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, mpsc};
use std::thread::Thread;
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;

use crate::clock::{self, instant};
use crate::test_util::idle::Activity;
use crate::test_util::manual::ManualClock;
use crate::test_util::own_runtime::OwnRuntime;
use crate::test_util::pending::{self, pending};
use crate::test_util::{held, lock, own_clock};
use crate::util::sync::unpoisoned;
use crate::wheel::Tick;

/// Why a test cannot go on if the thread has panicked.
pub(super) const FAILED: &str = "the thread `hairspring-clock`, which checks whether the runtime is idle, has panicked: its \
    message comes before this one";

static KEEPERS: RwLock<Vec<Arc<Keeper>>> = RwLock::new(Vec::new());

pub(crate) struct Keeper {
    pub(super) activity: Activity,
    /// `None` if the clock is tokio's.
    pub(super) clock: Option<ManualClock>,
    state: Mutex<State>,
    pub(super) thread: OnceLock<Thread>,
    pub(super) has_ended: AtomicBool,
    /// Whether its thread has panicked.
    pub(super) has_failed: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    /// Where each hold was taken.
    pub(super) holds: Vec<&'static Location<'static>>,
    /// How many tests settle.
    pub(super) settling: usize,
    /// Those that wait to be told.
    pub(super) waiting: Vec<Waiting>,
    /// Ends the task that keeps tokio from moving the clock.
    blocks: Option<mpsc::Sender<()>>,
    /// Changes whenever something begins or ends that keeps the clock still.
    pub(super) version: u64,
    /// When the drivers were last told, by tokio's clock, that they may set no alarms for times to come.
    pub(super) told: Option<Tick>,
}

/// A test that waits until the runtime is idle.
pub(super) struct Waiting {
    /// Those that began to settle later go on first.
    pub(super) number: u64,
    pub(super) tell: oneshot::Sender<()>,
    /// Whether to tell it after `PATIENCE` in any case.
    pub(super) gives_up: bool,
}

/// Why a clock must stand still, while this lives.
pub(super) struct Still {
    pub(super) keeper: Arc<Keeper>,
    /// Where it was taken, if it is a hold. Otherwise a test settles.
    hold: Option<&'static Location<'static>>,
    /// The version that it began.
    pub(super) number: u64,
}

impl Keeper {
    /// The keeper of a runtime, which lasts as long as the runtime.
    pub(super) fn of(runtime: &Handle) -> Arc<Keeper> {
        Keeper::find(runtime.id()).unwrap_or_else(|| Keeper::open(runtime, None, None))
    }

    /// Panics as [`Activity::of`] does.
    pub(super) fn open(runtime: &Handle, own: Option<Arc<OwnRuntime>>, clock: Option<ManualClock>) -> Arc<Keeper> {
        let activity = Activity::of(runtime, own);
        let mut keepers = unpoisoned(KEEPERS.write());
        if let Some(keeper) = keepers.iter().find(|keeper| keeper.runtime().id() == runtime.id()) {
            return keeper.clone();
        }
        let keeper = Arc::new(Keeper {
            activity,
            clock,
            state: Mutex::default(),
            thread: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        });
        keepers.push(keeper.clone());
        if let Some(clock) = &keeper.clock {
            own_clock::add(runtime.id(), clock.clone());
        }
        drop(keepers);
        let ends = keeper.clone();
        held::when_it_ends(runtime, move || ends.end());
        keeper
    }

    fn find(runtime: runtime::Id) -> Option<Arc<Keeper>> {
        unpoisoned(KEEPERS.read()).iter().find(|keeper| keeper.runtime().id() == runtime).cloned()
    }

    pub(super) fn here() -> Option<Arc<Keeper>> {
        Keeper::find(Handle::try_current().ok()?.id())
    }

    /// Another runtime may get the id of one that has ended.
    fn end(self: &Arc<Self>) {
        own_clock::remove(self.runtime().id());
        unpoisoned(KEEPERS.write()).retain(|known| !Arc::ptr_eq(known, self));
        self.stop();
    }

    /// From now on nothing is told that the runtime is idle.
    pub(super) fn stop(&self) {
        self.has_ended.store(true, SeqCst);
        let mut state = self.state();
        let gone = (state.blocks.take(), std::mem::take(&mut state.waiting));
        drop(state);
        drop(gone);
        self.wake();
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.activity.runtime
    }

    pub(super) fn wake(&self) {
        self.thread.get().inspect(|thread| thread.unpark());
    }

    pub(super) fn is_tokios(&self) -> bool {
        self.clock.is_none()
    }

    pub(super) fn settles(&self) -> bool {
        self.state().settling > 0
    }

    /// The time that the clock shows.
    pub(super) fn time(&self) -> Tick {
        let _entered = self.runtime().enter();
        clock::now()
    }

    /// Whether tokio's clock stands still: a task may have resumed it.
    pub(super) fn is_paused(&self) -> bool {
        let _entered = self.runtime().enter();
        instant::is_paused()
    }

    /// Keeps the clock still: for a hold taken here, or for a test that settles.
    pub(super) fn keep_still(self: &Arc<Self>, hold: Option<&'static Location<'static>>) -> Still {
        let mut state = self.state();
        match hold {
            Some(place) => state.holds.push(place),
            None => state.settling += 1,
        }
        state.version += 1;
        let number = state.version;
        if self.is_tokios() && state.blocks.is_none() && !self.has_ended.load(SeqCst) {
            let (sender, gone) = mpsc::channel::<()>();
            self.runtime().spawn_blocking(move || gone.recv());
            state.blocks = Some(sender);
            self.activity.our_work.store(1, SeqCst);
            // It may be about to move its clock.
            self.activity.goes_round(|| self.has_ended.load(SeqCst));
        }
        drop(state);
        if hold.is_none() && self.is_tokios() {
            self.let_none_alarm();
        }
        Still { keeper: self.clone(), hold, number }
    }

    /// While tokio's clock must stand still, tokio parks in real time until its next timer. So that the runtime can be
    /// found idle, that may be none of our alarms.
    pub(super) fn let_none_alarm(&self) {
        self.state().told = Some(self.time());
        held::wake_drivers_on(self.runtime());
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }

    /// Notes that a test waits to be told, unless the runtime has ended.
    pub(super) fn is_told(&self, waiting: Waiting) -> bool {
        let mut state = self.state();
        let lasts = !self.has_ended.load(SeqCst);
        if lasts {
            state.waiting.push(waiting);
        }
        lasts
    }

    /// What is left of this if nothing that keeps the clock still has begun or ended since. Until it is dropped,
    /// nothing can.
    pub(super) fn unchanged(&self, version: u64) -> Option<MutexGuard<'_, State>> {
        Some(self.state()).filter(|state| state.version == version)
    }

    /// Says why the clock does not move.
    pub(super) fn report(&self, patience: Duration) -> String {
        let (holds, timers) = (self.state().holds.clone(), self.timers());
        let why = match self.activity.describe() {
            _ if !holds.is_empty() => "it is held".into(),
            Some(what) => what,
            None if !timers.is_empty() => "tasks keep being woken".into(),
            None => "every task waits or blocks, and no timer is left to wake one".into(),
        };
        let mut text = format!("the paused clock has not moved for {patience:?}: {why}.\n");
        for place in holds {
            let _ = writeln!(text, "  a hold taken at {place} is still alive");
        }
        text + &timers
    }

    /// Describes the timers that wait, if any do.
    pub(super) fn timers(&self) -> String {
        let entered = self.runtime().enter();
        let waiting = pending();
        drop(entered);
        let Some(next) = waiting.first() else { return String::new() };
        let all = pending::list(&waiting);
        format!("  timers waiting: {}, the next is {}\n{all}", waiting.len(), next.due())
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let keeper = &self.keeper;
        let mut state = keeper.state();
        match self.hold {
            Some(place) => {
                let at = state.holds.iter().position(|held| *held == place);
                at.map(|at| state.holds.swap_remove(at));
            }
            None => state.settling -= 1,
        }
        state.version += 1;
        let may_alarm = self.hold.is_none() && state.settling == 0 && keeper.is_tokios();
        let is_still = state.settling > 0 || !state.holds.is_empty();
        let blocks = if is_still { None } else { state.blocks.take() };
        keeper.activity.our_work.store(usize::from(state.blocks.is_some()), SeqCst);
        drop(state);
        drop(blocks);
        if may_alarm {
            held::wake_drivers_on(keeper.runtime());
        }
    }
}
