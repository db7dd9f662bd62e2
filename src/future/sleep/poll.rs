//! How a sleep finds its timer, waits there, and completes or fails.
//
// The invariants are those of `mod.rs`.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;

use super::{Flags, ItemKind, Sleep, WaitHooks};
use crate::clock::{self, Hooks};
use crate::core::shard::{InsertError, Key, ShardLease};
use crate::core::{tasks, thread_shards};
use crate::util::error::Error;

/// How long a sleep may wait in a task that a worker polls while its runtime ends. The runtime is about to drop the
/// task, unless the task blocks the worker.
const LAST_WAIT: Duration = Duration::from_millis(100);

impl Sleep {
    /// Polls, and returns an error instead of panicking. If `is_spent`, this spends none of the task's budget.
    #[inline]
    pub(crate) fn poll_elapsed(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        let elapsed = ready!(self.poll_stage(cx));
        if !is_spent {
            ready!(coop::poll_proceed(cx)).made_progress();
        }
        if elapsed.is_ok() {
            self.set_stage(Flags::DONE);
        }
        Poll::Ready(elapsed)
    }

    #[inline]
    fn poll_stage(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        // Moved out during the poll, which borrows the sleep.
        let spans = mem::take(&mut self.spans);
        let elapsed = spans.poll("poll_elapsed", || match self.flags() {
            flags if flags.has(Flags::WAITING) => self.poll_waiting(cx),
            flags if flags.has(Flags::DONE) => Poll::Ready(Ok(())),
            _ => self.poll_idle(cx),
        });
        self.spans = spans;
        elapsed
    }

    // Not inlined: a first poll should not save the registers that this uses.
    #[inline(never)]
    fn poll_waiting(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let ((lease, key), deadline) = (self.entry().expect("it waits on a timer"), self.deadline);
        if lease.has_fired(deadline) {
            self.leave(Flags::DONE);
            return Poll::Ready(Ok(()));
        }
        if lease.set_waker(key, cx.waker()) {
            return Poll::Pending;
        }
        // It fired just now, or its timer ended: check again.
        self.leave(Flags::IDLE);
        self.poll_idle(cx)
    }

    #[inline]
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let timer = if self.flags().has(Flags::CHOSEN) {
            self.timer().expect("it was chosen")
        } else {
            match thread_shards::shard_of_runtime() {
                Ok(timer) => timer,
                Err(error) => return self.poll_without_runtime(error, cx),
            }
        };
        self.register(timer, cx)
    }

    /// Outside a runtime, this waits on the timer that it was on before, or on the process's own. In a runtime that has
    /// ended it fails, but in a task that a worker polls only at the second time.
    #[cold]
    fn poll_without_runtime(&mut self, error: Error, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if error.is_no_runtime() {
            return self.register(self.timer().unwrap_or_else(thread_shards::global_shard), cx);
        }
        let again = self.flags().has(Flags::ENDING);
        if !again && !tasks::runs_tasks() {
            return Poll::Ready(Err(error));
        }
        let global = thread_shards::global_shard();
        let now = global.now();
        if again {
            // It may have been taken out before its turn was known to have come so far.
            return Poll::Ready(if self.deadline <= now { Ok(()) } else { Err(error) });
        }
        match global.insert(clock::later(now, LAST_WAIT).min(self.deadline), cx.waker().clone()) {
            Ok(key) => {
                let pending = self.wait_on(global, key);
                self.place.set_flags(0, Flags::ENDING);
                pending
            }
            Err(InsertError::AlreadyDue) => Poll::Ready(Ok(())),
            Err(_) => Poll::Ready(Err(error)),
        }
    }

    #[inline]
    fn register(&mut self, timer: ShardLease, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        match timer.insert(self.deadline, cx.waker().clone()) {
            Ok(key) => self.wait_on(timer, key),
            Err(InsertError::Closed) if !self.flags().has(Flags::CHOSEN) => self.poll_anew(cx),
            Err(refusal) => self.refused(timer, &refusal),
        }
    }

    /// The timer ended just now, with its runtime or by a shutdown. The next poll finds another.
    #[cold]
    fn poll_anew(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.place.set(None, Key::numbered(0), 0, 0);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    #[inline]
    fn wait_on(&mut self, timer: ShardLease, key: Key) -> Poll<Result<(), Error>> {
        Hooks::begins_to_wait(timer.address(), key, self.made, self.flags().kind());
        let mask = Flags::EPOCH | Flags::ENDING | Flags::STAGE;
        self.place.set(Some(timer.shard()), key, mask, timer.epoch().0 | Flags::WAITING);
        Poll::Pending
    }

    #[cold]
    fn refused(&mut self, timer: ShardLease, refusal: &InsertError) -> Poll<Result<(), Error>> {
        self.place.set(Some(timer.shard()), Key::numbered(0), Flags::EPOCH, timer.epoch().0);
        match *refusal {
            InsertError::AlreadyDue => Poll::Ready(Ok(())),
            // It had fired before the timer ended, unless its clock was ahead of this one.
            InsertError::Closed if timer.has_fired(self.deadline) && self.deadline <= timer.now() => {
                Poll::Ready(Ok(()))
            }
            InsertError::Closed => Poll::Ready(Err(Error::ended(timer.name()))),
            InsertError::AtCapacity(pending) => Poll::Ready(Err(Error::over_capacity(timer.name(), pending))),
        }
    }

    /// Panics with an error that the owner cannot return.
    #[cold]
    #[inline(never)]
    pub(crate) fn panic_with(&self, error: Error) -> ! {
        let (what, instead) = match self.flags().kind() {
            ItemKind::Sleep => ("sleep", "; to get an error instead, use `fallible`"),
            ItemKind::Timeout => ("timeout", "; to get an error instead, use `fallible`"),
            ItemKind::Interval => ("interval", "; to get an error instead, use `fallible`"),
            ItemKind::DelayQueue => ("queue", ""),
            ItemKind::DeadlineMap => ("map", ""),
        };
        panic!("{error}; the {what} was created at {}{instead}", self.made)
    }
}

