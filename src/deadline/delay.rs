//! The sleep inside the [`Timeout`] that [`Deadline::limit`] returns.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::Deadline;
use crate::clock::{self, Instant};
use crate::future::delay::Delay;
use crate::future::{ItemKind, Sleep, Time};
use crate::util::error::Error;

/// A sleep until a deadline, which may be never. It is public for the parameters of a timeout, and users cannot name
/// it.
#[derive(Debug)]
pub struct DeadlineSleep {
    deadline: Deadline,
    sleep: Sleep,
}

impl DeadlineSleep {
    pub(crate) fn over(deadline: Deadline, sleep: Sleep) -> DeadlineSleep {
        DeadlineSleep { deadline, sleep }
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
        self.sleep.is_elapsed()
    }

    fn reset_at(&mut self, deadline: Deadline) {
        self.deadline = deadline;
        self.sleep.reset_at_tick(clock::tick_of(deadline.into()));
    }

    fn part_of(self, kind: ItemKind) -> DeadlineSleep {
        DeadlineSleep { sleep: self.sleep.part_of(kind), ..self }
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        self.sleep.poll_delay(cx, is_spent)
    }

    fn keep(&mut self, waker: &Waker) {
        self.sleep.keep(waker);
    }

    fn panic_with(&self, error: Error) -> ! {
        self.sleep.panic_with(error)
    }
}
