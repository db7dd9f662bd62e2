//! [`ManualClock`]: time that moves when a test says so.
//!
//! Invariants
//! 1. A clock's time never goes back, and its timers fire in the order of their deadlines, each at its own.
//! 2. No lock of the clock is held while timers fire: their wakers may use the clock.
//! 3. When a clock goes, its timers end.
//!
//! Must not know: tasks, runtimes, futures.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock;
use crate::hub::{Allowance, Held, Hub};
use crate::instant::Instant;
use crate::shard::{Batch, Epoch};
use crate::tick::Tick;

/// A clock that stands still until it is told to move on, for timers of their own. Needs the feature `test-util`.
///
/// Any number of them can be in a process; they do not touch each other, nor the runtime's clock. A
/// [`Timer`](crate::Timer) built on one runs on any runtime, or on none: poll its sleeps by hand and move the clock.
/// Cloning gives another handle on the same clock. When the last is dropped, the clock's timers are shut down.
///
/// ```
/// use hairspring::{Duration, Timer, test_util::ManualClock};
/// use tokio_test::{assert_pending, assert_ready, task};
///
/// let clock = ManualClock::new();
/// let timer = Timer::builder().clock(&clock).build().unwrap();
/// let mut sleep = task::spawn(timer.sleep(Duration::from_secs(86_400)));
/// assert_pending!(sleep.poll());
///
/// clock.advance(Duration::from_secs(86_399));
/// assert!(!sleep.is_woken());
/// clock.advance(Duration::from_secs(1));
/// assert!(sleep.is_woken());
/// assert_ready!(sleep.poll());
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Tick,
    timers: Vec<(Held, Epoch)>,
}

impl ManualClock {
    /// A clock that shows the present time, and stands still there.
    #[must_use]
    pub fn new() -> Self {
        let state = State { now: clock::now(), timers: Vec::new() };
        ManualClock { inner: Arc::new(Inner { state: Mutex::new(state) }) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the clock shows.
    ///
    /// ```
    /// # use hairspring::{Duration, test_util::ManualClock};
    /// let clock = ManualClock::new();
    /// let before = clock.now();
    /// clock.advance(Duration::from_nanos(1));
    /// assert_eq!(clock.now() - before, Duration::from_nanos(1));
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        clock::instant_of(self.lock().now)
    }

    /// Moves the clock on, exactly by `duration`. When it returns, every timer due by then has been fired: in the order
    /// of their deadlines, the clock showing each one's deadline as it fires. Their tasks have been woken, and not yet
    /// been polled.
    pub fn advance(&self, duration: Duration) {
        let target = self.lock().now + clock::ticks_in(duration);
        while let Some(next) = self.next().filter(|&next| next <= target) {
            self.move_to(next);
        }
        self.move_to(target);
    }

    /// Moves the clock on to the next deadline and fires what is due there. Returns what the clock shows then; `None`,
    /// with the clock left as it is, where no timer waits.
    ///
    /// ```
    /// # use hairspring::{Duration, Timer, test_util::ManualClock};
    /// # use tokio_test::{assert_pending, task};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let mut sleep = task::spawn(timer.sleep(Duration::from_secs(3)));
    /// assert_pending!(sleep.poll());
    /// assert_eq!(clock.advance_to_next(), Some(sleep.deadline()));
    /// assert_eq!(clock.advance_to_next(), None);
    /// ```
    #[allow(clippy::must_use_candidate)] // It is called for what it does.
    pub fn advance_to_next(&self) -> Option<Instant> {
        while self.pending() > 0 {
            // A slot's start, or the deadline of a timer that was cancelled, comes before the next deadline: go on.
            if self.move_to(self.next()?) > 0 {
                return Some(self.now());
            }
        }
        None
    }

    /// How many timers wait for this clock.
    ///
    /// ```
    /// # use hairspring::test_util::ManualClock;
    /// assert_eq!(ManualClock::new().pending(), 0);
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        let pending = |(held, epoch): &(Held, Epoch)| held.hub().counts(*epoch).pending;
        let pending: u64 = self.timers().iter().map(pending).sum();
        usize::try_from(pending).unwrap_or(usize::MAX)
    }

    /// Moves the clock to a tick and fires what is due there. Returns how many timers that were.
    fn move_to(&self, tick: Tick) -> usize {
        let mut state = self.lock();
        state.now = state.now.max(tick);
        drop(state);
        let timers = self.timers();
        for (held, epoch) in &timers {
            held.hub().show(*epoch, tick);
        }
        let mut batch = Batch::default();
        timers.iter().map(|(held, _)| held.hub().fire_at(tick, &mut batch, Allowance::UNBOUNDED).wakes).sum()
    }

    /// When a timer of this clock next has something to do.
    fn next(&self) -> Option<Tick> {
        self.timers().iter().map(|(held, _)| held.hub().earliest()).min().filter(|&next| next < Tick::MAX)
    }

    /// The timers that live, held so that none of their hubs goes to another timer meanwhile.
    fn timers(&self) -> Vec<(Held, Epoch)> {
        let mut state = self.lock();
        let (live, ended): (Vec<_>, Vec<_>) =
            state.timers.drain(..).partition(|(held, epoch)| held.hub().serves(*epoch));
        state.timers.clone_from(&live);
        drop(state);
        drop(ended);
        live
    }

    /// Opens a hub on this clock.
    pub(crate) fn open(&self, shards: usize, grain: u32) -> (&'static Hub, Epoch) {
        let mut state = self.lock();
        let opened = Hub::open_by_hand(state.now, shards, grain);
        state.timers.push((opened.0.hold(), opened.1));
        opened
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (held, epoch) in &state.timers {
            held.hub().close(*epoch);
        }
    }
}
