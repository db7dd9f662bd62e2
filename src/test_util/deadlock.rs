//! Detects a bubble in which nothing can happen any more, and describes the tasks and timers that wait.
//
// Invariants
// 1. A bubble is given up only if nothing ran for its patience, and it was then found idle while its clock did not move
//    and was not held. On tokio's clock, checking makes tokio move time if a timer is left.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::{LazyLock, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task;

use crate::clock;
use crate::clock::hooks::Hooks;
use crate::core::registry::TaskHooks;
use crate::test_util::idle::{Claim, NoAlarm, OwnRuntime, Watch};
use crate::test_util::lock;
use crate::test_util::pending;
use crate::test_util::when_idle::{self, Action, State, WhenIdle};
use crate::wheel::Tick;

/// Gives up the current runtime once nothing has run for `patience` and nothing can run any more. The receiver then
/// gets a message. The checking thread ends when the receiver is dropped.
pub(super) fn give_up_after(patience: Duration) -> (JoinHandle<()>, oneshot::Receiver<()>) {
    let watch = Watch::of(&Handle::current());
    let (sender, given_up) = oneshot::channel();
    let action = GiveUp { given_up: Some(sender), now: now(&watch) };
    let looks = WhenIdle { grace: patience, ..WhenIdle::new(watch, action) };
    (looks.start(), given_up)
}

struct GiveUp {
    given_up: Option<oneshot::Sender<()>>,
    now: Tick,
}

impl Action for GiveUp {
    const IS_PATIENT: bool = false;

    fn state(&mut self, watch: &Watch) -> State {
        let before = std::mem::replace(&mut self.now, now(watch));
        match &self.given_up {
            None => State::Over,
            Some(given_up) if given_up.is_closed() => State::Over,
            _ if self.now != before => State::Moves,
            // One of our threads may be about to move tokio's clock.
            _ if is_held(watch) || watch.any(Claim::Move) => State::Waits,
            _ => State::Ready,
        }
    }

    fn act(&mut self, watch: &Watch, _: &mut Option<NoAlarm>) -> bool {
        // If timers on tokio's clock were left, tokio has moved it by now.
        let has_timers = watch.clock().is_some_and(|clock| clock.next().is_some());
        let is_stuck = !has_timers && !is_held(watch) && now(watch) == self.now;
        is_stuck && self.given_up.take().is_some_and(|given_up| given_up.send(()).is_ok())
    }

    fn report(&self, patience: Duration, watch: &Watch) -> Option<String> {
        // Our own clock reports itself.
        let _entered = watch.runtime.enter();
        watch.clock().is_none().then(|| when_idle::report(patience, watch, &watch.places(Claim::Hold), &pending()))
    }
}

fn is_held(watch: &Watch) -> bool {
    watch.any(Claim::Hold) || watch.clock().is_some_and(|clock| !clock.state().holds.is_empty())
}

fn now(watch: &Watch) -> Tick {
    let _entered = watch.runtime.enter();
    clock::now()
}

/// The number of tasks of a bubble, without this crate's own, and a description of everything that waits in it:
/// `waiting: 2 tasks, 1 timer`, and a line for each whose place is known.
pub(super) fn waiting(own: &OwnRuntime) -> (usize, String) {
    let runtime = Handle::current();
    let ours: HashSet<_> = lock(&OURS).iter().filter(|(on, _)| *on == runtime.id()).map(|(_, task)| *task).collect();
    let tasks = runtime.metrics().num_alive_tasks().saturating_sub(ours.len());
    let mut places = own.threads().map_or(Vec::new(), |threads| threads.spawned(|task| !ours.contains(&task)));
    places.sort_unstable_by_key(|place| (place.file(), place.line(), place.column()));
    let timers = pending();
    let count = |count: usize, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("waiting: {}, {}\n", count(tasks, "task"), count(timers.len(), "timer"));
    for place in places {
        let _ = writeln!(text, "  Task spawned at {place}");
    }
    (tasks, text + &pending::list(&timers))
}

/// This crate's own live tasks, each with its runtime.
static OURS: LazyLock<Mutex<HashSet<(runtime::Id, task::Id)>>> = LazyLock::new(Mutex::default);

impl TaskHooks for Hooks {
    /// Lists the task, to tell it from a test's.
    async fn own_task(runtime: runtime::Id, task: impl Future<Output = ()> + Send) {
        struct Listed(runtime::Id, task::Id);
        impl Drop for Listed {
            fn drop(&mut self) {
                lock(&OURS).remove(&(self.0, self.1));
            }
        }
        let listed = Listed(runtime, task::id());
        lock(&OURS).insert((listed.0, listed.1));
        task.await;
    }
}
