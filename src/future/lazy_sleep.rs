//! [`LazySleep`]: a sleep that is often postponed.
//
// Invariants
// 1. While the sleep is registered, it ends at `end` or earlier. Postponing only writes `end`; the sleep follows when
//    it fires. So the timer is used once per period, however often the end moves.
// 2. If a test has paused the timer's clock, the sleep follows immediately: the clock must not jump to the old end.
// 3. An end at `Tick::MAX` is never reached, and nothing is registered for it.

use std::task::{Context, Poll, ready};

use crate::future::Sleep;
use crate::util::error::Error;
use crate::wheel::Tick;

pub(crate) struct LazySleep {
    sleep: Sleep,
    end: Tick,
}

impl LazySleep {
    pub(crate) fn new(sleep: Sleep) -> Self {
        LazySleep { end: sleep.tick(), sleep }
    }

    #[inline]
    pub(crate) fn end(&self) -> Tick {
        self.end
    }

    /// Sets the end. If it is earlier than before, the task is woken at the new end without another poll.
    #[inline]
    pub(crate) fn end_at(&mut self, end: Tick) {
        self.end = end;
        if self.sleep.is_registered() && (end < self.sleep.tick() || self.sleep.is_exact()) {
            self.move_sleep();
        }
    }

    /// Removes the end and the registration.
    pub(crate) fn stop(&mut self) {
        self.end = Tick::MAX;
        if self.sleep.is_registered() {
            self.sleep.reset_idle(Tick::MAX);
        }
    }

    #[inline(never)]
    fn move_sleep(&mut self) {
        if self.end == Tick::MAX {
            self.stop();
        } else {
            self.sleep.reset_at_tick(self.end);
        }
    }

    /// Ready at the end. Spends none of the task's budget.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.end == Tick::MAX {
            return Poll::Pending;
        }
        loop {
            if !self.sleep.is_registered() {
                self.sleep.reset_idle(self.end);
            }
            let until = self.sleep.tick();
            ready!(self.sleep.poll_elapsed(cx, true))?;
            if until == self.end {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Sets the end and polls. Unlike [`end_at`](LazySleep::end_at), this wakes no task if a turn has reached the end,
    /// and does not wait for a multiple of the timer's resolution then.
    #[inline]
    pub(crate) fn poll_until(&mut self, end: Tick, cx: &mut Context<'_>) -> Poll<()> {
        if end <= self.sleep.reached() {
            return Poll::Ready(());
        }
        self.end_at(end);
        self.poll_or_panic(cx)
    }

    /// [`poll`](LazySleep::poll), for types that cannot return the timer's errors.
    #[inline]
    pub(crate) fn poll_or_panic(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => self.sleep.panic_with(error),
        }
    }

    /// Whether it waits on a clock that a test has paused.
    pub(crate) fn is_exact(&self) -> bool {
        self.sleep.is_exact()
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        self.sleep.now()
    }

    #[inline]
    pub(crate) fn reached(&self) -> Tick {
        self.sleep.reached()
    }
}
