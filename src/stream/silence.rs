//! [`Silence`]: a limit on how long nothing happens.
//
// Invariants
// 1. The sleep is never set for later than `deadline`. While it is registered, activity only writes `deadline`; the
//    sleep follows when it fires. So the timer is called once in `duration`, however much happens.
// 2. A sleep that drives a clock follows at once: a clock that a test has paused jumps to nothing that was put off.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::clock;
use crate::future::Sleep;
use crate::wheel::Tick;

#[derive(Debug)]
pub(super) struct Silence {
    sleep: Sleep,
    duration: Duration,
    deadline: Tick,
}

impl Silence {
    /// A limit that counts from now.
    #[track_caller]
    pub(super) fn new(duration: Duration) -> Self {
        let deadline = clock::after(duration);
        Silence { sleep: Sleep::new(deadline), duration, deadline }
    }

    /// Something has happened: counts anew.
    #[inline]
    pub(super) fn end(&mut self) {
        self.deadline = clock::later(self.sleep.now(), self.duration);
        if !self.sleep.is_registered() || self.sleep.drives_clock() {
            self.sleep.reset_to_tick(self.deadline);
        }
    }

    /// Ready if nothing has happened for so long.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.sleep.tick() < self.deadline {
            // Not the end yet, so this takes nothing of the task's budget.
            match ready!(self.sleep.poll_without_budget(cx)) {
                Ok(()) => self.sleep.reset_idle(self.deadline),
                Err(error) => self.sleep.panic_with(error),
            }
        }
        Pin::new(&mut self.sleep).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn activity_calls_no_timer() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut silence = Silence::new(Duration::from_secs(3600));
        silence.end();
        assert_eq!(silence.sleep.tick(), silence.deadline, "it is not registered yet");
        assert!(silence.poll(&mut cx).is_pending());
        let registered = silence.deadline;
        for _ in 0..1_000 {
            silence.end();
            assert!(silence.poll(&mut cx).is_pending());
        }
        assert!(silence.deadline > registered);
        assert_eq!(silence.sleep.tick(), registered);
    }
}
