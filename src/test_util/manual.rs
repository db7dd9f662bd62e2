//! [`ManualClock`]: a clock that a test moves by hand.
//
// Invariants
// 1. A clock's time never goes back. Its timers fire in deadline order, while it shows their deadlines.
// 2. One thread moves a clock at a time, and the others wait until it has woken the tasks that are due. What its wakers
//    ask for, it does before it is finished.
// 3. No lock of the clock is held while timers fire: their wakers may use the clock.
// 4. Dropping a clock ends its timers.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::clock::source::{LAST, one_is_held};
use crate::clock::{self, Instant};
use crate::core::memory::{TimerGuard, TimerLease};
use crate::core::settings::Settings;
use crate::test_util::lock;
use crate::timer;
use crate::timer::builder::TestClock;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::util::sync::unpoisoned;
use crate::wheel::{Tick, Wheel};

/// A clock that stands still until a test advances it, for the timers built on it.
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
///
/// A process can have any number of them, independent of each other and of the runtime's clock. A
/// [`Timer`](crate::Timer) [built on one](crate::timer::Builder::clock) works on any runtime, or on none: poll its
/// sleeps by hand and advance the clock. [`set_rate`](ManualClock::set_rate) makes it run fast or slow. To test nodes
/// whose clocks disagree, give each a clock. A [`bubble`](crate::test_util::bubble()) has a clock that moves by itself.
///
/// Clones are handles to the same clock. Dropping the last handle shuts down the clock's timers: at once, or if the
/// clock is just moving at a rate, after that step.
#[doc(alias = "mock clock")]
#[doc(alias = "fake clock")]
#[doc(alias = "FakeClock")]
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// No thread moves the clock any more.
    is_free: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    now: Tick,
    /// Where the last advance by a duration ends.
    target: Tick,
    /// The thread that moves it, as long as it does.
    mover: Option<ThreadId>,
    timers: Vec<TimerGuard>,
    /// How often its rate was set.
    rate: u64,
}

impl State {
    fn show(&mut self, tick: Tick) {
        self.now = self.now.max(tick);
        for timer in self.timers.iter().map(TimerGuard::lease).filter(|timer| timer.is_open()) {
            timer.engine().clock.shown.fetch_max(tick.0, SeqCst);
        }
    }

    /// Begins a timer on this clock.
    fn open(&mut self, timer: TimerLease) {
        timer.engine().open_shown(self.now);
        timer.publish_removals();
        self.timers.push(timer.guard());
    }

    /// The live timers, whose memory is held. Unlocks.
    fn timers(mut state: MutexGuard<'_, State>) -> Vec<TimerGuard> {
        let (live, ended): (Vec<_>, Vec<_>) = state.timers.drain(..).partition(|held| held.lease().is_open());
        state.timers.clone_from(&live);
        drop(state);
        drop(ended);
        live
    }
}

