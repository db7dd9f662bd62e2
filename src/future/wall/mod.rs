//! Timers on the wall clock, which may be set.
//!
//! Use them for times of day: "at 03:00", "each full minute". For how long something may take, use the timers of the
//! crate's root or of [`boot`](crate::boot): nobody can set their clocks.
//!
//! ```
//! use hairspring::{Duration, wall};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let deadline = wall::now() + Duration::from_millis(5);
//! wall::sleep_until(deadline).await;
//! assert!(wall::now() >= deadline);
//! # }
//! ```
//!
//! # When the clock is set
//!
//! Every waiting timer checks the clock again. It is ready if the new time is at or after its deadline, and otherwise
//! goes on waiting. The same happens after a suspension.
//!
//! | system | a clock that was set, or a suspension |
//! |---|---|
//! | Linux | is noticed at once: the kernel wakes a thread of this crate (`TFD_TIMER_CANCEL_ON_SET`), which wakes the tasks |
//! | others | is noticed within a second of the machine's uptime: as long as something waits, one thread looks once a second, and no task is woken unless a clock has jumped |
//!
//! If NTP makes the clock run slightly faster or slower, these timers follow it. On Linux that
//! moves the monotonic clock too, so they stay exact; elsewhere they look again when they are a millisecond off.
//!
//! Leap seconds and time zones are the system's and yours: these are UTC times as [`SystemTime`](std::time::SystemTime)
//! counts them. The guide has a daily job in a time zone.
//!
//! # In tests
//! On a paused clock, and on a `ManualClock`, these timers follow that clock. `test_util::set_wall` sets the wall
//! clock.

mod interval;
mod sleep;

use std::time::SystemTime;

use crate::clock::jumping::Jumping;
pub use interval::{Interval, interval_aligned};
pub use sleep::{Sleep, sleep_until};

/// Returns the time of day: [`SystemTime::now`], unless a test has changed it.
///
/// If a test has paused the clock of the current runtime, or its timer is on a `ManualClock`, the wall clock shows the
/// true time at first and then moves only with that clock. `test_util::set_wall` and `suspend` shift it on any runtime.
///
/// ```
/// let before = std::time::SystemTime::now();
/// assert!(hairspring::wall::now() >= before);
/// ```
#[must_use]
pub fn now() -> SystemTime {
    Jumping::Wall.now().time()
}
