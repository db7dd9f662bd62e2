//! The sleep inside the [`Timeout`] that [`Deadline::limit`] returns.

use std::task::{Context, Poll};
use std::time::Duration;

use super::Deadline;
use crate::clock::Instant;
use crate::future::delay::Delay;
use crate::future::hooks::TimerKind;
use crate::future::{Sleep, Time, sleep_until};
use crate::timer::Timer;
use crate::util::error::Error;

/// A sleep until a deadline, which may be never. It is public for the parameters of a timeout, and users cannot name
/// it.
#[derive(Debug)]
pub struct DeadlineSleep {
    deadline: Deadline,
    sleep: Sleep,
}

impl DeadlineSleep {
    #[track_caller]
    pub(super) fn new(deadline: Deadline) -> DeadlineSleep {
        DeadlineSleep::over(deadline, sleep_until(deadline.into()).of(TimerKind::Timeout))
    }

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
        self.sleep.reset_at(deadline.into());
    }

    fn on(self, timer: &Timer) -> DeadlineSleep {
        DeadlineSleep { sleep: self.sleep.on(timer), ..self }
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>, is_spent: bool) -> Poll<Result<(), Error>> {
        match self.deadline.instant() {
            Some(_) => self.sleep.poll_delay(cx, is_spent),
            None => Poll::Pending,
        }
    }

    fn panic_with(&self, error: Error) -> ! {
        self.sleep.panic_with(error)
    }
}
