//! The paused clock of a current-thread runtime, which is tokio's.

use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::source::LAST;
use crate::clock::{self, Instant};
use crate::core::lease::TimerLease;
use crate::test_util::{approach, held};
use crate::wheel::Tick;

/// What the clock shows when `duration` has passed. A clock goes no further than `LAST`.
pub(super) fn after(duration: Duration) -> Tick {
    clock::after(duration).min(LAST)
}

/// Moves the clock to the next deadline of this crate's timers that is no later than `target`, and fires what is due
/// there. Returns `false` if there is none.
///
/// # Panics
/// If the clock is not paused.
pub(super) fn move_to_next(target: Tick) -> bool {
    let Some(timer) = timer() else { return false };
    loop {
        let next = timer.earliest();
        if next > target {
            return false;
        }
        approach::move_by(next - clock::now());
        if timer.fire_all(next) > 0 {
            timer.schedule.wake_driver();
            return true;
        }
    }
}

/// Moves the clock, and lets other tasks run.
///
/// # Panics
/// If the clock is not paused.
pub(super) async fn move_to(target: Tick) {
    look_at_the_clock();
    tokio::time::advance(until(target)).await;
}

/// Wakes the driver, because its clock is paused, resumed or moved by hand.
pub(super) fn look_at_the_clock() {
    if let Some(timer) = timer() {
        timer.schedule.wake_driver();
    }
}

fn until(target: Tick) -> Duration {
    clock::instant_of(target) - Instant::now()
}

/// The timer of the current runtime, if it has one that goes by tokio's clock.
fn timer() -> Option<TimerLease> {
    let runtime = Handle::try_current().ok()?;
    held::existing(runtime.id()).filter(|timer| !timer.schedule.clock.is_shown())
}
