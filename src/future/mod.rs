//! The futures: [`Sleep`], [`Timeout`] and [`Interval`], those that return errors ([`TrySleep`], [`TryTimeout`],
//! [`TryInterval`]), and the functions that make them. Those on other clocks are in [`boot`] and [`wall`].

pub mod boot;
mod ext;
mod interval;
mod lazy_sleep;
mod on_timer;
mod sleep;
mod spans;
mod timeout;
mod try_interval;
mod try_sleep;
mod try_timeout;
mod until;
pub mod wall;

pub use ext::FutureExt;
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub(crate) use lazy_sleep::LazySleep;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{Timeout, timeout, timeout_at};
pub use try_interval::TryInterval;
pub use try_sleep::TrySleep;
pub use try_timeout::TryTimeout;
