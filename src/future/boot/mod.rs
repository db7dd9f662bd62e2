//! Timers on the clock that goes on while the machine sleeps.
//!
//! The rest of this crate, like `tokio::time`, is on the monotonic clock, which stands still while a laptop or a
//! virtual machine is suspended on Linux and macOS: a timeout of an hour then takes an hour of uptime. A timer of this
//! module counts the suspension. What fell due in it fires as soon as the machine wakes.
//!
//! ```
//! use hairspring::{Duration, boot};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let start = boot::Instant::now();
//! boot::sleep(Duration::from_millis(5)).await;
//! assert!(start.elapsed() >= Duration::from_millis(5));
//! # }
//! ```
//!
//! # What is exact
//!
//! | system | clock | after a suspension |
//! |---|---|---|
//! | Linux | `CLOCK_BOOTTIME` | fires at once: the kernel wakes a thread of this crate, which wakes the tasks |
//! | Android | `CLOCK_BOOTTIME` | fires within a second of the machine's uptime |
//! | macOS, iOS | the one that goes on, `CLOCK_MONOTONIC` there | the same |
//! | others | that of [`std::time::Instant`] | whatever that does: on Windows it goes on as well |
//!
//! If the system does not report a suspension, one thread looks at the clocks once a second while something waits on
//! them, and no task is woken unless a clock has jumped. If the host of a virtual machine stops it without telling it,
//! none of its clocks goes on.
//!
//! A timer here costs more than an ordinary one: it also keeps a place in one list of the process, behind a lock. It
//! needs nothing from the runtime. Without a suspension it is as precise as an ordinary timer.
//!
//! # In tests
//! On a paused clock, and on a `ManualClock`, these timers follow that clock. `test_util::suspend`
//! simulates a suspension.

mod interval;
mod sleep;
mod timeout;

pub use crate::clock::boot::Instant;
pub use interval::{Interval, interval};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
