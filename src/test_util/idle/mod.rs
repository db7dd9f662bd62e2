//! Finds out whether a runtime is idle: nothing runs in it until a clock moves or something arrives from outside.
//!
//! A runtime is idle if every worker is parked, no task is queued, and no thread that blocks on the runtime is running.
//! This may change while another thread reads it. But each worker counts how often it parks and unparks: if a count is
//! the same in two readings, that worker has not run in between.
//!
//! In the runtime of a [bubble](crate::test_util::bubble()), the bubble's own future and blocking work are visible too.
//! In others, Linux says what the thread in `block_on` is doing, and blocking work is invisible.
//
// Invariants
// 1. A runtime is found idle only if two equal readings of the counts enclose the readings of the queue, the threads
//    and the blocking work. No worker was unparked in between, and earlier work would still be queued, or would have
//    unparked a worker.
// 2. A parked worker may not know yet that a socket is ready. On Linux it counts as running as soon as the system wakes
//    it. Elsewhere, on current-thread runtimes without sockets, if none of the known threads waits for sockets, and while
//    a thread that was a worker is watched, all workers are called together: the one that waits for sockets handles
//    those that are ready before it comes. A runtime is found idle only after `ROUNDS` such calls, or once all are seen
//    to wait.
// 3. Blocking work is checked before the calls, because it may send to a socket, and after them, because a task that
//    ran along with a call may have started some.

mod block_on;
mod own_runtime;
mod thread_state;
mod watch;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeFlavor;

pub(crate) use own_runtime::{OwnRuntime, OwnThreads};
use thread_state::Thread;
pub(crate) use watch::{EndsOnThread, Time, Watch};

use crate::core::registry;
use crate::test_util::hold::Claim;
use crate::test_util::lock;
use crate::util::waits;

/// How often all workers are called. Once is not enough if a worker that is about to wait for sockets, and already
/// counts as parked, is preempted there: it then handles the call and a socket in one step.
const ROUNDS: u32 = 2;

/// How long workers may take to come before the check is abandoned.
const MAX_READING: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// How often workers parked and unparked, how often the bubble's future began to run, and how often a thread that
    /// blocks on the runtime read its clock.
    count: u64,
    /// Whether all are parked or wait.
    pub(crate) all_rest: bool,
}

/// The threads of the workers, and the file with which one of them waits for sockets, or none. Once known, if the system
/// says what threads do.
type Workers = Option<(Vec<Thread>, Vec<u64>)>;

/// A runtime was found idle. While this lives, no other thread checks.
pub(crate) struct IsIdle<'watch>(#[allow(dead_code)] MutexGuard<'watch, Workers>);

impl Watch {
    pub(crate) fn steps(&self) -> Steps {
        let own = self.own.get().map_or(Some(0), |own| own.waits());
        let others = Steps { count: own.unwrap_or(0) + self.readings.load(SeqCst), all_rest: own.is_some() };
        self.parks().fold(others, |steps, count| Steps {
            count: steps.count + count,
            all_rest: steps.all_rest && count % 2 == 1,
        })
    }

    fn parks(&self) -> impl Iterator<Item = u64> {
        (0..self.metrics.num_workers()).map(|worker| waits::parks(&self.metrics, worker))
    }

