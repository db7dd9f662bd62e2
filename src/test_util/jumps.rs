//! [`set_wall`] and [`suspend`]: how a test moves the clocks that jump.
//
// Invariants
// 1. A test on one runtime moves no clock of another runtime, nor of code outside runtimes.

use std::collections::HashMap;
use std::sync::{LazyLock, RwLock};
use std::time::{Duration, SystemTime};

use tokio::runtime::{self, Handle};

use crate::clock::Hooks;
use crate::clock::jumping::{ClockTime, JumpHooks, Jumping, nanos_in};
use crate::core::jumps;
use crate::test_util::held;
use crate::util::sync::unpoisoned;

/// How far tests have moved the clocks of a runtime ahead, in nanoseconds; of code outside all runtimes, for `None`.
static AHEAD: LazyLock<RwLock<HashMap<Option<runtime::Id>, [i128; 2]>>> = LazyLock::new(RwLock::default);

/// Sets the wall clock of the current runtime, forward or back. [`wall::now`](crate::wall::now) then continues from
/// `time` with the runtime's clock.
///
/// ```
/// use hairspring::{Duration, test_util, wall};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let now = wall::now();
/// let alarm = wall::sleep_until(now + Duration::from_secs(3_600));
/// test_util::set_wall(now + Duration::from_secs(7_200));
/// alarm.await; // returns immediately
/// # }
/// ```
///
/// This wakes all tasks that wait on the wall clock, so they check it again. Use it while the runtime's clock is
/// paused, or with timers on a [`ManualClock`](crate::test_util::ManualClock); on other runtimes the clock keeps
/// running. A timer on a `ManualClock` then counts from `time` plus the lead of that clock over the runtime's. Outside
/// a runtime it sets the clock of code outside all runtimes. It never affects the system's clock or another runtime.
#[doc(alias = "mock time")]
pub fn set_wall(time: SystemTime) {
    let ahead = time.reading().0 - Jumping::Wall.now().0;
    shift(&[Jumping::Wall], ahead);
}

/// Pretends that the machine is suspended for `duration`: [`boot`](crate::boot) and [`wall`](crate::wall) move on, and
/// the monotonic clock of all other timers stands still.
///
/// When this returns, all tasks that wait on these clocks have been woken to check them again.
/// Like [`set_wall`], it is meant for a paused clock, and affects the current runtime only.
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Instant, boot, test_util};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (start, uptime) = (boot::Instant::now(), Instant::now());
/// test_util::suspend(Duration::from_secs(3_600));
/// assert_eq!(start.elapsed(), Duration::from_secs(3_600));
/// assert_eq!(uptime.elapsed(), Duration::ZERO);
/// # }
/// ```
#[doc(alias = "hibernate")]
#[doc(alias = "standby")]
pub fn suspend(duration: Duration) {
    shift(&[Jumping::Boot, Jumping::Wall], nanos_in(duration));
}

fn shift(clocks: &[Jumping], by: i128) {
    let runtime = Handle::try_current().ok();
    let here = runtime.as_ref().map(Handle::id);
    let mut all = unpoisoned(AHEAD.write());
    let is_first = !all.contains_key(&here);
    let ahead = all.entry(here).or_default();
    for &clock in clocks {
        ahead[clock as usize] = ahead[clock as usize].saturating_add(by);
    }
    drop(all);
    if let Some(runtime) = runtime.filter(|_| is_first) {
        // Another runtime may get its id.
        held::when_it_ends(&runtime, move || _ = unpoisoned(AHEAD.write()).remove(&here));
    }
    jumps::wake(|runtime| runtime == here);
}

impl JumpHooks for Hooks {
    fn ahead(clock: Jumping) -> i128 {
        let all = unpoisoned(AHEAD.read());
        all.get(&jumps::here()).map_or(0, |ahead| ahead[clock as usize])
    }
}