impl ManualClock {
    /// Creates a clock that shows the current time and stands still.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{Duration, test_util::ManualClock};
    /// let clock = ManualClock::new();
    /// let now = clock.now();
    /// std::thread::sleep(Duration::from_millis(1));
    /// assert_eq!(clock.now(), now);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        one_is_held();
        let state = Mutex::new(State { now: clock::now(), ..State::default() });
        ManualClock { inner: Arc::new(Inner { state, is_free: Condvar::new() }) }
    }

    /// Returns the time that the clock shows.
    ///
    /// # Examples
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
        clock::instant_of(self.state().now)
    }

    /// Advances the clock by exactly `duration`, and fires the timers due by then in deadline order, while the clock
    /// shows their deadlines. When this returns, their tasks have been woken but not polled.
    ///
    /// ```
    /// # use hairspring::{Duration, Timer, test_util::ManualClock};
    /// # use tokio_test::{assert_pending, task};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let mut sooner = task::spawn(timer.sleep(Duration::from_secs(1)));
    /// let mut later = task::spawn(timer.sleep(Duration::from_secs(2)));
    /// assert_pending!(sooner.poll());
    /// assert_pending!(later.poll());
    /// clock.advance(Duration::from_millis(1_500));
    /// assert!(sooner.is_woken() && !later.is_woken());
    /// ```
    ///
    /// If another thread is moving the clock, this waits for that. If a waker calls this while the clock moves, the call
    /// returns at once, and the clock moves on after the tasks of the current instant have been woken.
    ///
    /// A clock stops about 530 years from now. Later deadlines are never reached: after `advance(Duration::MAX)`, new
    /// sleeps that have to wait never end.
    pub fn advance(&self, duration: Duration) {
        let mut state = self.state();
        // Advances by several threads add up.
        state.target = (state.target.max(state.now) + clock::ticks_in(duration)).min(LAST);
        drop(state);
        self.as_mover(|| ());
    }

    /// Advances the clock to the next deadline, fires the timers due there, and returns the new time. Returns `None`
    /// and does not move the clock if no timer waits for a deadline that it can reach. A queue or a map with more than
    /// 16 entries may first wait for an earlier time, at which it sorts them.
    ///
    /// # Examples
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
    #[allow(clippy::must_use_candidate)] // Called for its effect.
    pub fn advance_to_next(&self) -> Option<Instant> {
        self.step(LAST, allowed).map(|_| self.now())
    }

    /// Makes the clock run at `rate`, that many times as fast as real time: at 60, an hour passes in a minute. Zero
    /// stops it.
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new();
    /// clock.set_rate(360_000.0);
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(3_600)).await; // takes 10 ms
    /// assert!(clock.now() - start >= Duration::from_secs(3_600));
    /// # }
    /// ```
    ///
    /// The clock moves about once per millisecond of real time, and each timer fires while the clock shows its
    /// deadline. Give the nodes of a cluster in one process the rates 1.0 and 1.01, and their clocks drift apart.
    ///
    /// You can still advance the clock by hand. A new rate is in force when the call returns: only timers that are
    /// already due may still fire. Dropping the last handle stops the clock.
    ///
    /// # Panics
    ///
    /// Panics if `rate` is negative or not finite, or if no thread can be started.
    #[track_caller]
    pub fn set_rate(&self, rate: f64) {
        /// How often the clock moves, in real time.
        const STEP: Duration = Duration::from_millis(1);

        assert!(rate.is_finite() && rate >= 0.0, "the rate of a clock must be finite and at least 0, not {rate}");
        let number = {
            let mut state = self.state();
            state.rate += 1;
            state.rate
        };
        if rate == 0.0 {
            return;
        }
        let (weak, mut since) = (Arc::downgrade(&self.inner), std::time::Instant::now());
        let upgrade = |weak: &Weak<Inner>| weak.upgrade().map(|inner| ManualClock { inner });
        let is_current = move |state: &State| (state.rate == number).then_some(());
        let run = move || {
            while let Some(clock) = upgrade(&weak).filter(|clock| is_current(&clock.state()).is_some()) {
                let passed = since.elapsed();
                since += passed;
                let passed = Duration::try_from_secs_f64(passed.as_secs_f64() * rate).unwrap_or(Duration::MAX);
                clock.move_by_steps(clock.after(passed), is_current);
                drop(clock);
                thread::sleep(STEP);
            }
        };
        if let Err(error) = thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            panic!("hairspring failed to start the thread that moves the clock: {error}");
        }
    }

    /// Returns the number of sleeps that wait for this clock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::test_util::ManualClock;
    /// assert_eq!(ManualClock::new().pending(), 0);
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        let pending = |timer: TimerLease| timer.all().iter().map(|shard| shard.read(Wheel::len)).sum::<usize>();
        self.timers().iter().map(|held| pending(held.lease())).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    pub(crate) fn tick(&self) -> Tick {
        self.state().now
    }

    /// Takes over a timer, unless a test sets its time already. Returns whether it did: the caller then fires what is
    /// due.
    pub(crate) fn adopt(&self, timer: TimerLease) -> bool {
        let mut state = self.state();
        if timer.engine().clock.is_shown() {
            return false;
        }
        // Hold it first: no other timer can then get its memory.
        let Some(held) = timer.try_guard() else { return false };
        let is_new = timer.engine().show(state.now);
        if is_new {
            timer.publish_removals();
            state.timers.push(held);
        }
        is_new
    }

    /// Begins a timer on this clock.
    pub(super) fn open(&self, timer: TimerLease) {
        self.state().open(timer);
    }

    pub(super) fn timers(&self) -> Vec<TimerGuard> {
        State::timers(self.state())
    }

    pub(crate) fn after(&self, duration: Duration) -> Tick {
        (self.tick() + clock::ticks_in(duration)).min(LAST)
    }

    /// Moves to the next deadline up to `target`, and fires the timers due there. Returns how many; `None` if there is
    /// no such deadline, or if the clock may not move: `may` decides that, and what it returns lives until the clock
    /// has moved.
    pub(super) fn step<P>(&self, target: Tick, may: impl Fn(&State) -> Option<P>) -> Option<usize> {
        self.as_mover(|| {
            loop {
                // Check the cheap bound first. The exact search then visits entries only once, as time passes them.
                self.next(TimerLease::earliest, target)?;
                let fired = self.move_to(self.next(TimerLease::first_deadline, target)?, &may)?;
                // If a timer was cancelled, go on.
                if fired > 0 {
                    return Some(fired);
                }
            }
        })
    }

    /// Moves from deadline to deadline, to `target`.
    pub(super) fn move_by_steps<P>(&self, target: Tick, may: impl Fn(&State) -> Option<P>) {
        self.as_mover(|| {
            while self.step(target, &may).is_some() {}
            self.move_to(target, &may);
        });
    }

    /// Waits until no other thread moves the clock, and lets this one move it: then also to where its wakers want it.
    /// If this is such a waker, its thread moves the clock already.
    fn as_mover<T>(&self, moves: impl FnOnce() -> T) -> T {
        struct Mover<'clock>(&'clock ManualClock);
        impl Drop for Mover<'_> {
            fn drop(&mut self) {
                self.0.state().mover = None;
                self.0.inner.is_free.notify_all();
            }
        }
        let (here, mut state) = (thread::current().id(), self.state());
        if state.mover == Some(here) {
            drop(state);
            return moves();
        }
        while state.mover.is_some() {
            state = unpoisoned(self.inner.is_free.wait(state));
        }
        state.mover = Some(here);
        drop(state);
        let _mover = Mover(self);
        let result = moves();
        loop {
            let (now, target) = {
                let state = self.state();
                (state.now, state.target)
            };
            if target <= now {
                return result;
            }
            self.move_by_steps(target, allowed);
        }
    }

    /// Moves the clock to a tick and fires the timers due there. Returns how many fired; `None` if it may not move.
    fn move_to<P>(&self, tick: Tick, may: impl Fn(&State) -> Option<P>) -> Option<usize> {
        // Under one lock: a timer that is taken over concurrently fires by the time set here.
        let mut state = self.state();
        let permit = may(&state)?;
        state.show(tick);
        drop(permit);
        let timers = State::timers(state);
        let fired = timers.iter().map(|held| held.lease().fire_at(tick)).sum();
        for held in &timers {
            held.lease().close_if_unneeded();
        }
        Some(fired)
    }

    /// Whether a timer of this clock will have work.
    pub(super) fn has_work(&self) -> bool {
        self.next(TimerLease::earliest, LAST).is_some()
    }

    /// Whether timers wait, and the first is due after `limit`.
    pub(super) fn is_next_after(&self, limit: Tick) -> bool {
        self.next(TimerLease::first_deadline, LAST).is_some_and(|next| next > limit)
    }

    /// The first of the timers' ticks, if it is no later than `limit`.
    fn next(&self, of: fn(TimerLease) -> Tick, limit: Tick) -> Option<Tick> {
        self.timers().iter().map(|held| of(held.lease())).min().filter(|&next| next <= limit)
    }
}

