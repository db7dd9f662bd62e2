//! Starts tasks at the same moment.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::task;

#[derive(Debug)]
pub struct Gate {
    tasks: usize,
    inside: AtomicUsize,
}

impl Gate {
    pub fn new(tasks: usize) -> Self {
        Gate { tasks, inside: AtomicUsize::new(0) }
    }

    /// Returns in all tasks simultaneously, each on a different thread.
    ///
    /// It spins, because tasks that were suspended could all continue on one thread. Each millisecond it yields, in
    /// case another of the tasks is queued behind this one.
    pub async fn meet(&self) {
        loop {
            self.inside.fetch_add(1, SeqCst);
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(1) {
                if self.inside.load(SeqCst) == self.tasks {
                    return;
                }
                hint::spin_loop();
            }
            let leave = |inside| if inside == self.tasks { None } else { Some(inside - 1) };
            if self.inside.fetch_update(SeqCst, SeqCst, leave).is_err() {
                return;
            }
            task::yield_now().await;
        }
    }
}
