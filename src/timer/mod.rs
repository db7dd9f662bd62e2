//! [`Timer`]: a handle on a timer, with its settings, metrics and errors.
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

mod builder;
mod metrics;

#[cfg(feature = "metrics")]
pub use crate::integration::metrics::Reporter;
pub use builder::{BuildError, Builder};
pub use metrics::Metrics;

pub use crate::core::alarm::Alarm;
pub use crate::core::driver::Driver;
pub use crate::core::statistics::Lateness;

use std::sync::Arc;

use crate::clock::{self, Instant};
use crate::core::lease::{Owner, TimerLease};
use crate::core::registry;
use crate::util::error::Error;
use crate::wheel::Tick;

/// A handle on a timer, which you can keep and pass on. The free functions find their timer by themselves.
///
/// Each runtime has a default timer, which is made when it is first needed and ends with the runtime. The process has one
/// too, for everything that waits outside a runtime. You can make more with a [`Builder`]. Such a timer ends when it is
/// [shut down](Timer::shutdown), or once no handle is left and nothing waits on it. A sleep, a queue or any other future
/// that was made on it keeps it, so dropping a handle never ends what is under way. Cloning a handle is cheap.
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
    pub(crate) owner: Arc<Owner>,
}

impl Timer {
    /// The first handle on a timer that was built.
    fn built(timer: TimerLease) -> Timer {
        Timer::of(Owner::of(timer))
    }

    fn of(owner: Arc<Owner>) -> Timer {
        Timer { lease: owner.timer(), owner }
    }

    /// Returns a builder for a timer with settings of your own.
    ///
    /// ```
    /// let (timer, _driver) = hairspring::Timer::builder().shards(1).build_with_driver().unwrap();
    /// # let _ = timer;
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the timer that sleeps created here wait on: the timer of the current runtime. Outside a runtime, and on
    /// a runtime that has been shut down, it is the process's own timer, which never ends.
    ///
    /// # Panics
    /// If this makes the process's first timer and the system refuses to start a thread.
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
        Timer::try_current().unwrap_or_else(|_| Timer::of(registry::own().clone()))
    }

    /// Returns the timer of the current runtime.
    ///
    /// # Errors
    /// Outside a tokio runtime, and on a runtime that has been shut down.
    ///
    /// # Panics
    /// If this makes the process's first timer and the system refuses to start a thread.
    ///
    /// ```
    /// assert!(hairspring::Timer::try_current().is_err(), "there is no runtime here");
    /// ```
    pub fn try_current() -> Result<Timer, Error> {
        let timer = Timer::of(registry::owner().ok_or_else(Error::no_runtime)?);
        if timer.is_closed() { Err(Error::ended(timer.lease.name())) } else { Ok(timer) }
    }

    /// Returns the name that the timer was [given](Builder::name), if any.
    ///
    /// ```
    /// let (timer, _driver) = hairspring::Timer::builder().name("requests").build_with_driver().unwrap();
    /// assert_eq!(timer.name(), Some("requests"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.lease.name()
    }

    /// Returns the time on this timer's clock. Once the timer has ended, this may be the current runtime's time instead.
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

    /// [`now`](Timer::now), as a tick.
    pub(crate) fn now_tick(&self) -> Tick {
        self.lease.now()
    }

    /// Returns a snapshot of what this timer has done so far. Locks each shard for a moment.
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

    /// Ends a timer that you built: wakes the sleeps that wait on it, and accepts no more. Returns how many were waiting,
    /// or zero if the timer had already ended.
    ///
    /// A sleep that was made on this timer by its handle panics when it is polled before its deadline. A sleep that was
    /// on it because it was [installed](Builder::install) as the default of its runtime continues to wait, on the timer
    /// that the runtime makes next.
    ///
    /// A default timer that nobody built cannot be shut down: any dependency of the program can get a handle on it, so
    /// this does nothing and returns zero. The default timer of a runtime ends with the runtime. To end it earlier,
    /// install another in its place: it then ends once nothing waits on it. The process's own timer does not end.
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
        if self.owner.is_implicit() { 0 } else { self.lease.close().unwrap_or(0) }
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
        let mut shown = f.debug_struct("Timer");
        if let Some(name) = self.name() {
            shown.field("name", &name);
        }
        shown.field("shards", &self.lease.all().len()).field("is_shutdown", &self.is_closed()).finish_non_exhaustive()
    }
}
