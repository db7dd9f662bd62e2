//! The sleep inside the [`Timeout`] that [`Deadline::limit`] returns.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Deadline;
use crate::clock::{self, Instant};
use crate::future::delay::Delay;
use crate::future::{Sleep, Time, TimerKind};
use crate::util::error::Error;
use crate::util::panics::catch_panic;
use crate::wheel::Tick;

/// A sleep until a deadline, which may be never. It is public for the parameters of a timeout, and users cannot name
/// it.
#[derive(Debug)]
pub struct DeadlineSleep {
    deadline: Deadline,
    sleep: Sleep,
    /// The task that waits while the deadline is never, for a reset to wake.
    waiter: Option<Waker>,
}

impl DeadlineSleep {
    pub(crate) fn over(deadline: Deadline, sleep: Sleep) -> DeadlineSleep {
        DeadlineSleep { deadline, sleep, waiter: None }
    }
}

impl Time for Deadline {
    type Sleep = DeadlineSleep;
}

impl Delay<Deadline> for DeadlineSleep {
    fn deadline(&self) -> Deadline {
        self.deadline
    }

    fn now(&self) -> Deadline {
        Deadline { at: Some(Delay::<Instant>::now(&self.sleep)), ..self.deadline }
    }

    fn late(&self) -> Duration {
        self.sleep.late()
    }

    fn is_elapsed(&self) -> bool {
        self.deadline.instant().is_some() && self.sleep.is_elapsed()
    }

    fn reset_at(&mut self, deadline: Deadline) {
        self.deadline = deadline;
        // To wait for never, the sleep leaves its timer. That wakes the task, whose next poll leaves its waker here.
        self.sleep.reset_at_tick(deadline.instant().map_or(Tick::ZERO, clock::tick_of));
        if let Some(waiter) = self.waiter.take() {
            catch_panic(|| waiter.wake());
        }
    }

    fn of(self, kind: TimerKind) -> DeadlineSleep {
        DeadlineSleep { sleep: self.sleep.of(kind), ..self }
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        if self.deadline.instant().is_some() {
            return self.sleep.poll_delay(cx, is_spent);
        }
        if !self.waiter.as_ref().is_some_and(|waiter| waiter.will_wake(cx.waker())) {
            self.waiter = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn panic_with(&self, error: Error) -> ! {
        self.sleep.panic_with(error)
    }
}
