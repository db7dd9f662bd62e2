//! [`set_wall`] and [`suspend`]: what a test does to the clocks that jump.
//
// Invariants
// 1. What a test does on one runtime moves no clock of another, nor outside all runtimes.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use crate::clock::jumping::{ClockTime, Jumping, nanos_in};
use crate::core::jumps;
use crate::test_util::idle::Watch;
use crate::test_util::lock;

/// How far the clocks are ahead for code outside all runtimes, in nanoseconds. The watch over a runtime has its own.
static OUTSIDE: RwLock<[i128; 2]> = RwLock::new([0; 2]);

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
/// alarm.await; // at once
/// # }
/// ```
pub fn set_wall(time: SystemTime) {
    let ahead = time.reading().0 - Jumping::Wall.now().0;
    shift(&[Jumping::Wall], ahead);
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
    shift(&[Jumping::Boot, Jumping::Wall], nanos_in(duration));
}

/// Moves clocks of the current runtime.
fn shift(clocks: &[Jumping], by: i128) {
    let move_all = |ahead: &mut [i128; 2]| {
        for &clock in clocks {
            ahead[clock as usize] = ahead[clock as usize].saturating_add(by);
        }
    };
    let runtime = Handle::try_current().ok();
    match &runtime {
        Some(runtime) => move_all(&mut lock(&Watch::of(runtime).ahead)),
        None => move_all(&mut OUTSIDE.write().unwrap_or_else(PoisonError::into_inner)),
    }
    let id = runtime.map(|runtime| runtime.id());
    jumps::wake(|runtime| runtime == id);
}

/// How far a test has put a clock ahead on the current runtime, in nanoseconds.
pub(crate) fn ahead(clock: Jumping) -> i128 {
    match jumps::here() {
        Some(runtime) => Watch::find(runtime).map_or(0, |watch| lock(&watch.ahead)[clock as usize]),
        None => OUTSIDE.read().unwrap_or_else(PoisonError::into_inner)[clock as usize],
    }
}
