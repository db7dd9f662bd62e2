//! The futures: [`Sleep`], [`TrySleep`], [`Timeout`] and [`Interval`], and the functions that make them.

mod ext;
mod interval;
mod on_timer;
mod sleep;
mod spans;
mod timeout;
mod try_sleep;

pub use ext::FutureExt;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
pub use try_sleep::TrySleep;
