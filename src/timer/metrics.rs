//! [`Metrics`]: what a timer has done so far.

use std::fmt;

use crate::clock::{self, Instant};
use crate::core::lease::TimerLease;
use crate::core::statistics::{Lateness, Snapshot};
use crate::wheel::Tick;

/// A snapshot of what a timer has done, returned by [`Timer::metrics`](super::Timer::metrics).
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
    name: Option<&'static str>,
}

impl Metrics {
    pub(crate) fn of(timer: TimerLease) -> Self {
        Metrics {
            snapshot: Box::new(timer.snapshot()),
            turns: timer.turns(),
            next: if timer.serves() { timer.earliest() } else { Tick::MAX },
            elapsed: timer.now(),
            name: timer.name(),
        }
    }

    /// Returns the name that the timer was [given](super::Builder::name), if any.
    ///
    /// ```
    /// let (timer, _driver) = hairspring::Timer::builder().name("requests").build_with_driver().unwrap();
    /// assert_eq!(timer.metrics().name(), Some("requests"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.name
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
        self.snapshot.counts.pending
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
    /// sleep.reset_to(Instant::now() + Duration::from_secs(90));
    /// assert_eq!(Timer::current().metrics().registered(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn registered(&self) -> u64 {
        self.snapshot.counts.registered
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
        self.snapshot.counts.fired
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

    /// Returns how often an entry was moved: to a lower level of its wheel, or to its place in the order of its slot.
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
        self.snapshot.counts.cascaded
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

    /// Returns which slots of the wheels are occupied, for each level from the lowest up. Bit `n` is set if slot `n` of
    /// the level has entries in any of the timer's shards.
    ///
    /// A slot of level `n` spans 64^`n` ticks of a nanosecond. The level of an entry is the highest base 64 digit in
    /// which its deadline differs from the time when the wheel last looked.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let metrics = hairspring::Timer::current().metrics();
    /// assert!(metrics.occupancy().iter().all(|&slots| slots == 0), "no timer waits");
    /// # }
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> &[u64] {
        &self.snapshot.occupancy
    }

    /// Returns the tick at which this was read, in nanoseconds from a fixed origin in the process. Its base 64 digits,
    /// from the last one on, are the current slots of the levels in [`occupancy`](Metrics::occupancy).
    ///
    /// ```
    /// use hairspring::{Duration, Timer, sleep, wheel::Ticks};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let before = Timer::current().metrics().elapsed();
    /// sleep(Duration::from_millis(1)).await;
    /// assert!(Timer::current().metrics().elapsed() - before >= Ticks(1_000_000));
    /// # }
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Tick {
        self.elapsed
    }

    /// Returns the earliest deadline, rounded up to the timer's resolution, or `None` if no timer waits.
    ///
    /// It may be earlier than that, but never later: if the wheel first has to move entries down a level, or if the
    /// earliest timer was cancelled since the wheel last looked.
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
            .field("turns", &self.turns())
            .field("cascaded", &self.cascaded())
            .field("lateness", self.lateness())
            .field("next_deadline", &self.next_deadline())
            .finish_non_exhaustive()
    }
}
