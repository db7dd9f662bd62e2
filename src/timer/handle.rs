//! [`Timer`], the handle to a timer, and [`Metrics`], its counts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::clock::{self, Instant};
use crate::core::memory::{Owner, TimerLease};
use crate::core::registry;
use crate::core::statistics::Snapshot;
use crate::util::error::Error;
use crate::wheel::Tick;

use super::{Builder, Lateness};

/// A handle to a timer. Functions such as [`sleep`](crate::sleep()) need none: they find their timer themselves.
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
///
/// Each runtime has a default timer, which is created when it is first needed and ends with the runtime. The process
/// has one for use outside runtimes. [`Timer::builder`] builds more. Those end when they are [shut
/// down](Timer::shutdown), or when no handle is left and nothing waits on them: a sleep, a queue or any other future
/// keeps its timer alive. Cloning a handle is cheap. Two handles are equal if they lead to the same timer.
#[derive(Clone)]
pub struct Timer {
    pub(crate) lease: TimerLease,
    pub(crate) owner: Arc<Owner>,
}

impl Timer {
    /// The first handle to a timer that was built.
    pub(crate) fn built(timer: TimerLease) -> Timer {
        Timer::of(Owner::new(timer, false))
    }

    fn of(owner: Arc<Owner>) -> Timer {
        Timer { lease: owner.timer(), owner }
    }

    /// Returns a builder for a timer with custom settings.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::builder().shards(1).build().unwrap();
    /// # let _ = timer;
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the timer that sleeps use here: the current runtime's, or outside a runtime the process's own. So there
    /// always is one; [`try_current`](Timer::try_current) returns only a runtime's. On a runtime that has been shut
    /// down, where sleeps panic, this also returns the process's own.
    ///
    /// # Panics
    ///
    /// Panics if this creates the process's first timer and no thread can be started.
    ///
    /// # Examples
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
        Timer::try_current().unwrap_or_else(|_| Timer::of(registry::global().clone()))
    }

    /// Returns the timer of the current runtime, and never the process's own, which [`current`](Timer::current) falls
    /// back on. A runtime that has no timer yet gets one.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no current tokio runtime, or if it has been shut down.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::Timer;
    ///
    /// assert!(Timer::try_current().is_err(), "there is no runtime here");
    /// let outside = Timer::current(); // the process's own
    /// tokio::runtime::Runtime::new().unwrap().block_on(async {
    ///     let timer = Timer::try_current().unwrap();
    ///     assert!(timer == Timer::current() && timer != outside);
    /// });
    /// ```
    pub fn try_current() -> Result<Timer, Error> {
        registry::owner().map(Timer::of)
    }

    /// Returns the time on this timer's clock. After the timer has ended, this may be the current runtime's time.
    ///
    /// # Examples
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

    pub(crate) fn now_tick(&self) -> Tick {
        self.lease.now()
    }

    /// Returns a snapshot of this timer's counts. Briefly locks each shard.
    ///
    /// # Examples
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

    /// Shuts down a timer that you built: wakes the sleeps that wait on it and refuses new ones. Returns how many were
    /// waiting, or zero if the timer had already ended.
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
    ///
    /// After that, a sleep created from a handle to this timer panics if it is polled, unless it had fired before, and a
    /// [`TrySleep`](crate::TrySleep) returns an error. A sleep that used the timer because it was
    /// [installed](Builder::install) continues on the runtime's next timer.
    ///
    /// On a default timer that was not built, this does nothing and returns zero, because any dependency of a program
    /// can get a handle to it. To end such a timer before its runtime ends, [install](Builder::install) another: the
    /// old one then ends once nothing waits on it.
    #[allow(clippy::must_use_candidate)] // The count is optional information.
    #[doc(alias = "close")]
    pub fn shutdown(&self) -> usize {
        if self.owner.is_implicit { 0 } else { self.lease.close().unwrap_or(0) }
    }

    /// Returns whether this timer has ended: by [`shutdown`](Timer::shutdown), or with its runtime. Nothing can wait on
    /// it any more. A timer that has ended never serves again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::builder().build().unwrap();
    /// assert!(!timer.is_shutdown());
    /// timer.shutdown();
    /// assert!(timer.is_shutdown());
    /// # }
    /// ```
    #[must_use]
    #[doc(alias = "is_closed")]
    pub fn is_shutdown(&self) -> bool {
        !self.lease.is_open()
    }

    /// This timer, for an item that cannot return an error while the timer is full.
    /// Panics if the timer has `max_pending`.
    #[track_caller]
    pub(crate) fn unlimited(&self, item: &str) -> &Timer {
        if let Some(most) = self.lease.capacity() {
            panic!("`{item}` does not accept a timer with `max_pending` (here {most}): build one without it");
        }
        self
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        Arc::ptr_eq(&self.owner, &other.owner)
    }
}

impl Eq for Timer {}

impl Hash for Timer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.owner).hash(state);
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Timer");
        if let Some(name) = self.lease.name() {
            shown.field("name", &name);
        }
        shown.field("shards", &self.lease.all().len()).field("is_shutdown", &self.is_shutdown()).finish_non_exhaustive()
    }
}

