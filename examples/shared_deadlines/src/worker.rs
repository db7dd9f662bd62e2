//! [`Worker`]: claims the next jobs of a queue, waits for their deadlines and handles them.
//
// Invariants
// 1. A job is begun only at or after its deadline, and only while the lease of the session that claimed it lasts.
// 2. A lease counts here from before the request for it was sent, so it ends here before it ends in Redis.
// 3. When a lease ends, all that was claimed under it is dropped, and what runs is stopped at its next `.await`.

use std::fmt::Display;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hairspring::{DeadlineMap, boot, sleep, timeout};
use redis::RedisResult;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::queue::{Batch, Claimed, Queue};

/// The pause after Redis did not answer.
const RETRY: Duration = Duration::from_millis(100);

/// A job whose deadline has come.
#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    pub payload: String,
    /// In microseconds since 1970, by the clock of the Redis server.
    pub deadline: u64,
    /// Greater than that of each earlier claim of this job. A database that stores it with what the job does can refuse
    /// smaller ones: they come from a worker that has lost the job and does not know it yet.
    pub token: u64,
}

/// How a worker works. Workers of one queue may differ.
#[derive(Debug, Clone)]
pub struct Worker {
    pub queue: Queue,
    /// Jobs that are due within this time are claimed, and wait here.
    pub window: Duration,
    /// How many jobs are claimed at a time, so that other workers get some, too.
    pub batch: usize,
    /// How many jobs are held at most, waiting or running.
    pub held: usize,
}

impl Worker {
    /// Handles jobs until `stop` is ready. Then it finishes what it has begun, and what waits goes to other workers.
    ///
    /// Each job is acknowledged once `handle` has returned. Whenever the lease is lost, `handle` is dropped at an `.await`,
    /// and the job is handled again: by another worker, or by this one.
    ///
    /// # Panics
    /// If `handle` panics. What this worker holds is left to the end of its lease.
    pub async fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        handle: impl Fn(Job) -> F,
        stop: impl Future<Output = ()>,
    ) {
        let mut stop = pin!(stop);
        let mut is_stopping = false;
        let bell = Arc::new(Notify::new());
        let mut ringer = JoinSet::new(); // ends as it is dropped
        ringer.spawn(ring(self.queue.clone(), Arc::clone(&bell)));
        while !is_stopping {
            self.session(&handle, stop.as_mut(), &mut is_stopping, &bell).await;
        }
    }

    /// Handles jobs until the lease is lost, or until this worker has stopped.
    async fn session<F: Future<Output = ()> + Send + 'static>(
        &self,
        handle: impl Fn(Job) -> F,
        mut stop: impl Future<Output = ()> + Unpin,
        is_stopping: &mut bool,
        bell: &Notify,
    ) {
        // A little less than Redis was asked for, in case its clock is faster.
        let trusted = self.queue.lease() / 10 * 9;
        let mut asked = boot::Instant::now();
        let session = loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    *is_stopping = true;
                    return;
                }
                opened = self.queue.open_session() => match opened {
                    Ok(session) => break session,
                    Err(error) => report(&error),
                }
            }
            sleep(RETRY).await;
            asked = boot::Instant::now();
        };

        // Not `sleep`: a lease goes on while this machine is suspended.
        let mut lease = boot::sleep_until(asked + trusted);
        let (waiting, mut due) = DeadlineMap::new();
        let mut running = JoinSet::new();
        let mut number = 1;
        let mut room = self.batch.min(self.held);
        // Whether the last look got as many as it had room for.
        let mut is_full = false;
        let mut look = pin!(self.look(session, number, Duration::ZERO, bell, room));
        while !(*is_stopping && running.is_empty()) {
            tokio::select! {
                biased; // the lease first: if it is over, nothing else may happen
                () = &mut lease => return report(&"the lease was lost"),
                (asked, looked) = &mut look => {
                    let is_answered = match looked {
                        Ok(None) => return report(&"the lease was lost"),
                        Ok(Some(batch)) => {
                            lease.reset_at(asked + trusted);
                            number += 1;
                            is_full = batch.jobs.len() == room;
                            insert(&waiting, batch);
                            true
                        }
                        Err(error) => {
                            report(&error);
                            false
                        }
                    };
                    let left = self.held.saturating_sub(waiting.len() + running.len());
                    room = if *is_stopping { 0 } else { left.min(self.batch) };
                    let pause = if !is_answered {
                        RETRY
                    } else if is_full && room > 0 {
                        Duration::ZERO
                    } else {
                        self.queue.lease() / 3
                    };
                    look.set(self.look(session, number, pause, bell, room));
                }
                Some((_, job)) = due.recv(), if !*is_stopping => {
                    let (queue, name) = (self.queue.clone(), job.name.clone());
                    let handled = handle(job);
                    running.spawn(async move {
                        handled.await;
                        acknowledge(&queue, session, &name).await;
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
                () = &mut stop, if !*is_stopping => *is_stopping = true,
            }
        }
        if let Err(error) = self.queue.close_session(session).await {
            report(&error); // the lease will end
        }
    }

    /// Waits for `pause` or the bell, then looks. Returns when it asked.
    async fn look(
        &self,
        session: u64,
        number: u64,
        pause: Duration,
        bell: &Notify,
        room: usize,
    ) -> (boot::Instant, RedisResult<Option<Batch>>) {
        let _ = timeout(pause, bell.notified()).await;
        let asked = boot::Instant::now();
        (asked, self.queue.look(session, number, self.window, room).await)
    }
}

fn insert(waiting: &DeadlineMap<String, Job>, batch: Batch) {
    for Claimed { name, payload, deadline, to_go } in batch.jobs {
        let job = Job { name: name.clone(), payload, deadline, token: batch.token };
        waiting.insert(name, job, to_go);
    }
}

async fn acknowledge(queue: &Queue, session: u64, job: &str) {
    while let Err(error) = queue.acknowledge(session, job).await {
        report(&error);
        sleep(RETRY).await;
    }
}

/// Passes on the bell.
async fn ring(queue: Queue, bell: Arc<Notify>) {
    let mut last = "0".to_owned();
    loop {
        match queue.bell(&last).await {
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

fn report(what: &impl Display) {
    eprintln!("worker: {what}");
}