    pub(crate) fn is_idle(&self) -> Option<IsIdle<'_>> {
        // Two concurrent checks would take each other's calls for work.
        let mut workers = lock(&self.workers);
        let threads = self.own.get().map(|own| own.threads());
        let mut read = || {
            let count = self.probe(threads, self.rests()?)?;
            let count = self.handles_sockets(&mut workers, count)?;
            self.probe(threads, count)
        };
        read().map(|_| IsIdle(workers))
    }

    /// Returns `None` if blocking work runs in the threads of a bubble, or has ended since the count was `before`.
    fn probe(&self, threads: Option<&OwnThreads>, before: u64) -> Option<u64> {
        let Some(threads) = threads else { return Some(before) };
        let own_work = self.own_work();
        if !threads.have_no_work(&self.runtime, own_work) || self.own_work() != own_work {
            return None;
        }
        // The end of blocking work unparks the thread of a current-thread runtime.
        let expected = if self.is_one_thread() { before + 2 } else { before };
        self.comes_to_rest(expected).filter(|&count| count == expected)
    }

    /// Whether this is a current-thread runtime. Its clock is tokio's, unless a test has paused it with a grace.
    pub(crate) fn is_one_thread(&self) -> bool {
        self.runtime.runtime_flavor() == RuntimeFlavor::CurrentThread
    }

    /// The count of what has run so far; `None` if there is work.
    pub(crate) fn rests(&self) -> Option<u64> {
        let steps = self.steps();
        // The threads first: work that one queued before it waited is still in the queue, or a worker has it.
        let rests = steps.all_rest
            && !self.a_blocked_thread_runs()
            && !self.works()
            && self.metrics.global_queue_depth() == 0
            && self.steps() == steps;
        rests.then_some(steps.count)
    }

    /// How long nothing may have run before the runtime may be idle.
    pub(crate) fn grace(&self) -> Duration {
        /// Where the system does not say what threads do.
        const UNSEEN: Duration = Duration::from_millis(2);
        if self.is_one_thread() || waits::are_known() { Duration::ZERO } else { UNSEEN }
    }

    /// Makes sure that the runtime has handled all sockets that are ready. Returns `None` if there were any.
    fn handles_sockets(&self, workers: &mut Workers, mut count: u64) -> Option<u64> {
        for _ in 0..ROUNDS {
            // A watched thread may be a worker again: the call tells.
            let known = workers.as_ref().filter(|_| !self.a_worker_may_have_come_back());
            // If none waits there, one was woken, or after `block_in_place` another thread is the worker.
            if known.is_some_and(|(threads, files)| polled_by(threads).as_ref() == Some(files)) {
                return self.rests().filter(|&now| now == count);
            }
            (count, *workers) = self.call_all(count)?;
        }
        Some(count)
    }

    /// Makes all workers run a task at the same time. Returns the new count and the workers; `None` if anything else is
    /// seen to run.
    fn call_all(&self, before: u64) -> Option<(u64, Workers)> {
        let start = Instant::now();
        let gate = Arc::<Mutex<()>>::default();
        let closed = lock(&gate);
        let (sender, calls) = mpsc::channel();
        let (workers, mut parked_again) = (self.metrics.num_workers(), before);
        for _ in 0..workers {
            let (gate, sender) = (gate.clone(), sender.clone());
            registry::spawn(&self.runtime, "hairspring clock", async move {
                // After `block_in_place`, this thread may be a worker again.
                Watch::note_this_thread(None);
                let _ = sender.send(Thread::current());
                drop(lock(&gate));
            });
            parked_again += 2;
        }
        let come = |_| calls.recv_timeout(MAX_READING).ok();
        let threads: Option<Vec<_>> = (0..workers).map(come).collect();
        drop(closed);
        let threads: Option<Vec<_>> = threads?.into_iter().collect();
        let after = self.comes_to_rest(parked_again)?;
        let mut files = None;
        // A socket may have been handled along with the call, by a worker that counted as parked for part of it. Wait
        // as long again, unless all are seen to wait.
        wait_until(start.elapsed(), || {
            files = threads.as_deref().and_then(polled_by);
            files.is_some()
        });
        // Several workers may wake each other in vain.
        let is_all = after == parked_again || !self.is_one_thread();
        // Another thread may enter a current-thread runtime, which only the file shows.
        let is_known = |(_, files): &(_, Vec<u64>)| !self.is_one_thread() || !files.is_empty();
        let workers = threads.zip(files).filter(is_known);
        (is_all && self.rests() == Some(after)).then_some((after, workers))
    }

    /// Waits until the runtime rests at a count of `at_least`.
    fn comes_to_rest(&self, at_least: u64) -> Option<u64> {
        let mut rests = None;
        wait_until(MAX_READING, || {
            rests = self.rests().filter(|&count| count >= at_least);
            rests.is_some()
        });
        rests
    }

    /// Describes visible work in the runtime; `None` if there is none.
    pub(crate) fn describe(&self) -> Option<String> {
        let runs = self.parks().enumerate().filter(|(_, parks)| parks % 2 == 0).map(|(worker, _)| worker.to_string());
        let (runs, own) = (runs.collect::<Vec<_>>().join(", "), self.own.get());
        let threads = own.map(|own| own.threads());
        let has_no_work = |threads: &OwnThreads| threads.have_no_work(&self.runtime, self.own_work());
        Some(match self.metrics.global_queue_depth() {
            _ if !runs.is_empty() => format!("a task is running on worker {runs} or blocking it"),
            queued @ 1.. => format!("{queued} tasks are ready to run"),
            0 if self.a_blocked_thread_runs() => "the thread in `block_on` is running".into(),
            0 if own.is_some_and(|own| own.waits().is_none()) => "the bubble's future is running".into(),
            0 => match self.claims.places(Claim::Work).first() {
                Some(place) => format!("blocking work started at {place} is running"),
                None if threads.is_none_or(has_no_work) => return None,
                None => "blocking work is running".into(),
            },
        })
    }
}

