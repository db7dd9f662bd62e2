//! [`pause`]: pauses the clock of a current-thread runtime, which is tokio's, and moves it after a grace, in place of
//! tokio.
//
// Invariants
// 1. Tokio does not move the clock by itself: a task waits on the pool as long as the thread here runs.
// 2. The thread moves the clock only if the runtime was quiet for the grace, then found idle, and nobody holds it.
// 3. The thread ends with the runtime, and when the clock is paused or resumed.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock::{instant, source::LAST};
use crate::core::registry;
use crate::test_util::by_tokio;
use crate::test_util::idle::{Holder, Watch};
use crate::test_util::nap::Quiet;
use crate::test_util::nap::{self, Nap, PATIENCE};
use crate::test_util::pending::pending;

/// Pauses the clock of the current runtime.
///
/// # Panics
/// If it is paused already, outside a runtime, or if the system refuses a thread.
#[track_caller]
pub(super) fn pause(grace: Duration) {
    let runtime = Handle::current();
    let watch = Watch::of(&runtime);
    let hold = watch.clone().hold(Holder::Mover);
    tokio::time::pause();
    let pause = watch.next_pause();
    let mover = Mover { runtime, watch, pause, grace };
    let started = thread::Builder::new().name("hairspring-clock".into()).spawn(move || {
        mover.run();
        drop(hold);
    });
    if let Err(error) = started {
        panic!("hairspring could not start the thread that moves the clock: {error}");
    }
}

/// Ends what moves the clock of the current runtime.
pub(super) fn end() {
    if let Some(watch) = Watch::existing() {
        watch.next_pause();
    }
}

/// The state of the thread.
struct Mover {
    runtime: Handle,
    watch: Arc<Watch>,
    /// The number of this pause.
    pause: u64,
    grace: Duration,
}

/// Why the clock did not move.
enum Still {
    NoTimer,
    Ended,
}

impl Mover {
    fn run(&self) {
        let (mut quiet, mut nap) = (Quiet::begin(), Nap::new());
        let (mut still_since, mut no_timer_since, mut has_reported) = (Instant::now(), None, false);
        while self.watch.is_pause(self.pause) {
            if quiet.lasts(&self.watch) < self.grace || !self.may_move() {
                nap.take();
                if self.watch.settles() {
                    still_since = Instant::now();
                } else if !self.watch.is_held() {
                    still_since = still_since.max(self.watch.went_on_at());
                }
                if !has_reported && still_since.elapsed() >= PATIENCE + self.grace {
                    has_reported = true;
                    nap::print(&self.report());
                }
                continue;
            }
            (quiet, nap) = (Quiet::begin(), Nap::new());
            match self.advance() {
                Ok(()) => (still_since, no_timer_since, has_reported) = (Instant::now(), None, false),
                Err(Still::Ended) => return,
                Err(Still::NoTimer) => {
                    let since = no_timer_since.get_or_insert_with(Instant::now);
                    if !has_reported && since.elapsed() >= PATIENCE {
                        has_reported = true;
                        nap::print(&format!(
                            "hairspring: the paused clock has not moved for {PATIENCE:?}: no timer of this crate's is \
                             left, and tokio's own do not move a clock that has a grace.\n"
                        ));
                    }
                }
            }
        }
    }

    /// Why the clock does not move, though a timer may wait.
    fn report(&self) -> String {
        let _entered = self.runtime.enter();
        nap::report(PATIENCE, self.watch.describe(PATIENCE / 2).as_deref(), &self.watch.holds(), &pending())
    }

    fn may_move(&self) -> bool {
        !self.watch.is_held() && self.watch.lets_time_pass() && !self.watch.is_held()
    }

    /// Moves the clock to the next deadline, from inside the runtime.
    fn advance(&self) -> Result<(), Still> {
        let (sender, moved) = mpsc::channel();
        let (watch, pause) = (self.watch.clone(), self.pause);
        registry::spawn(&self.runtime, "hairspring clock", async move {
            let stands = watch.is_pause(pause) && instant::is_paused();
            let _ = sender.send(if stands { Some(by_tokio::move_to_next(LAST)) } else { None });
        });
        match moved.recv().ok().flatten() {
            Some(true) => Ok(()),
            Some(false) => Err(Still::NoTimer),
            None => Err(Still::Ended),
        }
    }
}
