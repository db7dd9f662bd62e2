//! [`Watcher`]: a thread that looks whether anything can still happen in a bubble.
//
// Invariants
// 1. A bubble is given up only if it was quiet for its patience, and then found idle while its clock did not move and
//    nothing held it. On tokio's clock the look itself makes tokio move time if a timer is left. So no timer was, and
//    nothing ran that could make one.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock;
use crate::test_util::idle::Watch;
use crate::test_util::manual::ManualClock;
use crate::test_util::nap::Quiet;
use crate::test_util::paused;
use crate::test_util::pending::{self, Pending};
use crate::wheel::Tick;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tokio::runtime::{self, Builder, Handle, RuntimeFlavor};
use tokio::task;

/// How long a bubble stays quiet until it is given up.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same if the system does not show blocking work, which may be what the bubble waits for.
const PATIENCE_IN_THE_DARK: Duration = Duration::from_secs(30);

/// How often it looks in that time.
const LOOKS: u32 = 4;
const SHORTEST_NAP: Duration = Duration::from_micros(200);

pub(super) struct Watcher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Begins to look at the current runtime. What is returned comes when it is given up.
    ///
    /// # Panics
    /// If the system refuses a thread.
    pub(super) fn start(patience: Option<Duration>) -> (Watcher, oneshot::Receiver<()>) {
        let runtime = Handle::current();
        let watch = Watch::of(&runtime);
        watch.add_current_thread();
        let default = if watch.sees_blocking_work() { PATIENCE } else { PATIENCE_IN_THE_DARK };
        let (stop, stopped) = mpsc::channel();
        let (sender, given_up) = oneshot::channel();
        let looks = Looks { runtime, watch };
        let run = move || {
            if looks.find_a_deadlock(patience.unwrap_or(default), &stopped) {
                let _ = sender.send(());
            }
        };
        match thread::Builder::new().name("hairspring-bubble".into()).spawn(run) {
            Ok(thread) => (Watcher { stop: Some(stop), thread: Some(thread) }, given_up),
            Err(error) => panic!("hairspring could not start the thread that watches a bubble: {error}"),
        }
    }
}

/// Ends the thread, and waits until it has ended.
impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Looks {
    runtime: Handle,
    watch: Arc<Watch>,
}

impl Looks {
    /// Looks until there is a deadlock or it is stopped. Returns whether there is.
    fn find_a_deadlock(&self, patience: Duration, stopped: &mpsc::Receiver<()>) -> bool {
        let mut quiet = Quiet::begin();
        let nap = (patience / LOOKS).max(SHORTEST_NAP);
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(nap) {
            if quiet.lasts(&self.watch) < patience {
                continue;
            }
            if self.is_stuck() {
                return true;
            }
            // What keeps it may end unseen, and then it has its patience again.
            quiet = Quiet::begin();
        }
        false
    }

    /// Whether nothing runs, and nothing is left to wake it.
    fn is_stuck(&self) -> bool {
        let before = self.now();
        before.is_some()
            && !self.is_held()
            && self.watch.is_idle()
            && !self.has_timers()
            && self.now() == before
            && !self.is_held()
    }

    fn is_held(&self) -> bool {
        self.watch.is_held() || self.watch.settles() || self.clock().is_some_and(|clock| !clock.holds().is_empty())
    }

    /// Whether a timer waits that moves the clock. Those on tokio's clock have moved it when the runtime is idle.
    fn has_timers(&self) -> bool {
        self.clock().is_some_and(|clock| clock.next().is_some())
    }

    /// `None` if time goes on because a test has resumed it.
    fn now(&self) -> Option<Tick> {
        if self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            let _entered = self.runtime.enter();
            return Some(clock::now());
        }
        self.clock().map(|clock| clock.tick())
    }

    /// The clock of a multi-thread runtime, if it is paused.
    fn clock(&self) -> Option<ManualClock> {
        paused::clock(&self.runtime)
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
