//! [`TokioAlarm`]: a tokio sleep as an alarm. A clock that a test has paused needs it: tokio advances that clock only
//! to its own timers.
//
// Invariants
// 1. The waker is called from within tokio's own firing, so a test finds its timers fired at the same points as
//    tokio's.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock::Instant;
use crate::util::enabled::{self, NotEnabled};

/// The furthest alarm: tokio's clock overflows somewhere if it advances much further. The driver then sets it again.
const LONGEST: Duration = Duration::from_secs(20 * 365 * 86_400);

/// A tokio sleep that wakes `waker`.
#[derive(Debug)]
pub(super) struct TokioAlarm {
    sleep: Option<Pin<Box<Sleep>>>,
    waker: Waker,
}

impl TokioAlarm {
    pub(super) fn new(waker: Waker) -> Self {
        TokioAlarm { sleep: None, waker }
    }

    /// Makes the sleep if there is none. Fails if the runtime has no `enable_time`.
    pub(super) fn make(&mut self) -> Result<(), NotEnabled> {
        if self.sleep.is_none() {
            let never = tokio::time::Instant::from(Instant::now() + LONGEST);
            self.sleep = Some(enabled::with_time(|| Box::pin(tokio::time::sleep_until(never)))?);
        }
        Ok(())
    }

    /// Sets the alarm, in place of the last one. Not on a runtime that has no `enable_time`.
    pub(super) fn set(&mut self, at: Instant) {
        let at = at.min(Instant::now() + LONGEST).into();
        // A tokio sleep that is reset to later stays where it was in tokio's wheel, and a paused clock stops there.
        if self.sleep.as_ref().is_some_and(|sleep| sleep.deadline() < at && !sleep.is_elapsed()) {
            self.cancel();
        }
        let Ok(()) = self.make() else { return };
        let Some(sleep) = &mut self.sleep else { return };
        sleep.as_mut().reset(at);
        // The alarm must not spend the budget of the driver's task.
        let polled = pin!(tokio::task::coop::unconstrained(sleep.as_mut())).poll(&mut Context::from_waker(&self.waker));
        if polled == Poll::Ready(()) {
            self.sleep = None;
            self.waker.wake_by_ref();
        }
    }

    pub(super) fn cancel(&mut self) {
        self.sleep = None;
    }
}
