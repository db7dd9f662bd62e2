//! [`DriverSleep`]: a tokio sleep as an alarm. It needs `enable_time`. A clock that a test has paused needs it, because
//! tokio advances that clock only to its own timers.
//
// Invariants
// 1. The sleep calls its waker from within tokio's own firing, so tests see timers fire at the same points as tokio's.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::coop::unconstrained;
use tokio::time::Sleep;

use crate::clock::instant::Instant;
use crate::clock::instant_of;
use crate::util::panics;
use crate::wheel::Tick;

/// The furthest alarm: tokio's clock would overflow if advanced much further. The driver then sets it again.
const LONGEST: Duration = Duration::from_secs(20 * 365 * 86_400);

pub(crate) struct DriverSleep {
    sleep: Option<Pin<Box<Sleep>>>,
    waker: Waker,
}

impl DriverSleep {
    /// Fails if the current runtime has no `enable_time`.
    pub(crate) fn new(waker: Waker) -> io::Result<Self> {
        Ok(DriverSleep { sleep: Some(until(Instant::now() + LONGEST)?), waker })
    }

    /// Sets the alarm, replacing the last one; `None` for none. Has no effect on a runtime without `enable_time`.
    pub(crate) fn set(&mut self, at: Option<Instant>) {
        let Some(at) = at.map(|at| at.min(Instant::now() + LONGEST)) else {
            self.sleep = None;
            return;
        };
        // A tokio sleep that is reset to a later time keeps its place in tokio's wheel, and a paused clock stops there.
        self.sleep.take_if(|sleep| sleep.deadline() < at.into() && !sleep.is_elapsed());
        let Some(mut sleep) = self.sleep.take().or_else(|| until(at).ok()) else { return };
        sleep.as_mut().reset(at.into());
        // The alarm must not use up the budget of the driver's task.
        let polled = pin!(unconstrained(sleep.as_mut())).poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.waker.wake_by_ref();
        } else {
            self.sleep = Some(sleep);
        }
    }
}

/// The last tick up to `now` that tokio's timers have processed in the pass that is under way. tokio counts milliseconds from
/// a time that it does not tell, and a paused clock may stand between two. Needs `enable_time`.
pub(crate) fn processed(now: Tick) -> Tick {
    if is_processed(now) {
        return now;
    }
    let before = |ago: u64| Tick(now.0.saturating_sub(ago));
    let ago =
        (0..20).rev().fold(0, |ago, bit| if is_processed(before(ago + (1 << bit))) { ago } else { ago + (1 << bit) });
    before(ago + 1)
}

/// Whether tokio's timers have processed a tick: a sleep of tokio's until then is ready at its first poll.
pub(crate) fn is_processed(tick: Tick) -> bool {
    let sleep = pin!(unconstrained(tokio::time::sleep_until(instant_of(tick).into())));
    sleep.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn until(at: Instant) -> io::Result<Pin<Box<Sleep>>> {
    panics::if_enabled(|| Box::pin(tokio::time::sleep_until(at.into())))
}
