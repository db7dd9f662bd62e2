//! [`Member`]: a known thread of the pool, and what it does.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::call::Gate;
use super::{STRANGE, lock};
use crate::test_util::idle::system::{On, Thread, Wait};

/// How often a thread has to be found in a place to count as staying there.
const LOOKS: u32 = 3;

/// A stack begins at a page, so threads that do the same wait at the same offset in a page.
pub(super) const PAGE: u64 = 4096;

/// The places in which threads of the pool wait that have become workers.
static WORKERS_WAIT: Mutex<Vec<Place>> = Mutex::new(Vec::new());

/// A place in which threads of the pool wait, by its distance on the stack from that of idle threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) on: On,
    depth: u64,
}

/// A thread that has answered a call.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) thread: Thread,
    /// Its stack pointer when it is idle.
    pub(super) idle: u64,
    /// The word on which it waits in `block_on`.
    pub(super) parker: u64,
    /// How often it had been scheduled when its state was read.
    runs: u64,
    pub(super) state: State,
    /// The place in which it waited when it was last checked to be a worker.
    pub(super) asked: Option<Place>,
    /// Whether it has become a worker since it was idle.
    pub(super) has_replaced: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    /// It waits for the runtime.
    Waits,
    /// It has taken a worker's place, so the runtime counts how often it parks.
    IsWorker,
    /// It waits for another thread, since this instant.
    Stuck(Place, Instant),
    Works,
}

impl Member {
    /// Makes a member of a thread that has answered a call. `idle` is the offset in a page at which idle threads wait.
    pub(super) fn meet(number: u32, gate: &Gate, idle: Option<u64>, patience: Duration) -> Result<Member, Missed> {
        let thread = Thread::of(number).ok_or(Missed::Unseen)?;
        let blocks = settled(&thread, STRANGE, |wait| wait.on == On::Word).ok_or(Missed::Unseen)?;
        gate.open();
        let is_idle = |wait: &Wait| wait.on == On::TimedWord && idle.is_none_or(|idle| idle == wait.stack % PAGE);
        let rests = settled(&thread, patience, is_idle);
        // A thread that ends as soon as it is idle cannot be watched. If it found other work first, it is called again.
        let rests = rests.ok_or(if thread.wait().is_err() { Missed::Unseen } else { Missed::Works })?;
        // If the system counts, it has counted by now.
        let runs = thread.runs().filter(|&runs| runs > 0).ok_or(Missed::Unseen)?;
        let (idle, parker) = (rests.stack, blocks.word);
        // `Works` until the next look: it may have run before it was counted.
        Ok(Member { thread, idle, parker, runs, state: State::Works, asked: None, has_replaced: false })
    }

    /// Reads its state. Returns whether it has run since the last look, or `None` if it has ended.
    pub(super) fn look(&mut self, waits: &[Place]) -> Option<bool> {
        let runs = self.thread.runs()?;
        if runs == self.runs && self.state != State::Works {
            if let State::Stuck(place, _) = self.state {
                self.state = state_at(place, waits).unwrap_or(self.state);
            }
            return Some(false);
        }
        self.runs = runs;
        let wait = self.thread.wait().ok()?;
        let awake = self.thread.is_awake()?;
        self.state = wait.filter(|_| !awake).map_or(State::Works, |wait| self.state_in(wait, waits));
        Some(true)
    }

    pub(super) fn is_idle(&self, wait: &Wait) -> bool {
        wait.on == On::TimedWord && wait.stack == self.idle
    }

    fn state_in(&self, wait: Wait, waits: &[Place]) -> State {
        if self.is_idle(&wait) {
            return State::Idle;
        }
        if wait.on == On::Word && wait.word == self.parker {
            return State::Waits;
        }
        let place = Place { on: wait.on, depth: self.idle.wrapping_sub(wait.stack) };
        state_at(place, waits).unwrap_or_else(|| State::Stuck(place, Instant::now()))
    }

    /// Whether it has not run since the last look, and is not about to.
    pub(super) fn has_rested(&self) -> bool {
        let rested = || self.thread.runs() == Some(self.runs) && self.thread.is_awake() == Some(false);
        self.state == State::IsWorker || rested()
    }
}

/// The state of a thread that waits in a place, if that is known.
fn state_at(place: Place, waits: &[Place]) -> Option<State> {
    if lock(&WORKERS_WAIT).contains(&place) {
        return Some(State::IsWorker);
    }
    waits.contains(&place).then_some(State::Waits)
}

/// Why a thread that answered did not become a member.
pub(super) enum Missed {
    /// It has found work to do.
    Works,
    /// The system does not say what is needed.
    Unseen,
}

/// Waits until a thread waits where `is_there` says, for some looks. Returns `None` if it does not in time, or has
/// ended.
pub(super) fn settled(thread: &Thread, patience: Duration, is_there: impl Fn(&Wait) -> bool) -> Option<Wait> {
    let (start, mut last, mut same) = (Instant::now(), None, 0);
    while start.elapsed() < patience {
        let wait = thread.wait().ok()?.filter(&is_there);
        same = if wait.is_some() && wait == last { same + 1 } else { 0 };
        if same == LOOKS {
            return wait;
        }
        last = wait;
        std::thread::yield_now();
    }
    None
}

/// Threads of the pool that have become workers were found to wait in these places.
pub(super) fn learn_where_workers_wait(places: impl Iterator<Item = Place>) {
    lock(&WORKERS_WAIT).extend(places);
}