/// A test may always move its clock.
#[allow(clippy::unnecessary_wraps)] // Others refuse.
pub(super) fn allowed(_: &State) -> Option<()> {
    Some(())
}

impl TestClock for ManualClock {
    fn open(&self, settings: &Settings) -> TimerLease {
        let mut state = self.state();
        if state.timers.len() == state.timers.capacity() {
            // Those that have ended make room, or the list grows. Either way it is not full again soon.
            let live = State::timers(state).len();
            state = self.state();
            state.timers.reserve(live);
        }
        let timer = TimerLease::make(settings, state.now);
        state.open(timer);
        timer
    }
}

impl timer::Builder {
    /// Builds the timer on a [`ManualClock`]. Needs the feature `test-util`.
    ///
    /// ```
    /// use hairspring::{Timer, test_util::ManualClock};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// assert_eq!(timer.now(), clock.now());
    /// ```
    ///
    /// Such a timer has one shard by default. It needs neither a runtime nor a driver, because advancing the clock
    /// fires its timers, and ignores [`alarm`](timer::Builder::alarm).
    ///
    /// If you [install](timer::Builder::install) it, [`sleep`](crate::sleep()) and the like wait on it, but count from
    /// [`Instant::now`], which shows the runtime's clock. Call the timer's own methods instead, or compute deadlines
    /// from [`ManualClock::now`].
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(Arc::new(clock.clone()));
        self
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("now", &self.now())
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for timer in unpoisoned(self.state.get_mut()).timers.iter().map(TimerGuard::lease) {
            timer.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;
    use crate::{DeadlineMap, DelayQueue, Timer};

    /// A bug that this crate had: a wheel began 73 minutes before the system's time. If its clock was further behind,
    /// sleeps and entries that were due by then came at once.
    #[test]
    fn a_clock_may_be_hours_behind_the_systems() {
        const MINUTE: Duration = Duration::from_secs(60);
        let clock = ManualClock::new();
        {
            let mut state = clock.state();
            state.now = Tick(state.now.0 - clock::ticks_in(120 * MINUTE).0);
        }
        let timer = Timer::builder().clock(&clock).build().unwrap();
        let mut queue = DelayQueue::with_timer(&timer);
        queue.insert((), MINUTE);
        let (map, mut expirations) = DeadlineMap::builder().shards(1).timer(&timer).build().unwrap();
        // So many that it makes a wheel.
        for key in 0..100 {
            map.insert(key, (), 2 * MINUTE);
        }
        map.insert(100, (), MINUTE);
        let mut all = [
            timer.sleep(MINUTE).boxed(),
            async move { assert!(queue.next().await.is_some()) }.boxed(),
            async move { assert_eq!(expirations.recv().await, Some((100, ()))) }.boxed(),
        ];
        for is_due in [false, true] {
            for (number, future) in all.iter_mut().enumerate() {
                assert_eq!(future.now_or_never().is_some(), is_due, "{number}");
            }
            clock.advance(MINUTE);
        }
    }
}