/// The files with which some of these threads wait for others. `None` if a thread does not wait.
fn polled_by(threads: &[Thread]) -> Option<Vec<u64>> {
    let calls: Option<Vec<_>> = threads.iter().map(Thread::waits_in).collect();
    Some(calls?.into_iter().filter_map(waits::polled).collect())
}

/// Waits until `is_so`, for at most `longest`.
fn wait_until(longest: Duration, mut is_so: impl FnMut() -> bool) {
    let (start, nap) = (Instant::now(), Nap::new());
    while !is_so() && start.elapsed() < longest {
        nap.take(thread::sleep);
    }
}

/// Rests between checks, longer and longer.
pub(crate) struct Nap {
    looking_since: Instant,
}

impl Nap {
    /// How long to spin. Yielding instead would give a busy machine a whole time slice.
    const EAGER: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(1);

    pub(crate) fn new() -> Nap {
        Nap { looking_since: Instant::now() }
    }

    pub(crate) fn take(&self, rest: fn(Duration)) {
        let looking = self.looking_since.elapsed();
        if looking < Nap::EAGER {
            std::hint::spin_loop();
        } else {
            rest((looking / 4).min(Nap::LONGEST));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;

    /// Whether one of up to so many checks finds a waiting runtime idle without waking it.
    fn is_seen_to_wait(runtime: &mut Builder, checks: usize) -> bool {
        let runtime = runtime.build().unwrap();
        let watch = Watch::of(runtime.handle());
        let (end, ended) = oneshot::channel::<()>();
        let thread = thread::spawn(move || runtime.block_on(ended));
        let is_seen = (0..checks).any(|_| {
            thread::sleep(Duration::from_millis(1));
            let before = watch.steps();
            watch.is_idle().is_some() && watch.steps() == before
        });
        end.send(()).unwrap();
        thread.join().unwrap().unwrap();
        is_seen
    }

    /// On a paused clock, a step of less than a millisecond took five times as long.
    #[test]
    fn a_check_wakes_no_current_thread_runtime_that_is_seen_to_wait_for_sockets() {
        if !waits::are_known() {
            return; // Under an emulator.
        }
        assert!(is_seen_to_wait(Builder::new_current_thread().enable_io(), 10_000));
        assert!(!is_seen_to_wait(&mut Builder::new_current_thread(), 20), "another thread may be in it");
    }
}
