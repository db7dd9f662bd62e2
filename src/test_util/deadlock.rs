//! [`Watcher`]: a thread that looks whether anything can still happen in a bubble.
//
// Invariants
// 1. A bubble is given up only if it was quiet for its patience, and then found idle while its clock did not move and
//    nothing held it. On tokio's clock the look itself makes tokio move time if a timer is left. So no timer was, and
//    nothing ran that could make one.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;

use crate::clock;
use crate::test_util::idle::Watch;
use crate::test_util::manual::ManualClock;
use crate::test_util::paused;
use crate::test_util::quiet::Quiet;
use crate::wheel::Tick;

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
