//! [`Timer`]: a handle on a timer. [`Metrics`]: what a timer has done so far. [`Builder`]: makes one with settings.
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

#[cfg(feature = "metrics")]
pub use crate::integration::metrics::Reporter;
pub use builder::{BuildError, Builder};

pub use crate::core::alarm::Alarm;
pub use crate::core::driver::Driver;
pub use crate::core::statistics::Lateness;

use std::fmt;
use std::sync::Arc;

use crate::clock::{self, Instant};
use crate::core::lease::{Owner, TimerLease};
use crate::core::registry;
use crate::core::statistics::Snapshot;
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

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Timer");
        if let Some(name) = self.name() {
            shown.field("name", &name);
        }
        shown.field("shards", &self.lease.all().len()).field("is_shutdown", &self.is_closed()).finish_non_exhaustive()
    }
}

/// A snapshot of what a timer has done, returned by [`Timer::metrics`](Timer::metrics).
///
/// Each registered timer is either fired or cancelled in the end: `registered() == fired() + cancelled() + pending()`
/// holds in every snapshot. Timers that a shutdown ended count as cancelled. A sleep that was ready at its first poll
/// was never registered.
///
/// The shards are read one after the other. While threads use the timer, the sums may therefore be ones that never
/// existed, for example with more pending timers than the capacity.
///
/// You can read the metrics of a timer that you built as long as you have a handle on it, even after a shutdown. The
/// metrics of a runtime's own timer are all zero once the runtime has ended and another timer has reused its memory.
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
#[derive(Clone)]
pub struct Metrics {
    snapshot: Box<Snapshot>,
    turns: u64,
    next: Tick,
    elapsed: Tick,
}

impl Metrics {
    pub(crate) fn of(timer: TimerLease) -> Self {
        Metrics {
            snapshot: Box::new(timer.snapshot()),
            turns: timer.turns(),
            next: if timer.serves() { timer.earliest() } else { Tick::MAX },
            elapsed: timer.now(),
        }
    }

    /// Returns the number of timers that wait now.
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
        self.snapshot.pending
    }

    /// Returns the number of timers registered so far. An interval counts once for each tick that it waits for. A sleep
    /// that is reset while it waits does not count again.
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
        self.snapshot.registered
    }

    /// Returns the number of timers fired so far.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, sleep};
    /// sleep(Duration::from_secs(60)).await; // on a paused clock, so at once
    /// assert_eq!(Timer::current().metrics().fired(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.lateness().count()
    }

    /// Returns the number of timers cancelled so far: those that were dropped, that a poll or a reset found past their
    /// deadlines before they were fired, or that a shutdown ended.
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

    /// Returns how often the timer has refused a registration because it was [full](Builder::capacity): zero if it has no
    /// capacity. A refused timer counts as nothing else. If its future is polled again, it may be refused again.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().capacity(1).build().unwrap();
    /// let mut sleep = timer.try_sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// assert!(timer.try_sleep(Duration::from_secs(60)).await.is_err());
    /// assert_eq!((timer.metrics().registered(), timer.metrics().refused()), (1, 1));
    /// # }
    /// ```
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.snapshot.refused
    }

    /// Returns how many timers may wait at a time, or `None` if there is [no limit](Builder::capacity).
    ///
    /// ```
    /// let (timer, _driver) = hairspring::Timer::builder().capacity(1_000).build_with_driver().unwrap();
    /// assert_eq!(timer.metrics().capacity(), Some(1_000));
    /// ```
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.snapshot.capacity
    }

    /// Returns how many turns there were. Each turn looks for due timers and may fire many of them, or none.
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
        self.turns
    }

    /// Returns how often waiting timers were moved within the timer's wheels, which is work beside firing them.
    ///
    /// Timers that are registered in the order of their deadlines, such as timers of one length, mostly do not move.
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
        self.snapshot.cascaded
    }

    /// Returns how long after their deadlines timers fired.
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
    pub fn lateness(&self) -> &Lateness {
        &self.snapshot.lateness
    }

    /// Which slots of the wheels are occupied, for each level from the lowest up. Bit `n` is set if slot `n` of the level
    /// has entries in any of the timer's shards. A slot of level `n` spans 64^`n` ticks of a nanosecond.
    #[must_use]
    #[doc(hidden)] // For the dashboard and the soak.
    pub fn occupancy(&self) -> &[u64] {
        &self.snapshot.occupancy
    }

    /// The tick at which this was read, in nanoseconds from a fixed origin in the process. Its base 64 digits, from the
    /// last one on, are the current slots of the levels in [`occupancy`](Metrics::occupancy).
    #[must_use]
    #[doc(hidden)] // For the dashboard.
    pub fn elapsed(&self) -> Tick {
        self.elapsed
    }

    /// Returns the earliest deadline, rounded up to the timer's resolution, or `None` if no timer waits.
    ///
    /// It may be earlier than that, but never later: if many timers near the earliest were registered in another order
    /// than that of their deadlines, or if the earliest was cancelled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use hairspring::{Duration, Timer, sleep};
    /// let mut sleep = sleep(Duration::from_secs(60));
    /// assert!(futures::poll!(&mut sleep).is_pending());
    /// assert_eq!(Timer::current().metrics().next_deadline(), Some(sleep.deadline()));
    /// # }
    /// ```
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.next < Tick::MAX && self.pending() > 0).then(|| clock::instant_of(self.next))
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
            .field("capacity", &self.capacity())
            .field("turns", &self.turns())
            .field("cascaded", &self.cascaded())
            .field("lateness", self.lateness())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
