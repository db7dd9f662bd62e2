//! The paused clock of a current-thread runtime, which is tokio's: how a test moves it.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::clock::source::LAST;
use crate::clock::{self, Hooks, Instant, duration_of, instant_of};
use crate::core::driver::DriverHooks;
use crate::core::memory::TimerGuard;
use crate::test_util::held;
use crate::test_util::keeper::Keeper;
use crate::wheel::{Tick, Ticks};

impl DriverHooks for Hooks {
    /// While a test settles, the clock is held, and tokio parks in real time until its next timer. A test that waits for
    /// an idle runtime must not find it woken by our alarm.
    fn may_set_alarm() -> bool {
        !Keeper::here().is_some_and(|keeper| keeper.is_tokios() && keeper.settles())
    }
}

/// Advances the clock as tokio does, but saturates.
pub(super) async fn advance(duration: Duration) {
    move_to(clock::after(duration).min(LAST)).await;
}

/// Moves the clock to the next deadline of this crate's timers up to `target`, and fires the timers due there. Returns
/// `false` if there is none.
pub(super) fn move_to_next(target: Tick) -> bool {
    let timers = timers();
    loop {
        let next = timers.iter().map(|held| held.lease().earliest()).min().filter(|next| *next <= target);
        let Some(next) = next else { return false };
        move_by(next - clock::now());
        let mut has_fired = false;
        for timer in timers.iter().map(TimerGuard::lease) {
            if timer.earliest() <= next && timer.fire_at(next) > 0 {
                timer.engine().wake_driver();
                has_fired = true;
            }
        }
        if has_fired {
            return true;
        }
    }
}

/// Moves the clock, and lets other tasks run.
pub(super) async fn move_to(target: Tick) {
    read_clock();
    tokio::time::advance(instant_of(target) - Instant::now()).await;
}

/// Moves the clock, and nothing else.
fn move_by(by: Ticks) {
    // The first poll moves the clock. Later polls would let other tasks run.
    let _ = pin!(tokio::time::advance(duration_of(by))).poll(&mut Context::from_waker(Waker::noop()));
}

/// Wakes the drivers to read their clock.
fn read_clock() {
    for held in timers() {
        held.lease().engine().wake_driver();
    }
}

/// The timers of the current runtime that follow tokio's clock.
fn timers() -> Vec<TimerGuard> {
    Handle::try_current().map_or(Vec::new(), |runtime| held::timers_on(&runtime))
}
