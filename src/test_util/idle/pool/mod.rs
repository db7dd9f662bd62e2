//! [`Pool`]: whether any of the threads that a runtime keeps for blocking work is busy.
//!
//! Tokio does not say. But an idle thread of that pool waits at one place of its stack, with a timeout, and Linux says
//! where threads wait. To find the threads of the pool, we call them: a task of ours says on which thread it runs. A
//! thread that works does not answer. But the pool takes a new thread only if none is idle. So as long as a known
//! thread was idle throughout, all threads that work are known.
//
// Invariants
// 1. A thread that has answered is watched as long as it lives. It counts as working unless it is idle, waits for a
//    task of the runtime (`block_on`), has become a worker, or has waited in one place for long.
// 2. A thread of the process that began while the pool may have grown, and has the name of the pool's threads, counts
//    as working until it is found idle or not the pool's, but for `STRANGE` at most.
// 3. A thread that is idle in `Pool::is_busy`, and has not run by `Pool::has_run`, was idle in between.

mod call;
mod member;
mod stranger;

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::system::{self, On, Thread};
use super::{LONGEST_LOOK, lock};
use call::Call;
use member::{Member, Missed, PAGE, Place, State, settled};
use stranger::{Strange, Stranger};

/// How long blocking work waits in one place until it counts as waiting for a task of the runtime, for which time has
/// to pass.
const LONG: Duration = Duration::from_millis(500);

/// How long it does so before it is checked to be a worker.
const SHORT: Duration = Duration::from_millis(2);

/// How long a thread that may be the pool's counts as working.
const STRANGE: Duration = Duration::from_secs(1);

/// How long after a thread was left unconfirmed the pool is called again.
const UNCONFIRMED: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pool {
    runtime: Handle,
    members: Vec<Member>,
    strangers: Vec<Stranger>,
    /// The threads of the process when they were last listed.
    listed: Vec<u32>,
    /// All threads that the pool took before this time are members, strangers or listed.
    whole_at: u64,
    /// When the members were last looked at.
    looked_at: u64,
    /// A call without an answer so far.
    call: Option<Call>,
    /// The places in which blocking work has waited for long.
    waits: Vec<Place>,
    /// Since when a thread is ignored that may be the pool's.
    unconfirmed_since: Option<Instant>,
    /// How many members have become workers whose former thread is not known to be in the pool yet.
    handed_over: usize,
    /// The threads of the pool on which tasks of ours look whether the runtime is idle. They do not count as working.
    lookers: Vec<u32>,
    /// Whether the system says what is needed.
    sees: bool,
    /// A thread that works.
    works: Option<u32>,
}

/// A task that waits on the pool as long as this lives.
#[derive(Debug)]
pub(super) struct Occupied {
    _call: Call,
}

impl Pool {
    /// Waits for a moment, until the idle threads are known.
    pub(super) fn of(runtime: &Handle) -> Pool {
        let mut pool = Pool {
            runtime: runtime.clone(),
            members: Vec::new(),
            strangers: Vec::new(),
            whole_at: system::present(),
            looked_at: 0,
            handed_over: 0,
            lookers: Vec::new(),
            listed: system::all(),
            call: None,
            waits: Vec::new(),
            unconfirmed_since: None,
            sees: true,
            works: None,
        };
        // With patience: work that the runtime was given before has to reach its threads first.
        pool.call_all(STRANGE);
        pool
    }

    /// Whether the system says what is needed.
    pub(super) fn sees(&self) -> bool {
        self.sees
    }

    /// A thread that worked when [`is_busy`](Pool::is_busy) last looked.
    pub(super) fn works(&self) -> Option<u32> {
        self.works
    }

    /// The same, if the thread is known to be the pool's.
    pub(super) fn member_works(&self) -> Option<u32> {
        self.works.filter(|number| self.members.iter().any(|member| member.thread.number() == *number))
    }

    /// Calls all idle threads, which become members. Returns `false` if a call has no answer yet.
    fn call_all(&mut self, patience: Duration) -> bool {
        // Threads that were idle longest answer first, so all have answered when one answers again.
        let mut answered = Vec::new();
        loop {
            let Some(number) = self.call(patience) else { return false };
            if answered.contains(&number) {
                break;
            }
            answered.push(number);
        }
        let Pool { members, strangers, .. } = self;
        strangers.retain(|stranger| members.iter().all(|member| member.thread.number() != stranger.thread.number()));
        self.unconfirmed_since = None;
        true
    }

