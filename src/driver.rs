//! The task that turns a timer's wheels: fires what is due, then sleeps until the earliest of what is left.
//!
//! Invariants
//! 1. No more than [`WAKES`] wakers are woken, nor more than [`HOLDS`] locks taken, before other tasks get their turn.
//! 2. When the driver is dropped its timer ends, and everything that waited is woken to see it.
//!
//! Must not know: futures that sleep.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::alarm::tokio::TokioAlarm;
use crate::clock;
use crate::hub::{Allowance, Hub};
use crate::instant;
use crate::shard::Batch;
use crate::signal::WakesBy;
use crate::tick::Tick;

const WAKES: usize = 1024;
const HOLDS: usize = 256;

/// Turns a timer's wheels, for as long as it is polled; dropping it ends the timer.
pub(crate) struct Driver {
    hub: &'static Hub,
    batch: Batch,
    /// For a clock that the alarm thread knows nothing of.
    tokio_alarm: TokioAlarm,
}

/// Fires what is due from inside tokio's own firing, then has the driver set the next alarm.
struct FireInline(&'static Hub);

impl Driver {
    pub(crate) fn new(hub: &'static Hub) -> Self {
        let tokio_alarm = TokioAlarm::new(Waker::from(Arc::new(FireInline(hub))));
        Driver { hub, batch: Batch::default(), tokio_alarm }
    }

    /// Goes to sleep until `earliest`; `false` where something earlier has come up.
    fn sleep_until(&mut self, earliest: Tick) -> bool {
        let signal = self.hub.signal;
        if instant::clock_is_the_systems() {
            self.tokio_alarm.cancel();
            return signal.end_turn(earliest, WakesBy::Thread);
        }
        if earliest == Tick::MAX {
            self.tokio_alarm.cancel();
        } else if self.tokio_alarm.set(clock::instant_of(earliest)).is_err() {
            // A paused clock on a runtime without tokio's timers: nothing moves it on by itself.
            return signal.end_turn(earliest, WakesBy::Thread);
        }
        signal.end_turn(earliest, WakesBy::Itself)
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            this.hub.signal.begin_turn(cx.waker().clone());
            if !this.hub.fire_due(&mut this.batch, Allowance { wakes: WAKES, holds: HOLDS }) {
                this.hub.signal.interrupt_turn();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if this.sleep_until(this.hub.earliest()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.hub.close();
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("hub", &self.hub).finish_non_exhaustive()
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        self.0.fire_due(&mut Batch::default(), Allowance::UNBOUNDED);
        self.0.signal.wake_driver();
    }
}
