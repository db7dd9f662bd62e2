//! [`Worker`]: claims the next jobs of a queue, waits for their deadlines and handles them.
//
// Invariants
// 1. A job starts only at or after its deadline, and only during the lease of the session that claimed it.
// 2. The worker measures a lease from before its request, so it ends here before it ends in Redis.
// 3. When a lease ends, the worker drops its claimed jobs and stops running ones at their next `.await`.

use std::fmt::Display;
use std::panic::resume_unwind;
use std::pin::pin;
use std::time::Duration;

use hairspring::{DeadlineMap, boot, sleep, timeout};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::queue::{Job, Queue};

/// The pause after Redis did not answer.
const RETRY: Duration = Duration::from_millis(100);

/// How a worker works. Workers of one queue may differ.
#[derive(Clone)]
pub struct Worker {
    pub queue: Queue,
    /// The worker claims jobs that are due within this time.
    pub window: Duration,
    /// How many jobs it claims at a time. The rest is left to other workers.
    pub batch: usize,
    /// How many jobs it holds at most, waiting or running.
    pub held: usize,
}

impl Worker {
    /// Handles jobs until `stop` is ready. Then it finishes running jobs, and leaves waiting ones to other workers.
    ///
    /// A job is acknowledged once `handle` has returned. If the lease is lost, `handle` is dropped at an `.await`, and
    /// the job is handled again, by this worker or another.
    ///
    /// # Panics
    /// If `handle` panics. This worker's jobs then wait for the end of its lease.
    pub async fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        handle: impl Fn(Job) -> F,
        stop: impl Future<Output = ()>,
    ) {
        let bell = Notify::new();
        let (stopping, is_stopping) = watch::channel(false);
        let sessions = async {
            while !*is_stopping.borrow() {
                self.session(&handle, is_stopping.clone(), &bell).await;
            }
        };
        let stop = async {
            stop.await;
            stopping.send_replace(true);
        };
        tokio::select! {
            ((), ()) = async { tokio::join!(sessions, stop) } => {}
            () = self.ring(&bell) => {}
        }
    }

    /// Handles jobs until the lease is lost, or until this worker has stopped.
    async fn session<F: Future<Output = ()> + Send + 'static>(
        &self,
        handle: impl Fn(Job) -> F,
        mut stop: watch::Receiver<bool>,
        bell: &Notify,
    ) {
        // A little less than Redis grants, in case its clock is faster.
        let trusted = self.queue.lease / 10 * 9;
        // Not `sleep`: a lease continues while this machine is suspended.
        let mut lease = boot::sleep(trusted);
        let session = match self.queue.open_session().await {
            Ok(session) => session,
            Err(error) => {
                report(&error);
                return sleep(RETRY).await;
            }
        };
        let (waiting, mut due) = DeadlineMap::new();
        let mut running = JoinSet::new();
        let mut is_stopping = false;
        let (mut number, mut room) = (1, self.batch.min(self.held));
        // Whether the last claim got as many jobs as it had room for.
        let mut is_full = false;
        let claim = async |number, pause, room| {
            let _ = timeout(pause, bell.notified()).await;
            let asked = boot::Instant::now();
            (asked, self.queue.claim(session, number, self.window, room).await)
        };
        let mut next = pin!(claim(number, Duration::ZERO, room));
        while !(is_stopping && running.is_empty()) {
            tokio::select! {
                biased; // the lease first: once it has ended, nothing else may happen
                () = &mut lease => return report(&"the lease was lost"),
                (asked, claimed) = &mut next => {
                    let is_answered = match claimed {
                        Ok(None) => return report(&"the lease was lost"),
                        Ok(Some(jobs)) => {
                            lease.reset_at(asked + trusted);
                            number += 1;
                            is_full = jobs.len() == room;
                            for (job, remaining) in jobs {
                                waiting.insert(job.name.clone(), job, remaining);
                            }
                            true
                        }
                        Err(error) => {
                            report(&error);
                            false
                        }
                    };
                    let left = self.held.saturating_sub(waiting.len() + running.len());
                    room = if is_stopping { 0 } else { left.min(self.batch) };
                    let pause = match is_answered {
                        false => RETRY,
                        true if is_full && room > 0 => Duration::ZERO,
                        true => self.queue.lease / 3,
                    };
                    next.set(claim(number, pause, room));
                }
                Some((_, job)) = due.recv(), if !is_stopping => {
                    let (queue, name) = (self.queue.clone(), job.name.clone());
                    let handled = handle(job);
                    running.spawn(async move {
                        handled.await;
                        while let Err(error) = queue.acknowledge(session, &name).await {
                            report(&error);
                            sleep(RETRY).await;
                        }
                    });
                }
                Some(ended) = running.join_next() => {
                    if let Err(error) = ended {
                        resume_unwind(error.into_panic());
                    }
                    if is_full {
                        bell.notify_one(); // there is room again
                    }
                }
                _ = stop.wait_for(|stop| *stop), if !is_stopping => is_stopping = true,
            }
        }
        if let Err(error) = self.queue.close_session(session).await {
            report(&error); // the lease will end
        }
    }

    /// Passes on the queue's bell, forever.
    async fn ring(&self, bell: &Notify) {
        let mut last = "0".to_owned();
        loop {
            match self.queue.bell(&last).await {
                Ok(call) => {
                    last = call;
                    bell.notify_one();
                }
                Err(error) => {
                    report(&error);
                    sleep(RETRY).await;
                }
            }
        }
    }
}

fn report(what: &impl Display) {
    eprintln!("worker: {what}");
}
