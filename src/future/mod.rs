//! The futures: [`Sleep`], [`Timeout`] and [`Interval`], those that return errors ([`TrySleep`], [`TryTimeout`],
//! [`TryInterval`]), and the functions that make them. Those on other clocks are in [`boot`] and [`wall`].

pub mod boot;
mod delay;
mod interval;
mod lazy_sleep;
mod on_timer;
mod sleep;
mod spans;
mod timeout;
pub mod wall;

pub use delay::TrySleep;
pub use interval::{Interval, MissedTickBehavior, TryInterval, interval, interval_at};
pub(crate) use lazy_sleep::LazySleep;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{FutureExt, Timeout, TryTimeout, timeout, timeout_at};
