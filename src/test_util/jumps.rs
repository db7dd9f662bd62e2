//! [`set_wall`] and [`suspend`]: what a test does to the clocks that jump.
//
// Invariants
// 1. What a test does on one runtime moves no clock of another, nor outside all runtimes.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::runtime::{self, Handle};

use crate::clock::jumping::{ClockTime, Jumping, nanos_in};
use crate::core::jumps;
use crate::test_util::held::at_end_of;

/// How far the clocks of a runtime are ahead, in nanoseconds. That without a runtime is for code outside all runtimes.
struct Shifted {
    runtime: Option<runtime::Id>,
    boot: i128,
    wall: i128,
}

static SHIFTED: RwLock<Vec<Shifted>> = RwLock::new(Vec::new());

/// Sets the wall clock of the current runtime, forward or back. [`wall::now`](crate::wall::now) shows `time`, and goes
/// on from there with the runtime's clock.
///
/// Everything that waits on the wall clock looks at it again: its tasks are woken. This is for a runtime whose clock is
/// paused, or whose timers are on a [`ManualClock`](crate::test_util::ManualClock). On any other it works as well, but
/// the clock does not stand still. Outside a runtime it sets the clock for code outside all runtimes. Neither the
/// system's clock nor any other runtime's is touched.
///
/// ```
/// use hairspring::{Duration, test_util, wall};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let now = wall::now();
/// let alarm = wall::sleep_until(now + Duration::from_secs(3_600));
/// test_util::set_wall(now + Duration::from_secs(7_200));
/// assert!(alarm.is_elapsed());
/// # }
/// ```
pub fn set_wall(time: SystemTime) {
    let ahead = time.reading().0 - Jumping::Wall.now().0;
    shift(|shifted| shifted.wall = shifted.wall.saturating_add(ahead));
}

/// Suspends the machine for `duration`, as the current runtime sees it: [`boot`](crate::boot) and
/// [`wall`](crate::wall) go on, and the monotonic clock of all other timers stands still.
///
/// When this returns the machine has woken up: what fell due on these clocks is ready, and all tasks that wait on them
/// have been woken to look. Like [`set_wall`], it is for a paused clock, and concerns the current runtime only.
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
pub fn suspend(duration: Duration) {
    let ahead = nanos_in(duration);
    shift(|shifted| {
        shifted.boot = shifted.boot.saturating_add(ahead);
        shifted.wall = shifted.wall.saturating_add(ahead);
    });
}

/// Changes the clocks of the current runtime.
fn shift(change: impl FnOnce(&mut Shifted)) {
    let runtime = Handle::try_current().ok();
    let id = runtime.as_ref().map(Handle::id);
    let mut all = SHIFTED.write().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().position(|shifted| shifted.runtime == id);
    let at = known.unwrap_or_else(|| {
        all.push(Shifted { runtime: id, boot: 0, wall: 0 });
        all.len() - 1
    });
    change(&mut all[at]);
    drop(all);
    if let (None, Some(runtime)) = (known, runtime) {
        at_end_of(&runtime, move || forget(id));
    }
    jumps::wake(|runtime| runtime == id);
}

/// How far a test has put a clock ahead on the current runtime, in nanoseconds.
pub(crate) fn ahead(clock: Jumping) -> i128 {
    let id = jumps::here();
    let all = SHIFTED.read().unwrap_or_else(PoisonError::into_inner);
    all.iter().find(|shifted| shifted.runtime == id).map_or(0, |shifted| match clock {
        Jumping::Boot => shifted.boot,
        Jumping::Wall => shifted.wall,
    })
}

/// A runtime has ended, and another may get its number.
fn forget(id: Option<runtime::Id>) {
    SHIFTED.write().unwrap_or_else(PoisonError::into_inner).retain(|shifted| shifted.runtime != id);
}
