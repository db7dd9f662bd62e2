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
use crate::hub::{Allowance, Fired, Hub};
use crate::instant;
use crate::shard::{Batch, Epoch};
use crate::signal::WakesBy;
use crate::tick::{Tick, Ticks};

const WAKES: usize = 1024;
const HOLDS: usize = 256;
/// How often one poll looks again, because something earlier was armed while it looked.
const LOOKS: usize = 8;

/// A turn costs tens of microseconds of two threads' time, however little it fires, so where timers are dense they are
/// let gather: 20 us for each that the last turn fired, up to half a millisecond. Below 50,000 timers a second a turn
/// fires few and the pause is short; above, each pause gathers more than the last until it is at its longest.
const PAUSE_PER_WAKE: u64 = 20_000;
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
    /// For a clock that the alarm thread knows nothing of.
    tokio_alarm: TokioAlarm,
}

/// Fires what is due from inside tokio's own firing, then has the driver set the next alarm.
struct FireInline(&'static Hub);

impl Driver {
    pub(crate) fn new(hub: &'static Hub, epoch: Epoch) -> Self {
        let tokio_alarm = TokioAlarm::new(Waker::from(Arc::new(FireInline(hub))));
        Driver { hub, epoch, batch: Batch::default(), tokio_alarm }
    }

    /// Goes to sleep after a turn that did `fired`. `false` where something has come up meanwhile.
    fn sleep_after(&mut self, fired: &Fired) -> bool {
        let signal = self.hub.signal;
        let (now, earliest, pause) = (fired.at, self.hub.earliest(), pause_after(fired.wakes));
        if instant::clock_is_the_systems() {
            self.tokio_alarm.cancel();
            return signal.end_turn(now, earliest, pause, WakesBy::Thread);
        }
        if earliest == Tick::MAX {
            self.tokio_alarm.cancel();
        } else if self.tokio_alarm.set(clock::instant_of(earliest)).is_err() {
            // A paused clock on a runtime without tokio's timers: nothing moves it on by itself.
            return signal.end_turn(now, earliest, pause, WakesBy::Thread);
        }
        signal.end_turn(now, earliest, Ticks(0), WakesBy::Itself)
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
            this.hub.signal.begin_turn(cx.waker().clone());
            let fired = this.hub.fire_due(&mut this.batch, Allowance { wakes: WAKES, holds: HOLDS });
            if !fired.all {
                break;
            }
            if this.sleep_after(&fired) {
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
        self.hub.recycle();
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