impl Future for Sleep {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll_elapsed(cx, false)) {
            Ok(()) => {
                self.keep(cx.waker());
                Poll::Ready(())
            }
            Err(error) => self.panic_with(error),
        }
    }
}

#[cfg(all(test, not(hairspring_loom)))]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;
    use std::thread;

    use tokio::runtime::Builder;

    use super::*;
    use crate::future::sleep;
    use crate::util::testing::blocking;

    /// A bug that this crate had: the thread waited for an hour on the process's own timer, and so did the thread that
    /// dropped the runtime.
    #[test]
    fn a_runtime_that_ends_between_the_search_and_the_registration_does_not_wait_for_the_deadline() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (found, is_found) = mpsc::channel();
        let blocked = runtime.spawn_blocking(move || {
            let timer = thread_shards::shard_of_runtime().unwrap();
            found.send(()).unwrap();
            while timer.is_default() {
                thread::yield_now();
            }
            let mut sleep = sleep(Duration::from_secs(3_600));
            let found = sleep.register(timer, &mut Context::from_waker(Waker::noop()));
            assert!(found.is_pending());
            futures::executor::block_on(std::future::poll_fn(|cx| sleep.poll_elapsed(cx, false)))
        });
        is_found.recv().unwrap();
        drop(runtime);
        let ended = futures::executor::block_on(blocked).unwrap();
        assert!(ended.is_err_and(|error| error.is_shutdown()));
    }

    /// Polls a sleep in a task of a runtime that ends. Returns whether it was ready, and had not failed.
    fn in_a_runtime_that_ends(poll: impl FnOnce() -> Poll<Result<(), Error>> + Send + 'static) -> Poll<bool> {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let (started, starts) = mpsc::channel();
        let (ended, ends) = mpsc::channel();
        runtime.spawn(async move {
            let timer = thread_shards::shard_of_runtime().unwrap();
            started.send(()).unwrap();
            while timer.is_default() {
                thread::yield_now();
            }
            ended.send(poll().map(|elapsed| elapsed.is_ok())).unwrap();
        });
        starts.recv().unwrap();
        runtime.shutdown_background();
        ends.recv().unwrap()
    }

    /// A bug that this crate had: the sleep failed, because its runtime had ended.
    #[test]
    fn a_deadline_that_has_come_is_met_in_a_runtime_that_ends() {
        let polled = in_a_runtime_that_ends(|| {
            let mut sleep = sleep(Duration::ZERO);
            crate::core::registry::global().timer().engine().reach(sleep.deadline);
            sleep.poll_elapsed(&mut Context::from_waker(Waker::noop()), false)
        });
        assert_eq!(polled, Poll::Ready(true));
    }

    /// A bug that this crate had: the sleep failed, because it was out although the turn had not come past its deadline.
    #[test]
    fn what_fires_with_others_in_a_runtime_that_ends_has_not_failed() {
        let polled = in_a_runtime_that_ends(|| {
            let (has_fired, blocks, _unblock) = blocking();
            let deadline = clock::after(LAST_WAIT * 9 / 10);
            let mut all: Vec<_> = (0..70).map(|_| Sleep::new(deadline)).collect();
            let mut polled = all.iter_mut().map(|sleep| sleep.poll_elapsed(&mut Context::from_waker(&blocks), true));
            if polled.all(|polled| polled.is_pending()) {
                has_fired.recv().unwrap();
            }
            all[1].poll_elapsed(&mut Context::from_waker(Waker::noop()), true)
        });
        assert_eq!(polled, Poll::Ready(true));
    }
}
