//! The task that turns a timer's wheels: fires what is due, then sleeps until the earliest of what is left.
//!
//! Invariants
//! 1. One poll wakes some 1024 tasks, and each of its [`LOOKS`] holds locks 256 times at most, before other tasks get
//!    their turn.
//! 2. When the driver is dropped its timer ends, and everything that waited is woken to see it.
//!
//! Must not know: futures that sleep.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::alarm::Alarm;
use crate::alarm::own::OwnAlarm;
use crate::clock;
use crate::hub::{Allowance, Fired, Held, HubLease};
use crate::instant;
use crate::shard::Batch;
use crate::signal::{CLOCK_MAY_PAUSE, WakesBy};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::tick::{Tick, Ticks};

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
    timer: HubLease,
    batch: Batch,
    /// What wakes it, where that is not the alarm thread.
    alarm: OwnAlarm,
    inline: Arc<FireInline>,
    /// Whether it lets timers gather where they are dense.
    gathers: bool,
}

/// Fires what is due from inside tokio's own drivers, then has the timer's driver set the next alarm. A worker that parks
/// there wakes another once for all that it fires, not once for each as a task would.
struct FireInline {
    held: Held,
    /// How many it has woken since the driver last asked.
    wakes: AtomicUsize,
}

impl Driver {
    pub(crate) fn new(timer: HubLease, alarm: Alarm, gathers: bool) -> Self {
        let inline = Arc::new(FireInline { held: timer.hub.hold(), wakes: AtomicUsize::new(0) });
        let alarm = OwnAlarm::new(alarm, Waker::from(inline.clone()));
        Driver { timer, batch: Batch::default(), alarm, inline, gathers }
    }

    /// Goes to sleep after a turn that did `fired`. `false` where something has come up meanwhile.
    fn sleep_after(&mut self, fired: &Fired) -> bool {
        let signal = self.timer.hub.signal;
        let earliest = self.timer.hub.earliest();
        let wakes = fired.wakes + self.inline.wakes.swap(0, Ordering::Relaxed);
        let pause = if self.gathers { pause_after(wakes) } else { Ticks(0) };
        if let Some(alarm) = self.alarm.to_set() {
            let (pause, by) = match alarm {
                // A clock that is paused has no time in which to gather.
                Alarm::Tokio => (Ticks(0), WakesBy::Itself),
                _ => (pause, WakesBy::Watched),
            };
            let Some(at) = signal.end_turn(fired.at, earliest, pause, by) else { return false };
            let at = (at < Tick::MAX).then(|| signal.instant_of(at));
            if self.alarm.set(alarm, at).is_ok() {
                return true;
            }
            self.alarm.give_up(alarm);
        }
        let Some(at) = signal.end_turn(fired.at, earliest, pause, WakesBy::Thread) else { return false };
        if CLOCK_MAY_PAUSE {
            self.alarm.watch_for_pause((at < Tick::MAX).then(|| signal.instant_of(at)));
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
        let hub = this.timer.hub;
        let mut left = Allowance::OF_A_TURN;
        for _ in 0..LOOKS {
            if this.timer.is_over() {
                return Poll::Ready(());
            }
            #[cfg(feature = "test-util")]
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                crate::paused::adopt(runtime.id(), this.timer);
            }
            #[cfg(feature = "test-util")]
            if hub.signal.wait_for_close(cx.waker()) {
                return Poll::Pending;
            }
            hub.signal.begin_turn(cx.waker().clone());
            if this.timer.is_over() {
                return Poll::Ready(());
            }
            let fired = hub.fire_due(&mut this.batch, left);
            left.wakes = left.wakes.saturating_sub(fired.wakes);
            if !fired.all {
                break;
            }
            if this.sleep_after(&fired) {
                return Poll::Pending;
            }
        }
        hub.signal.interrupt_turn();
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.timer.hub.close(self.timer.epoch);
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("shards", &self.timer.hub.shards().len())
            .field("is_shutdown", &self.timer.is_over())
            .finish_non_exhaustive()
    }
}

impl Wake for FireInline {
    fn wake(self: Arc<Self>) {
        let hub = self.held.hub();
        let (now, armed) = (clock::now(), hub.signal.armed());
        hub.signal.went_off(now);
        let (at, allowance) = if instant::clock_is_the_systems() {
            (now, Allowance::OF_A_TURN)
        } else {
            // What a paused clock has moved beyond the deadline by rounding, tasks see only after those of the deadline
            // ran; and no test is to see that some of what is due is left to the driver.
            (if now - armed <= TOKIO_ROUNDS { now.min(armed) } else { now }, Allowance::UNBOUNDED)
        };
        let fired = hub.fire_at(at, &mut Batch::default(), allowance);
        self.wakes.fetch_add(fired.wakes, Ordering::Relaxed);
        hub.signal.wake_driver();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_fired_little_is_hardly_followed_by_a_pause_and_none_by_a_long_one() {
        let pauses = [0, 1, 3, 20, 21, usize::MAX].map(|wakes| pause_after(wakes).0);
        assert_eq!(pauses, [0, 40_000, 120_000, 800_000, 800_000, 800_000]);
    }
}
