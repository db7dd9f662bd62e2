//! [`Helpers`]: threads for work that may block or is user code, which the alarm thread must not run.
//!
//! They run turns for timers whose driver is late or missing, wake drivers on other executors, and wake tasks after a
//! jump of a clock.
//
// Invariants
// 1. Work begins as soon as it is sent, on an idle thread or a new one: work that blocks delays no other work, unless
//    `MAX_THREADS` threads block.
// 2. If no thread can be started, the sender does the work.
// 3. An idle thread ends after a while. A program that needs no helper thread has none.

use std::collections::VecDeque;
use std::time::Duration;

use crate::util::panics::catch_panic;
use crate::util::sync::{Condvar, MODELLED, Mutex, MutexGuard, per_process, unpoisoned};

/// How long a thread stays idle before it ends.
const MAX_IDLE: Duration = Duration::from_secs(10);

/// Each thread that blocks is in a waker that blocks, or waits for a CPU.
const MAX_THREADS: usize = 256;

type Work = Box<dyn FnOnce() + Send>;

pub(crate) struct Helpers {
    queue: Mutex<Queue>,
    sent: Condvar,
    max_idle: Duration,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// How many threads wait. A thread that was notified but has not run yet is counted, and its work is still queued.
    idle: usize,
    threads: usize,
}

per_process! {
    fn helpers() -> &'static Helpers = |_| Helpers::new();
}

/// Lets a helper thread do `work`.
pub(crate) fn send(work: impl FnOnce() + Send + 'static) {
    helpers().send(Box::new(work));
}

impl Helpers {
    pub(crate) fn new() -> Self {
        Helpers { queue: Mutex::new(Queue::default()), sent: Condvar::new(), max_idle: MAX_IDLE }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this lock.
        unpoisoned(self.queue.lock())
    }

    pub(crate) fn send(&'static self, work: Work) {
        if !self.enqueue(work) {
            return;
        }
        let thread = std::thread::Builder::new().name("hairspring-helper".into());
        // In a model, and if no thread can be started, the caller does the work.
        if MODELLED || thread.spawn(|| self.serve(|| false)).is_err() {
            self.lock().threads -= 1;
            self.work_off();
        }
    }

    /// Queues `work`. Returns whether it needs another thread, which then counts as started.
    fn enqueue(&self, work: Work) -> bool {
        let mut queue = self.lock();
        queue.work.push_back(work);
        let needs_another = queue.idle < queue.work.len() && queue.threads < MAX_THREADS;
        queue.threads += usize::from(needs_another);
        drop(queue);
        if !needs_another {
            self.sent.notify_one();
        }
        needs_another
    }

    fn work_off(&self) {
        loop {
            let work = self.lock().work.pop_front();
            let Some(work) = work else { return };
            catch_panic(work);
        }
    }

    /// The main loop of a thread: runs until no work has arrived for a while, or in a model, until `is_done`.
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
    fn wait(&self, mut queue: MutexGuard<'_, Queue>) -> bool {
        queue.idle += 1;
        let (mut queue, waited) = unpoisoned(self.sent.wait_timeout(queue, self.max_idle));
        queue.idle -= 1;
        let goes_on = !queue.work.is_empty() || !waited.timed_out();
        queue.threads -= usize::from(!goes_on);
        goes_on
    }
}

#[cfg(all(test, hairspring_loom))]
mod modelled {
    use super::*;

    impl Helpers {
        /// Wakes all threads to check whether they are done.
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
    fn work_that_blocks_holds_up_no_other() {
        const BLOCKED: usize = 5;
        let helpers: &'static Helpers = Box::leak(Box::new(Helpers::new()));
        let (done, all) = mpsc::channel();
        let gates: Vec<_> = (0..BLOCKED)
            .map(|number| {
                let (open, closed) = mpsc::channel::<()>();
                let done = done.clone();
                helpers.send(Box::new(move || {
                    let _ = closed.recv();
                    done.send(number).unwrap();
                }));
                open
            })
            .collect();
        helpers.send(Box::new(|| panic!("on purpose")));
        helpers.send(Box::new(move || done.send(BLOCKED).unwrap()));
        assert_eq!(all.recv().unwrap(), BLOCKED, "the others still wait at their gates");
        drop(gates);
        assert_eq!(all.iter().count(), BLOCKED);
    }

    /// A bug that this crate had: nothing bounded the number of threads.
    #[test]
    fn the_number_of_threads_is_bounded_and_no_work_is_lost() {
        let helpers = Helpers::new();
        helpers.lock().threads = MAX_THREADS - 1;
        let (done, all) = mpsc::channel();
        let takes_a_thread = [(); 3].map(|()| {
            let done = done.clone();
            helpers.enqueue(Box::new(move || done.send(()).unwrap()))
        });
        assert_eq!((takes_a_thread, helpers.lock().threads), ([true, false, false], MAX_THREADS));
        helpers.work_off();
        assert_eq!(all.try_iter().count(), 3);
    }

    #[test]
    fn a_thread_counts_until_it_ends() {
        let helpers = Helpers { max_idle: Duration::from_millis(1), ..Helpers::new() };
        let helpers: &'static Helpers = Box::leak(Box::new(helpers));
        for _ in 0..3 {
            helpers.send(Box::new(|| ()));
            while helpers.lock().threads > 0 {
                assert!(helpers.lock().threads <= 1 && helpers.lock().idle <= 1, "one was started");
                std::thread::yield_now();
            }
            assert_eq!(helpers.lock().idle, 0);
        }
    }

    /// Both pieces of work are sent before the idle thread wakes; in this test it never does.
    #[test]
    fn an_idle_thread_is_counted_on_for_one_piece_of_work() {
        let helpers = Helpers::new();
        helpers.lock().idle = 1;
        let takes_a_thread = [(), ()].map(|()| helpers.enqueue(Box::new(|| ())));
        assert_eq!(takes_a_thread, [false, true]);
    }
}
