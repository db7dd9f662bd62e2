//! [`DriverSleep`]: a tokio sleep as an alarm. It needs `enable_time`. A clock that a test has paused needs it, because
//! tokio advances that clock only to its own timers.
//
// Invariants
// 1. The sleep calls its waker from within tokio's own firing, so tests see timers fire at the same points as tokio's.
//
// It holds because tokio calls the waker of the last poll, and only `set` polls the sleep.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::coop::unconstrained;
use tokio::time::Sleep;

use crate::clock::instant::Instant;
use crate::clock::instant_of;
use crate::util::panics;
use crate::wheel::Tick;

/// What tokio rounds up to.
const RESOLUTION: Duration = Duration::from_millis(1);

/// The furthest alarm: tokio's clock would overflow if advanced much further. The driver then sets it again.
const LONGEST: Duration = Duration::from_secs(20 * 365 * 86_400);

pub(crate) struct DriverSleep {
    sleep: Pin<Box<Sleep>>,
    waker: Waker,
    runtime: Handle,
}

impl DriverSleep {
    /// Fails if the current runtime has no `enable_time`.
    pub(crate) fn new(waker: Waker) -> io::Result<Self> {
        let sleep = panics::if_enabled(|| Box::pin(tokio::time::sleep(LONGEST)))?;
        Ok(DriverSleep { sleep, waker, runtime: Handle::current() })
    }

    /// Sets the alarm, replacing the last one; `None` for none. Returns whether tokio's timers have processed that time
    /// already. Then there is no alarm.
    pub(crate) fn set(&mut self, at: Option<Instant>) -> bool {
        let _entered = self.runtime.enter();
        let latest = Instant::now() + LONGEST;
        // Not reset: tokio wakes a sleep that is reset to a time that has come, here and now. One that is reset to a
        // later time keeps its place in tokio's wheel, and a paused clock stops there.
        self.sleep.set(tokio::time::sleep_until(at.map_or(latest, |at| at.min(latest)).into()));
        // The alarm must not use up the budget of a task.
        let polled = |sleep| pin!(unconstrained(sleep)).poll(&mut Context::from_waker(&self.waker));
        at.is_some() && polled(self.sleep.as_mut()).is_ready()
    }

    /// Sets it on the system's clock. It goes off within two milliseconds after `tick`, and never in this call.
    pub(crate) fn set_soon(&mut self, tick: Tick) {
        let mut at = instant_of(tick).max(Instant::now());
        while self.set(Some(at)) {
            at = Instant::now() + RESOLUTION;
        }
    }
}

/// The last tick up to `now` that tokio's timers have processed in the pass that is under way. tokio counts
/// milliseconds from a time that it does not tell, and a paused clock may stand between two. Needs `enable_time`.
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
