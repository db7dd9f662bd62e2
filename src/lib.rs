#![doc = include_str!("../README.md")]

mod alarm;
mod clock;
mod contain;
pub mod deadline_map;
pub mod delay_queue;
mod driver;
pub mod error;
mod future_ext;
mod hub;
#[cfg(feature = "hyper")]
pub mod hyper;
mod instant;
mod interval;
mod lateness;
mod limit;
#[cfg(feature = "test-util")]
mod manual;
#[cfg(test)]
mod models;
#[cfg(feature = "test-util")]
mod mover;
#[cfg(feature = "test-util")]
mod paused;
#[cfg(feature = "test-util")]
mod quiet;
mod shard;
mod signal;
mod sleep;
mod sync;
#[cfg(feature = "test-util")]
pub mod test_util;
mod tick;
mod timeout;
pub mod timer;
#[cfg(feature = "tower")]
pub mod tower;
mod trace;
mod try_sleep;
pub mod wheel;

pub use std::time::Duration;

pub use crate::deadline_map::{DeadlineMap, Expirations};
pub use crate::delay_queue::DelayQueue;
pub use crate::future_ext::FutureExt;
pub use crate::instant::Instant;
pub use crate::interval::{Interval, MissedTickBehavior, interval, interval_at};
pub use crate::sleep::{Sleep, sleep, sleep_until};
#[cfg(feature = "test-util")]
pub use crate::test_util::{advance, pause, resume};
pub use crate::timeout::{Timeout, timeout, timeout_at};
pub use crate::timer::Timer;
pub use crate::try_sleep::TrySleep;
