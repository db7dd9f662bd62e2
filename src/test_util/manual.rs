//! [`ManualClock`]: a clock that a test moves by hand.
//
// Invariants
// 1. A clock's time never goes back. Its timers fire in deadline order, while it shows their deadlines.
// 2. No lock of the clock is held while timers fire: their wakers may use the clock.
// 3. Dropping a clock ends its timers. Those that followed the clock of a runtime run on.
// 4. A runtime does not count as idle while another thread fires timers: the tasks that they wake come first.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime;

use crate::clock::Instant;
use crate::clock::{
    self,
    source::{LAST, Offset, one_is_held},
};
use crate::core::lease::{TimerHold, TimerLease};
use crate::core::settings::Settings;
use crate::test_util::hold::{Claim, Claims, Hold};
use crate::test_util::lock;
use crate::test_util::pending::{self, Pending};
use crate::timer;
use crate::timer::builder::TestClock;
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::util::sync::unpoisoned;
use crate::wheel::{Tick, Wheel};

/// A clock that stands still until a test advances it, for the timers built on it.
///
/// A process can have any number of them, independent of each other and of the runtime's clock. A
/// [`Timer`](crate::Timer) [built on one](crate::timer::Builder::clock) works on any runtime, or on none: poll its
/// sleeps by hand and advance the clock. [`auto_advance`](ManualClock::auto_advance) moves the clock when a runtime is
/// idle, and [`rate`](ManualClock::rate) makes it run fast or slow. To test nodes whose clocks disagree, give each a
/// clock.
///
/// Clones are handles to the same clock. Dropping the last handle shuts down the clock's timers: at once, or if the clock
/// is just moving by itself, after that step.
///
/// # Examples
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
#[doc(alias = "mock clock")]
#[doc(alias = "fake clock")]
#[doc(alias = "FakeClock")]
#[derive(Clone)]
pub struct ManualClock {
    inner: Arc<Inner>,
}

struct Inner {
    claims: Arc<Claims>,
    state: Mutex<State>,
}

pub(super) struct State {
    now: Tick,
    /// Where the last advance by a duration ends.
    target: Tick,
    /// The thread that advances it, as long as it does.
    advances: Option<ThreadId>,
    timers: Vec<TimerHold>,
    /// The runtime with which it advances by itself.
    pub(super) auto_advances: Option<runtime::Id>,
    /// How often its rate was set.
    pub(super) rate: u64,
    moves: Moves,
}

/// How many moves are firing timers now, and how many have fired any.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moves {
    firing: u32,
    fired: u64,
}

impl Moves {
    fn end(&mut self, fired: usize) {
        self.firing -= 1;
        self.fired += u64::from(fired > 0);
    }
}

#[derive(Clone, Copy)]
pub(super) enum By {
    Test,
    /// One of our threads, which decided that when so many claims on the clock had ended.
    Itself(u64),
    /// The same, because a runtime was idle after these moves.
    IdleAfter(Moves, u64),
}

impl State {
    /// The moves so far, unless one is firing timers, or a thread that began before the clock was paused.
    pub(super) fn moves(&self) -> Option<Moves> {
        let fires =
            self.moves.firing > 0 || self.timers.iter().any(|held| held.lease().turns().helpers.load(SeqCst) > 0);
        (!fires).then_some(self.moves)
    }

    fn show(&mut self, tick: Tick) {
        self.now = self.now.max(tick);
        for timer in self.timers.iter().map(TimerHold::lease).filter(|timer| timer.serves()) {
            timer.turns().clock.shown.fetch_max(tick.0, SeqCst);
        }
    }

    /// The live timers, whose memory is held. Unlocks.
    fn timers(mut state: MutexGuard<'_, State>) -> Vec<TimerHold> {
        let (live, ended): (Vec<_>, Vec<_>) = state.timers.drain(..).partition(|held| held.lease().serves());
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
        ManualClock::with(Arc::default())
    }

