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

use crate::alarm::Alarm;
use crate::alarm::own::{OwnAlarm, Serves};
use crate::clock;
use crate::hub::{Allowance, Fired, Hub};
use crate::shard::{Batch, Epoch};
use crate::signal::{CLOCK_MAY_PAUSE, WakesBy};
use crate::tick::{Tick, Ticks};

const WAKES: usize = 1024;
const HOLDS: usize = 256;
/// How far beyond a deadline tokio moves a paused clock: it rounds up to its ticks of a millisecond.
const TOKIO_ROUNDS: Ticks = Ticks(1_000_000);
/// How often one poll looks again, because something earlier was armed while it looked.
const LOOKS: usize = 8;

/// A turn costs tens of microseconds of two threads' time, however little it fires, so where timers are dense they are
/// let gather: 40 us for each that the last turn fired, up to 0.8 ms. Below 25,000 timers a second a turn
/// fires few and the pause is short; above, each pause gathers more than the last until it is at its longest.
const PAUSE_PER_WAKE: u64 = 40_000;
const LONGEST_PAUSE: u64 = 800_000;

/// Turns a timer's wheels: the future that has to be polled for its sleeps to end. Made by
/// [`Builder::build_with_driver`](crate::timer::Builder::build_with_driver).
///
/// It completes when the timer is shut down. Dropping it ends the timer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (timer, driver) = hairspring::Timer::builder().build_with_driver().unwrap();
/// let driver = tokio::spawn(driver);
/// timer.shutdown();
/// driver.await.unwrap();
/// # }
/// ```
#[must_use = "a timer fires only while its driver is polled"]
pub struct Driver {
    hub: &'static Hub,
    epoch: Epoch,
    batch: Batch,
    /// What wakes it, where that is not the alarm thread.
    alarm: OwnAlarm,
    /// Whether it lets timers gather where they are dense.
    gathers: bool,
    /// Whether the hub is its to give back. A manual clock gives its hubs back itself.
    recycles: bool,
}

/// Fires what is due from inside tokio's own firing, then has the driver set the next alarm.
struct FireInline(&'static Hub);

impl Driver {
    pub(crate) fn new(hub: &'static Hub, epoch: Epoch, alarm: Alarm, gathers: bool) -> Self {
        let alarm = OwnAlarm::new(alarm, Waker::from(Arc::new(FireInline(hub))));
        Driver { hub, epoch, batch: Batch::default(), alarm, gathers, recycles: true }
    }

    /// The driver of a timer on a manual clock: it has only to wait for the timer's end.
    #[cfg(feature = "test-util")]
    pub(crate) fn by_hand(hub: &'static Hub, epoch: Epoch) -> Self {
        let mut driver = Driver::new(hub, epoch, Alarm::Thread, false);
        driver.recycles = false;
        driver
    }

    /// Goes to sleep after a turn that did `fired`. `false` where something has come up meanwhile.
    fn sleep_after(&mut self, fired: &Fired, cx: &mut Context<'_>) -> bool {
        let signal = self.hub.signal;
        let earliest = self.hub.earliest();
        let pause = if self.gathers { pause_after(fired.wakes) } else { Ticks(0) };
        if let Serves::Own(alarm) = self.alarm.serves() {
            let (pause, by) = match alarm {
                // A clock that is paused has no time in which to gather.
                Alarm::Tokio => (Ticks(0), WakesBy::Itself),
                _ => (pause, WakesBy::Watched),
            };
            let Some(at) = signal.end_turn(fired.at, earliest, pause, by) else { return false };
            let at = (at < Tick::MAX).then(|| clock::instant_of(at));
            if self.alarm.set(alarm, at, cx).is_ok() {
                return true;
            }
            self.alarm.give_up(alarm);
        }
        let Some(at) = signal.end_turn(fired.at, earliest, pause, WakesBy::Thread) else { return false };
        if CLOCK_MAY_PAUSE {
            self.alarm.watch_for_pause((at < Tick::MAX).then(|| clock::instant_of(at)), cx);
        }
        true
    }
}

/// How long the driver lets timers gather after a turn that fired `wakes`.
fn pause_after(wakes: usize) -> Ticks {
    Ticks(PAUSE_PER_WAKE.saturating_mul(wakes as u64).min(LONGEST_PAUSE))
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..LOOKS {
            if !this.hub.serves(this.epoch) {
                return Poll::Ready(());
            }
            #[cfg(feature = "test-util")]
            if this.hub.signal.only_waits_for_close(cx.waker()) {
                return Poll::Pending;
            }
            this.hub.signal.begin_turn(cx.waker().clone());
            let fired = this.hub.fire_due(&mut this.batch, Allowance { wakes: WAKES, holds: HOLDS });
            if !fired.all {
                break;
            }
            if this.sleep_after(&fired, cx) {
                return Poll::Pending;
            }
        }
        this.hub.signal.interrupt_turn();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.hub.close(self.epoch);
        if self.recycles {
            self.hub.recycle();
        }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("hub", &self.hub).finish_non_exhaustive()
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        let (now, armed) = (clock::now(), self.0.signal.armed());
        // What tokio's clock has moved beyond the deadline by rounding, tasks see only after those of the deadline ran.
        let at = if now - armed <= TOKIO_ROUNDS { now.min(armed) } else { now };
        self.0.fire_at(at, &mut Batch::default(), Allowance::UNBOUNDED);
        self.0.signal.wake_driver();
    }
}