    /// A task of ours that waits on a known thread of the pool, which does not count as working. `None` if the pool
    /// takes none in time.
    pub(super) fn occupy(&mut self) -> Option<Occupied> {
        while self.sees {
            let call = Call::new(&self.runtime)?;
            let number = call.answer.recv_timeout(STRANGE).ok()?;
            if self.members.iter().any(|member| member.thread.number() == number) {
                return Some(Occupied { _call: call });
            }
            drop(call);
            // The thread is met first.
            self.call(LONGEST_LOOK);
        }
        None
    }

    /// A task of ours begins to look on this thread, which is the pool's. Returns its number.
    pub(super) fn begin_to_look(&mut self) -> u32 {
        let number = system::current_number();
        self.lookers.push(number);
        number
    }

    /// The task has looked. If the pool has taken a new thread for it, that has to be met, and may work until then.
    pub(super) fn end_to_look(&mut self, number: u32) {
        self.lookers.retain(|looker| *looker != number);
        if !self.knows(number) {
            self.strangers.extend(Thread::of(number).map(Stranger::new));
        }
    }

    /// Whether a thread is watched.
    fn knows(&self, number: u32) -> bool {
        let members = self.members.iter().map(|member| &member.thread);
        members.chain(self.strangers.iter().map(|stranger| &stranger.thread)).any(|thread| thread.number() == number)
    }

    /// Whether there is blocking work.
    pub(super) fn is_busy(&mut self) -> bool {
        self.works = None;
        if self.members.is_empty() && self.sees && !self.call_all(LONGEST_LOOK) {
            return self.waits_for_answer();
        }
        for called in [false, true] {
            if !self.sees {
                return false;
            }
            self.looked_at = system::present();
            if !self.look_at_members() {
                self.list();
            }
            let has_idle_strangers = self.look_at_strangers();
            if self.works.is_some() {
                return true;
            }
            let has_idle_members = self.members.iter().any(|member| member.state == State::Idle);
            let is_unconfirmed =
                self.handed_over > 0 || self.unconfirmed_since.is_some_and(|since| since.elapsed() >= UNCONFIRMED);
            // Without a known idle thread, work could begin unnoticed on another.
            if has_idle_members && (called || !has_idle_strangers && !is_unconfirmed) {
                return false;
            }
            if called {
                return true;
            }
            if !self.call_all(LONGEST_LOOK) {
                return self.waits_for_answer();
            }
            // If those that were idle throughout were the pool's, they would have answered.
            self.strangers.retain(|stranger| !stranger.is_idle_still());
        }
        true
    }

    /// Whether a call may still be answered. A pool that may take no more threads may never answer.
    fn waits_for_answer(&self) -> bool {
        self.sees && self.call.as_ref().is_none_or(|call| call.since.elapsed() < STRANGE)
    }

    /// Whether any thread has run since [`is_busy`](Pool::is_busy) found that none works.
    pub(super) fn has_run(&mut self) -> bool {
        let Pool { members, lookers, .. } = self;
        let has_run = members.iter().any(|member| !lookers.contains(&member.thread.number()) && !member.has_rested());
        if !has_run {
            self.whole_at = self.looked_at;
        }
        has_run
    }

    /// Returns whether one member was idle since the last look, so that the pool has taken no other thread.
    fn look_at_members(&mut self) -> bool {
        let mut is_whole = false;
        let mut stuck = Vec::new();
        let Pool { members, lookers, waits, works, handed_over, .. } = self;
        members.retain_mut(|member| {
            if lookers.contains(&member.thread.number()) {
                member.state = State::Waits;
                return true;
            }
            let before = member.state;
            let Some(has_run) = member.look(waits) else { return false };
            is_whole |= before == State::Idle && !has_run;
            match member.state {
                // The former worker thread joins the pool after the work for which it blocks.
                State::IsWorker if !member.has_replaced => {
                    member.has_replaced = true;
                    *handed_over += 1;
                }
                State::Idle if std::mem::take(&mut member.has_replaced) => *handed_over = handed_over.saturating_sub(1),
                State::Idle | State::Waits | State::IsWorker => {}
                State::Works => *works = Some(member.thread.number()),
                State::Stuck(place, since) => {
                    *works = Some(member.thread.number());
                    if since.elapsed() >= LONG {
                        waits.push(place);
                    } else if since.elapsed() >= SHORT
                        && place.on != On::TimedWord
                        && member.asked.replace(place) != Some(place)
                    {
                        stuck.push((member.thread.number(), place));
                    }
                }
            }
            true
        });
        if !stuck.is_empty() {
            let workers = call::workers(&self.runtime);
            let places = stuck.iter().filter(|(number, _)| workers.contains(number)).map(|(_, place)| *place);
            member::learn_where_workers_wait(places);
        }
        is_whole
    }