    /// A new clock that these claims hold.
    pub(super) fn with(claims: Arc<Claims>) -> Self {
        one_is_held();
        let (now, target, timers) = (clock::now(), Tick::ZERO, Vec::new());
        let state =
            State { now, target, advances: None, timers, auto_advances: None, rate: 0, moves: Moves::default() };
        ManualClock { inner: Arc::new(Inner { claims, state: Mutex::new(state) }) }
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
    /// If a waker calls this while the clock advances, the clock goes on by that much once the tasks of that instant have
    /// been woken: this call returns before.
    ///
    /// A clock stops about 530 years from now. Later deadlines are never reached: no sleep ends that is created after
    /// `advance(Duration::MAX)` and has to wait.
    ///
    /// # Examples
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
    pub fn advance(&self, duration: Duration) {
        let mut target = self.end_of_advance(duration);
        let here = thread::current().id();
        if self.state().advances == Some(here) {
            return;
        }
        let is_outermost = self.state().advances.get_or_insert(here) == &here;
        loop {
            self.advance_to(target, By::Test);
            let mut state = self.state();
            if state.target <= target {
                if is_outermost {
                    state.advances = None;
                }
                return;
            }
            target = state.target;
        }
    }

    /// Advances the clock to the next deadline, fires the timers due there, and returns the new time. Returns `None`
    /// and does not move the clock if no timer waits for a deadline that it can reach. A queue or a map with more than 16
    /// entries may first wait for an earlier time, at which it sorts them.
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
        self.move_to_next(LAST, By::Test).map(|_| self.now())
    }

    /// Keeps the clock from advancing by itself until the returned [`Hold`] is dropped. You can still advance it by
    /// hand.
    ///
    /// Use this for work that the clock [cannot see](crate::test_util#what-holds-a-paused-clock): one of your threads,
    /// or another process.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::test_util::ManualClock;
    /// let clock = ManualClock::new();
    /// let hold = clock.hold();
    /// std::thread::spawn(move || {
    ///     // ... work that takes time, and then
    ///     drop(hold);
    /// });
    /// ```
    #[track_caller]
    pub fn hold(&self) -> Hold {
        Hold(self.claims().claim(Claim::Hold))
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
        State::timers(self.state()).iter().map(|held| pending(held.lease())).sum()
    }

