//! Whether anything can still happen in a bubble, and what waits in it if not.
//
// Invariants
// 1. A bubble is given up only if it was quiet for its patience, and then found idle while its clock did not move and
//    nothing held it. On tokio's clock the look itself makes tokio move time if a timer is left. So no timer was, and
//    nothing ran that could make one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{self, Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task;

use crate::clock;
use crate::test_util::idle::Watch;
use crate::test_util::manual::ManualClock;
use crate::test_util::paused;
use crate::test_util::pending::{self, Pending};
use crate::test_util::when_idle::{Action, Running, State, WhenIdle};
use crate::wheel::Tick;

/// Gives the current runtime up, once nothing has run for `patience` and nothing can run any more. What is returned comes
/// when it does.
///
/// # Panics
/// If the system refuses a thread.
pub(super) fn give_up_after(patience: Duration) -> (Running, oneshot::Receiver<()>) {
    let watch = Watch::of(&Handle::current());
    let (sender, given_up) = oneshot::channel();
    let action = GiveUp { watch: watch.clone(), given_up: Some(sender), now: None };
    let looks = WhenIdle { grace: patience, patience: Duration::MAX, ..WhenIdle::new(watch, action) };
    (looks.start(), given_up)
}

struct GiveUp {
    watch: Arc<Watch>,
    given_up: Option<oneshot::Sender<()>>,
    /// The time before the look.
    now: Option<Tick>,
}

impl Action for GiveUp {
    fn state(&mut self) -> State {
        self.now = self.now();
        match () {
            () if self.given_up.is_none() => State::Over,
            () if self.watch.settles() => State::Settles,
            () if self.now.is_none() || self.is_held() => State::Waits,
            () => State::Ready,
        }
    }

    fn act(&mut self) -> bool {
        let is_stuck = !self.is_held() && !self.has_timers() && self.now() == self.now;
        is_stuck && self.given_up.take().is_some_and(|given_up| given_up.send(()).is_ok())
    }

    fn report(&self, _: Duration, _: Option<&str>) -> Option<String> {
        None
    }
}

impl GiveUp {
    fn is_held(&self) -> bool {
        !self.watch.holds().is_empty() || self.clock().is_some_and(|clock| !clock.holds().is_empty())
    }

    /// Whether a timer waits that moves the clock. Those on tokio's clock have moved it when the runtime is idle.
    fn has_timers(&self) -> bool {
        self.clock().is_some_and(|clock| clock.next().is_some())
    }

    /// `None` if time goes on because a test has resumed it.
    fn now(&self) -> Option<Tick> {
        if self.watch.runtime().runtime_flavor() == RuntimeFlavor::CurrentThread {
            let _entered = self.watch.runtime().enter();
            return Some(clock::now());
        }
        self.clock().map(|clock| clock.tick())
    }

    /// The clock of a multi-thread runtime, if it is paused.
    fn clock(&self) -> Option<ManualClock> {
        paused::clock(self.watch.runtime())
    }
}

/// The tasks of a runtime that have not ended, as far as tokio tells.
#[derive(Clone, Default)]
pub(super) struct Spawned(Arc<Mutex<HashMap<task::Id, &'static Location<'static>>>>);

impl Spawned {
    /// Lists the tasks of a runtime that is to be built.
    #[cfg(tokio_unstable)]
    pub(super) fn on(builder: &mut Builder) -> Spawned {
        let spawned = Spawned::default();
        let (begins, ends) = (spawned.clone(), spawned.clone());
        builder.on_task_spawn(move |task| {
            begins.lock().insert(task.id(), task.spawned_at());
        });
        builder.on_task_terminate(move |task| {
            ends.lock().remove(&task.id());
        });
        spawned
    }

    #[cfg(not(tokio_unstable))]
    pub(super) fn on(_: &mut Builder) -> Spawned {
        Spawned::default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<task::Id, &'static Location<'static>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks and timers of a runtime, but for this crate's own.
pub(super) struct Waiting {
    tasks: usize,
    places: Vec<&'static Location<'static>>,
    timers: Vec<Pending>,
}

impl Waiting {
    /// What waits on the current runtime.
    pub(super) fn here(spawned: &Spawned) -> Waiting {
        let runtime = Handle::current();
        let ours = ours_on(runtime.id());
        let theirs = spawned.lock().iter().filter(|(task, _)| !ours.contains(task)).map(|(_, place)| *place).collect();
        let mut waiting = Waiting {
            tasks: runtime.metrics().num_alive_tasks().saturating_sub(ours.len()),
            places: theirs,
            timers: pending::pending(),
        };
        waiting.places.sort_unstable_by_key(|place| (place.file(), place.line(), place.column()));
        waiting
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.tasks == 0
    }
}

/// Such as `waiting: 2 tasks, 1 timer`, and a line for each whose place is known.
impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        writeln!(f, "waiting: {}, {}", count(self.tasks, "task"), count(self.timers.len(), "timer"))?;
        for place in &self.places {
            writeln!(f, "  Task spawned at {place}")?;
        }
        f.write_str(&pending::list(&self.timers))
    }
}

/// This crate's tasks that have begun and not ended.
static LIVE: LazyLock<Mutex<HashSet<Live>>> = LazyLock::new(Mutex::default);

#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Live {
    runtime: runtime::Id,
    task: task::Id,
}

/// A task of this crate's own, listed so that a test can tell it from its own.
pub(crate) async fn task(runtime: runtime::Id, task: impl Future<Output = ()>) {
    struct Listed(Live);
    impl Drop for Listed {
        fn drop(&mut self) {
            live().remove(&self.0);
        }
    }
    let listed = Listed(Live { runtime, task: task::id() });
    live().insert(listed.0);
    let _listed = listed;
    task.await;
}

/// This crate's tasks on a runtime that have begun and not ended.
fn ours_on(runtime: runtime::Id) -> Vec<task::Id> {
    live().iter().filter(|live| live.runtime == runtime).map(|live| live.task).collect()
}

fn live() -> MutexGuard<'static, HashSet<Live>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