    /// Adds the threads that the pool may have taken since `whole_at`.
    fn list(&mut self) {
        let (present, all) = (system::present(), system::all());
        let this = system::current_number();
        let is_new = |number: &&u32| {
            **number != this && !self.lookers.contains(number) && self.listed.binary_search(number).is_err()
        };
        let new = all.iter().filter(is_new).filter(|number| !self.knows(**number));
        let new = new.filter_map(|&number| Thread::of(number));
        let new: Vec<_> = new.filter(|thread| thread.began().is_some_and(|began| began >= self.whole_at)).collect();
        self.strangers.extend(new.into_iter().map(Stranger::new));
        (self.listed, self.whole_at) = (all, present);
    }

    /// Returns whether one stranger is idle, so that a call shows whether it is the pool's.
    fn look_at_strangers(&mut self) -> bool {
        let Pool { members, strangers, unconfirmed_since, works, .. } = self;
        // Most often there are none, and nothing to read.
        let Some(member) = members.first().filter(|_| !strangers.is_empty()) else { return false };
        let name = member.thread.name().unwrap_or_default();
        let mut any_is_idle = false;
        strangers.retain_mut(|stranger| {
            let strange = stranger.look(&name, member);
            match strange {
                Strange::Works => *works = works.or(Some(stranger.thread.number())),
                Strange::Idle => any_is_idle = true,
                Strange::Other => {}
                Strange::Unconfirmed => *unconfirmed_since = unconfirmed_since.or(Some(Instant::now())),
            }
            matches!(strange, Strange::Works | Strange::Idle)
        });
        any_is_idle
    }

    /// Calls an idle thread of the pool, or a new one. Returns its number, or `None` if none has answered.
    fn call(&mut self, patience: Duration) -> Option<u32> {
        if let Some(late) = self.call.take() {
            // The thread that answers it now is called again, to be watched meanwhile.
            self.wait_for_answer(late, patience)?;
        }
        let Some(call) = Call::new(&self.runtime) else {
            self.sees = false;
            return None;
        };
        // The task that has answered waits until this call is dropped or its gate is opened.
        let (number, call) = self.wait_for_answer(call, patience)?;
        if let Some(member) = self.members.iter().find(|member| member.thread.number() == number) {
            call.gate.open();
            // Until it is idle it might take the next call in place of another thread.
            settled(&member.thread, patience, |wait| member.is_idle(wait))?;
        } else {
            let idle = self.members.first().map(|member| member.idle % PAGE);
            match Member::meet(number, &call.gate, idle, patience) {
                Ok(member) => {
                    let is_new = self.strangers.iter().any(|stranger| stranger.thread.number() == number);
                    self.handed_over -= usize::from(!is_new && self.handed_over > 0);
                    self.members.push(member);
                }
                Err(Missed::Works) => return None,
                Err(Missed::Unseen) => {
                    self.sees = false;
                    return None;
                }
            }
        }
        Some(number)
    }

    /// Returns `None` if there is no answer in time. A task that answers later does not wait at the gate.
    fn wait_for_answer(&mut self, call: Call, patience: Duration) -> Option<(u32, Call)> {
        let patience = if call.since.elapsed() < STRANGE { patience } else { Duration::ZERO };
        match call.answer.recv_timeout(patience) {
            Ok(number) => return Some((number, call)),
            Err(RecvTimeoutError::Timeout) => {
                call.gate.open();
                self.call = Some(call);
            }
            // The runtime has ended.
            Err(RecvTimeoutError::Disconnected) => self.sees = false,
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::sync::{Arc, Mutex};
    use std::thread;

    #[test]
    fn a_new_thread_that_has_looked_and_then_works_is_seen() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let pool = Arc::new(Mutex::new(Pool::of(runtime.handle())));
        if !lock(&pool).sees() {
            return;
        }
        // The known thread is taken, so that the next task gets a new one.
        let (release, released) = mpsc::channel();
        let taken = runtime.spawn_blocking(move || released.recv().unwrap());
        let (stop, (looks, looked)) = (Arc::<AtomicBool>::default(), mpsc::channel());
        let (stopped, its) = (stop.clone(), pool.clone());
        let work = runtime.spawn_blocking(move || {
            let number = lock(&its).begin_to_look();
            lock(&its).is_busy();
            lock(&its).end_to_look(number);
            looks.send(()).unwrap();
            while !stopped.load(SeqCst) {
                thread::yield_now();
            }
        });
        looked.recv().unwrap();
        release.send(()).unwrap();
        runtime.block_on(taken).unwrap();
        let seen = (0..20).all(|_| lock(&pool).is_busy());
        stop.store(true, SeqCst);
        runtime.block_on(work).unwrap();
        assert!(seen);
    }
}
