//! An alarm of tokio's own. It is what serves a clock that a test has paused: tokio moves that on to the
//! next of its own timers only.
//!
//! Invariants
//! 1. What is to be called at the instant is called from within tokio's own firing, so a test finds its timers fired
//!    at the same points where tokio's would be.
//!
//! Must not know: wheel, shards, the driver.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock::Instant;
use crate::util::enabled::{self, NotEnabled};

/// Tokio's clock cannot be moved on by much more than this without an overflow somewhere; the driver asks again.
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

    /// Makes the sleep if there is none, so that [`set`](Self::set) cannot fail.
    pub(super) fn make(&mut self) -> Result<(), NotEnabled> {
        if self.sleep.is_none() {
            self.sleep = Some(sleep_until(tokio::time::Instant::now())?);
        }
        Ok(())
    }

    /// Sets the alarm, in place of what was set before. `Err` where the runtime has no `enable_time`.
    pub(super) fn set(&mut self, at: Instant) -> Result<(), NotEnabled> {
        let at = at.min(Instant::now() + LONGEST).into();
        // A sleep that is put off stays in tokio's wheel where it was, and a paused clock stops there.
        if self.sleep.as_ref().is_some_and(|sleep| sleep.deadline() < at && !sleep.is_elapsed()) {
            self.cancel();
        }
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                sleep.as_mut().reset(at);
                sleep
            }
            none => none.insert(sleep_until(at)?),
        };
        let sleep = sleep.as_mut();
        // The driver's own budget is no business of its alarm.
        let polled =
            std::pin::pin!(tokio::task::coop::unconstrained(sleep)).poll(&mut Context::from_waker(&self.waker));
        if polled == Poll::Ready(()) {
            self.sleep = None;
            self.waker.wake_by_ref();
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self) {
        self.sleep = None;
    }
}

fn sleep_until(at: tokio::time::Instant) -> Result<Pin<Box<Sleep>>, NotEnabled> {
    enabled::with_time(|| Box::pin(tokio::time::sleep_until(at)))
}