/// A snapshot of a timer's counts, returned by [`Timer::metrics`](Timer::metrics).
///
/// ```
/// use hairspring::{Duration, Timer, sleep};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// sleep(Duration::from_millis(1)).await;
/// let metrics = Timer::current().metrics();
/// assert_eq!(metrics.pending(), 0);
/// assert_eq!(metrics.registered(), metrics.fired() + metrics.cancelled());
/// # }
/// ```
///
/// In every snapshot `registered() == fired() + cancelled() + pending()`. Timers that a shutdown ended count as
/// cancelled. A sleep that is ready at its first poll is never registered.
///
/// Shards are read one after the other. While other threads use the timer, a sum may therefore describe a state that
/// never existed, such as more pending sleeps than the maximum.
///
/// The metrics stay readable as long as you have a handle to the timer, also after it has ended. Two snapshots are
/// equal if all of their counts and the lateness are. The default is the snapshot of an unused timer.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metrics(Box<Snapshot>);

impl Metrics {
    pub(crate) fn of(timer: TimerLease) -> Self {
        Metrics(Box::new(timer.snapshot()))
    }

    /// Returns how many sleeps are waiting. Timeouts and ticks of intervals count, and so does a queue or a map that
    /// waits for its first entry. If this only grows, something creates sleeps and forgets them.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = hairspring::sleep(Duration::from_secs(60));
    /// assert_eq!(Timer::current().metrics().pending(), 0, "the first poll registers it");
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// assert_eq!(Timer::current().metrics().pending(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.0.pending
    }

    /// Returns how many sleeps were registered. An interval counts once for each tick that has to wait. Resetting a
    /// waiting sleep does not count.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Instant, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = hairspring::sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// sleep.reset_at(Instant::now() + Duration::from_secs(90));
    /// assert_eq!(Timer::current().metrics().registered(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn registered(&self) -> u64 {
        self.0.registered
    }

    /// Returns how many sleeps have fired.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, sleep};
    /// sleep(Duration::from_secs(60)).await; // the clock is paused
    /// assert_eq!(Timer::current().metrics().fired(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.lateness().count()
    }

    /// Returns how many sleeps ended without firing: dropped, reset to a time that has passed, or shut down. A program
    /// that mostly uses timeouts cancels nearly all of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut sleep = hairspring::sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// drop(sleep);
    /// assert_eq!(Timer::current().metrics().cancelled(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.registered() - self.fired() - self.pending()
    }

    /// Returns how often a registration was refused because the timer was [full](Builder::max_pending). A refused
    /// sleep is counted nowhere else, and counts again if it is polled again.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().max_pending(1).build().unwrap();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// assert!(timer.try_sleep(Duration::from_secs(60)).await.is_err());
    /// assert_eq!((timer.metrics().registered(), timer.metrics().refused()), (1, 1));
    /// # }
    /// ```
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused
    }

    /// Returns how many sleeps may wait at a time, or `None` if there is [no limit](Builder::max_pending).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::builder().max_pending(1_000).build().unwrap();
    /// assert_eq!(timer.metrics().max_pending(), Some(1_000));
    /// # }
    /// ```
    #[must_use]
    pub fn max_pending(&self) -> Option<usize> {
        self.0.capacity
    }

    /// Returns the number of turns. A turn fires what is due, which may be nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, sleep};
    /// sleep(Duration::from_secs(60)).await;
    /// assert!(Timer::current().metrics().turns() > 0);
    /// # }
    /// ```
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.0.turns
    }

    /// Returns how often waiting sleeps were moved within the wheels, in addition to firing. Those that are registered
    /// in deadline order, such as sleeps of one length, rarely move.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, sleep};
    /// tokio::join!(sleep(Duration::from_secs(60)), sleep(Duration::from_secs(60)));
    /// assert_eq!(Timer::current().metrics().cascaded(), 0);
    /// # }
    /// ```
    #[must_use]
    pub fn cascaded(&self) -> u64 {
        self.0.cascaded
    }

    /// Returns how late sleeps fired. If the 99th percentile is several milliseconds, threads are waiting for a CPU, or
    /// very many sleeps fire together.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// hairspring::sleep(hairspring::Duration::from_millis(1)).await;
    /// let metrics = hairspring::Timer::current().metrics();
    /// println!("99 in 100 fired within {:?}", metrics.lateness().quantile(0.99));
    /// # }
    /// ```
    #[must_use]
    #[doc(alias = "latency")]
    pub fn lateness(&self) -> &Lateness {
        &self.0.lateness
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("pending", &self.pending())
            .field("registered", &self.registered())
            .field("fired", &self.fired())
            .field("cancelled", &self.cancelled())
            .field("refused", &self.refused())
            .field("max_pending", &self.max_pending())
            .field("turns", &self.turns())
            .field("cascaded", &self.cascaded())
            .field("lateness", self.lateness())
            .finish_non_exhaustive()
    }
}