    pub(super) fn claims(&self) -> &Arc<Claims> {
        &self.inner.claims
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// A handle that does not keep the clock alive.
    pub(crate) fn downgrade(&self) -> WeakClock {
        WeakClock(Arc::downgrade(&self.inner))
    }

    /// Sets the time before the clock is used.
    pub(super) fn start_at(&self, now: Tick) {
        self.state().show(now);
    }

    pub(crate) fn tick(&self) -> Tick {
        self.state().now
    }

    /// Takes over a timer, unless a test sets its time already.
    /// Returns whether the timer did not follow this clock before. The caller fires what is due.
    pub(crate) fn adopt(&self, timer: TimerLease) -> bool {
        let mut state = self.state();
        if timer.turns().clock.is_shown() {
            return false;
        }
        // Hold it first: no other timer can then get its memory.
        let Some(held) = timer.try_hold() else { return false };
        let is_new = timer.turns().show(state.now);
        if is_new {
            timer.publish_removals();
            state.timers.push(held);
        }
        is_new
    }

    pub(crate) fn waiting(&self) -> Vec<Pending> {
        pending::of(State::timers(self.state()).iter().map(TimerHold::lease), self.tick())
    }

    pub(crate) fn after(&self, duration: Duration) -> Tick {
        (self.tick() + clock::ticks_in(duration)).min(LAST)
    }

    /// Where an advance by `duration` ends. The caller makes it: advances of several threads add up.
    pub(super) fn end_of_advance(&self, duration: Duration) -> Tick {
        let mut state = self.state();
        state.target = (state.target.max(state.now) + clock::ticks_in(duration)).min(LAST);
        state.target
    }

    pub(super) fn advance_to(&self, target: Tick, by: By) {
        while self.move_to_next(target, by).is_some() {}
        self.move_to(target, by);
    }

    /// Moves to the next deadline up to `target`, and fires the timers due there. Returns how many; `None` if there is
    /// no such deadline, or if it may not move.
    pub(super) fn move_to_next(&self, target: Tick, by: By) -> Option<usize> {
        loop {
            // Check the cheap bound first. The exact search then visits entries only once, as time passes them.
            self.next(TimerLease::earliest, target)?;
            let fired = self.move_to(self.next(TimerLease::first_deadline, target)?, by)?;
            // If a timer was cancelled, go on.
            if fired > 0 {
                return Some(fired);
            }
        }
    }

    /// Hands over all timers to a clock that shows the same time, and stops auto-advance.
    pub(crate) fn release(&self) -> (Tick, Vec<TimerHold>) {
        let mut state = self.state();
        state.auto_advances = None;
        (state.now, std::mem::take(&mut state.timers))
    }

    /// Moves the clock to a tick and fires the timers due there. Returns how many fired; `None` if it may not move.
    fn move_to(&self, tick: Tick, by: By) -> Option<usize> {
        // Under one lock: a timer that is released concurrently fires by the time set here, or not at all.
        let mut state = self.state();
        match by {
            By::Test => state.show(tick),
            By::IdleAfter(moves, _) if moves != state.moves => return None,
            By::Itself(ended) | By::IdleAfter(_, ended) if self.claims().unless_held(ended, || state.show(tick)) => {}
            By::Itself(_) | By::IdleAfter(..) => return None,
        }
        state.moves.firing += 1;
        let timers = State::timers(state);
        let fired = timers.iter().map(|held| held.lease().fire_at(tick)).sum();
        self.state().moves.end(fired);
        for held in &timers {
            held.lease().close_if_unneeded();
        }
        Some(fired)
    }

    /// Whether a timer of this clock will have work.
    pub(super) fn has_work(&self) -> bool {
        self.next(TimerLease::earliest, LAST).is_some()
    }

    /// The first of the timers' ticks, if it is no later than `limit`.
    fn next(&self, of: fn(TimerLease) -> Tick, limit: Tick) -> Option<Tick> {
        State::timers(self.state()).iter().map(|held| of(held.lease())).min().filter(|&next| next <= limit)
    }
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
        timer.turns().open_shown(state.now);
        timer.publish_removals();
        state.timers.push(timer.hold());
        timer
    }
}

impl timer::Builder {
    /// Builds the timer on a [`ManualClock`]. Needs the feature `test-util`.
    ///
    /// Such a timer has one shard by default. It needs neither a runtime nor a driver, because advancing the clock
    /// fires its timers, and ignores [`alarm`](timer::Builder::alarm).
    ///
    /// If you [install](timer::Builder::install) it, [`sleep`](crate::sleep()) and the like wait on it, but count from
    /// [`Instant::now`], which shows the runtime's clock. Call the timer's own methods instead, or compute deadlines
    /// from [`ManualClock::now`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Timer, test_util::ManualClock};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// assert_eq!(timer.now(), clock.now());
    /// ```
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(Arc::new(clock.clone()));
        self
    }
}

pub(crate) struct WeakClock(Weak<Inner>);

impl WeakClock {
    pub(crate) fn upgrade(&self) -> Option<ManualClock> {
        self.0.upgrade().map(|inner| ManualClock { inner })
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
        let state = unpoisoned(self.state.get_mut());
        for timer in state.timers.iter().map(TimerHold::lease) {
            if self.claims.runtime.is_some() {
                // Its runtime has ended. Timers whose drivers go on elsewhere run from here.
                timer.turns().run(Offset::from(state.now));
                timer.turns().turn_again();
            } else {
                timer.close();
            }
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
