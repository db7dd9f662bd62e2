//! The helper thread, for work that may be user code, which the alarm thread must not run.
//!
//! It runs turns for timers without a driver, and wakes tasks after a jump of a clock. Work that blocks delays all
//! later work.
//
// Invariants
// 1. Work that was sent is done in order, by one thread.
// 2. If no thread can be started, the sender does the work.
// 3. An idle thread ends after a while. A program that needs no helper has none.
//
// They hold because the queue and `is_served` change under one lock: a thread that leaves says so while the queue is
// empty, and whoever sends after that starts the next.

use std::collections::VecDeque;
use std::time::Duration;

use crate::util::panics::catch_panic;
use crate::util::sync::{Condvar, MODELLED, Mutex, MutexGuard, per_process, unpoisoned};

/// How long the thread stays idle before it ends.
const MAX_IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

pub(crate) struct Helper {
    queue: Mutex<Queue>,
    sent: Condvar,
    max_idle: Duration,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// Whether a thread does the work, or is about to be started.
    is_served: bool,
}

per_process! {
    fn helper() -> &'static Helper = |_| Helper::new();
}

/// Lets the helper thread do `work`.
pub(crate) fn send(work: impl FnOnce() + Send + 'static) {
    helper().send(Box::new(work));
}

impl Helper {
    pub(crate) fn new() -> Self {
        Helper { queue: Mutex::new(Queue::default()), sent: Condvar::new(), max_idle: MAX_IDLE }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this lock.
        unpoisoned(self.queue.lock())
    }

    pub(crate) fn send(&'static self, work: Work) {
        let mut queue = self.lock();
        queue.work.push_back(work);
        if std::mem::replace(&mut queue.is_served, true) {
            self.sent.notify_one();
            return;
        }
        drop(queue);
        let thread = std::thread::Builder::new().name("hairspring-helper".into());
        // In a model, and if no thread can be started, the caller does the work.
        if MODELLED || thread.spawn(|| self.serve(|| false)).is_err() {
            self.lock().is_served = false;
            self.work_off();
        }
    }

    fn work_off(&self) {
        loop {
            let work = self.lock().work.pop_front();
            let Some(work) = work else { return };
            catch_panic(work);
        }
    }

    /// The thread's main loop: runs until no work has arrived for a while, or in a model, until `is_done`.
    pub(crate) fn serve(&self, is_done: impl Fn() -> bool) {
        loop {
            self.work_off();
            let queue = self.lock();
            if is_done() || queue.work.is_empty() && !self.wait(queue) {
                return;
            }
        }
    }

    /// Waits for work. Returns `false` if none arrives for a while.
    fn wait(&self, queue: MutexGuard<'_, Queue>) -> bool {
        let (mut queue, waited) = unpoisoned(self.sent.wait_timeout(queue, self.max_idle));
        queue.is_served = !queue.work.is_empty() || !waited.timed_out();
        queue.is_served
    }
}

#[cfg(all(test, hairspring_loom))]
mod modelled {
    use super::*;

    impl Helper {
        /// Wakes the thread to check whether it is done.
        pub(crate) fn recheck(&self) {
            drop(self.lock());
            self.sent.notify_all();
        }
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn work_is_done_in_order_whatever_panics_and_by_the_next_thread_if_one_has_ended() {
        let helper = Helper { max_idle: Duration::from_millis(1), ..Helper::new() };
        let helper: &'static Helper = Box::leak(Box::new(helper));
        for _ in 0..3 {
            let (done, all) = mpsc::channel();
            for number in 0..5 {
                let done = done.clone();
                helper.send(Box::new(move || {
                    done.send(number).unwrap();
                    assert!(number != 2, "on purpose");
                }));
            }
            drop(done);
            assert_eq!(all.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            while helper.lock().is_served {
                std::thread::yield_now();
            }
        }
    }
}
