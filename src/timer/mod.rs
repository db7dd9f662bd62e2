//! [`Timer`], a handle to a timer; [`Builder`], which builds one with custom settings; [`Metrics`], its counts.
//!
//! # Examples
//!
//! ```
//! use hairspring::{Duration, Timer, timer::Alarm};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hairspring::error::BuildError> {
//! let timer = Timer::builder().alarm(Alarm::Thread).resolution(Duration::from_millis(1)).build()?;
//! timer.sleep(Duration::from_millis(2)).await;
//! let metrics = timer.metrics();
//! assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
//! # Ok(())
//! # }
//! ```

pub(crate) mod builder;
pub(crate) mod handle;

pub use builder::Builder;
pub use handle::Metrics;
// `Timer` is at the root only.
pub(crate) use handle::Timer;

pub use crate::core::alarm::Alarm;
pub use crate::core::statistics::Lateness;
#[cfg(feature = "metrics")]
pub use crate::integration::metrics::Reporter;
