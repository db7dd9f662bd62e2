//! [`LazySleep`]: a sleep whose end is put off often.
//
// Invariants
// 1. While the sleep is registered, it ends at `end` or earlier. What puts `end` off only writes it; the sleep follows
//    when it fires. So however often that happens, the timer is called once in each period.
// 2. Once a test holds a clock of this process, the sleep follows at once: a clock that is paused jumps to nothing that
//    was put off.
// 3. An end at `Tick::MAX` never comes, and nothing is registered for it.
//
// Must not know: what it is for.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::clock::{self, source::any_is_held};
use crate::future::Sleep;
use crate::util::error::Error;
use crate::wheel::Tick;

#[derive(Debug)]
pub(crate) struct LazySleep {
    sleep: Sleep,
    end: Tick,
}

impl LazySleep {
    /// Ends when `sleep` does.
    pub(crate) fn new(sleep: Sleep) -> Self {
        LazySleep { end: sleep.tick(), sleep }
    }

    /// When this ends.
    #[inline]
    pub(crate) fn end(&self) -> Tick {
        self.end
    }

    /// From now on this ends at `end`. If that is earlier, its task is woken then without another poll.
    #[inline]
    pub(crate) fn end_at(&mut self, end: Tick) {
        self.end = end;
        if self.sleep.is_registered() && (end < self.sleep.tick() || any_is_held()) {
            self.move_sleep();
        }
    }

    /// From now on this ends `duration` from now.
    #[inline]
    pub(crate) fn end_after(&mut self, duration: Duration) {
        self.end_at(clock::later(self.now(), duration));
    }

    /// From now on this never ends, and nothing stays registered.
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

    /// Ready at the end. Takes nothing of the task's budget.
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

    /// [`poll`](LazySleep::poll), for what has no result for the timer's errors.
    #[inline]
    pub(crate) fn poll_or_panic(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match ready!(self.poll(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => self.sleep.panic_with(error),
        }
    }

    /// The time on the timer's clock, or on the current runtime's before the timer is known.
    #[inline]
    pub(crate) fn now(&self) -> Tick {
        self.sleep.now()
    }

    /// Whether a tick has come on that clock. Reads no clock if it is far ahead.
    #[inline]
    pub(crate) fn has_come(&self, tick: Tick) -> bool {
        self.sleep.has_come(tick)
    }
}
