//! [`Timer`]: the handle on shards and the driver that turns them.
//!
//! ```
//! use hairspring::{Duration, Timer, timer::Alarm};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), hairspring::timer::BuildError> {
//! let timer = Timer::builder().alarm(Alarm::Thread).resolution(Duration::from_millis(1)).build()?;
//! timer.sleep(Duration::from_millis(2)).await;
//! let metrics = timer.metrics();
//! assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
//! # Ok(())
//! # }
//! ```
//!
//! Must not know: the inside of the futures.

mod builder;
mod metrics;

#[cfg(feature = "metrics")]
pub use crate::integration::metrics::Reporter;
pub use builder::{BuildError, Builder};
pub use metrics::Metrics;

pub use crate::core::alarm::Alarm;
pub use crate::core::driver::Driver;
pub use crate::core::lateness::Lateness;

use std::sync::Arc;

use crate::clock;
use crate::clock::Instant;
use crate::core::registry;
use crate::core::shards::{TimerHold, TimerLease};
use crate::util::error::Error;
use crate::wheel::Tick;

/// A handle on a timer: what the free functions find by themselves, to be held and passed on.
///
/// Each runtime has a timer of its own, made when it is first needed and gone with the runtime. So has the process, for
/// what waits outside of any runtime. Those of a [`Builder`] come on top, and end with their last handle. Cloning is cheap.
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let timer = Timer::current();
/// timer.sleep(Duration::from_millis(2)).await;
/// assert!(timer.timeout(Duration::from_millis(2), std::future::pending::<()>()).await.is_err());
/// # }
/// ```
#[derive(Clone)]
pub struct Timer {
    pub(crate) lease: TimerLease,
    /// Of a timer that is gone when its last handle is.
    _owned: Option<Arc<Owned>>,
}

/// Ends a timer when it is dropped. Until then its counts can be read, though it was shut down.
struct Owned(TimerHold);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.lease().close();
    }
}

impl Timer {
    /// A handle on a timer that lives as long as its runtime, or as the process.
    fn of_runtime(lease: TimerLease) -> Timer {
        Timer { lease, _owned: None }
    }

    /// The first handle on a timer that ends with its last. For a timer that is certainly there.
    fn owning(lease: TimerLease) -> Timer {
        Timer { lease, _owned: Some(Arc::new(Owned(lease.hold()))) }
    }

    /// Makes a timer with settings of its own.
    ///
    /// ```
    /// let (timer, _driver) = hairspring::Timer::builder().shards(1).build_with_driver().unwrap();
    /// # let _ = timer;
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The timer that sleeps made here wait on: that of the current runtime. Outside of any runtime, and on one that has
    /// been shut down, it is the process's own, which never ends.
    ///
    /// # Panics
    /// If it makes the process's first timer and the system refuses to start a thread.
    ///
    /// ```
    /// use hairspring::Timer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::current();
    /// assert_eq!(timer, Timer::current(), "a runtime has one");
    /// let outside = std::thread::spawn(Timer::current).join().unwrap();
    /// assert_ne!(timer, outside);
    /// # }
    /// ```
    #[must_use]
    pub fn current() -> Timer {
        Timer::try_current().unwrap_or_else(|_| Timer::of_runtime(registry::own()))
    }

    /// The timer of the current runtime, and no other.
    ///
    /// # Errors
    /// Outside a tokio runtime, and on one that has been shut down.
    ///
    /// # Panics
    /// If it makes the process's first timer and the system refuses to start a thread.
    ///
    /// ```
    /// assert!(hairspring::Timer::try_current().is_err(), "there is no runtime here");
    /// ```
    pub fn try_current() -> Result<Timer, Error> {
        let timer = Timer::of_runtime(registry::timer().ok_or_else(Error::no_runtime)?);
        if timer.is_closed() { Err(Error::shutdown()) } else { Ok(timer) }
    }

    /// The time on this timer's clock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::current();
    /// assert!(timer.now() <= timer.now());
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        clock::instant_of(self.now_tick())
    }

    /// The time on this timer's clock.
    pub(crate) fn now_tick(&self) -> Tick {
        self.lease.parking.clock.now()
    }

    /// What this timer has done so far. Locks each shard for a moment.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert_eq!(hairspring::Timer::current().metrics().pending(), 0);
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::of(self.lease)
    }

    /// Ends the timer: its sleeps that wait are woken, and it takes no more. Returns how many there were; zero where it
    /// has ended before.
    ///
    /// A sleep that named this timer panics when it is polled before its deadline. One that was on it as its runtime's
    /// default waits on with the timer that its runtime makes next. The process's own timer, which [`current`](Timer::current)
    /// gives outside of any runtime, serves everybody and does not end: for it this is zero.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().build().unwrap();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// assert_eq!(timer.shutdown(), 1);
    /// assert!(sleep.await.unwrap_err().is_shutdown());
    /// # }
    /// ```
    #[allow(clippy::must_use_candidate)] // Shutting down is what is asked for; the count is news.
    pub fn shutdown(&self) -> usize {
        if self.lease.parking.is_driverless() {
            return 0;
        }
        self.lease.close().unwrap_or(0)
    }

    fn is_closed(&self) -> bool {
        !self.lease.serves()
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.lease == other.lease
    }
}

impl Eq for Timer {}

impl std::fmt::Debug for Timer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timer")
            .field("shards", &self.lease.all().len())
            .field("is_shutdown", &self.is_closed())
            .finish_non_exhaustive()
    }
}
