//! The handshake between those who arm timers and the driver that sleeps until the earliest of them.
//!
//! The one place where a mistake hangs a program. The driver publishes the tick that it will wake at (`armed`); whoever
//! has inserted an earlier deadline pokes. While the driver is awake it publishes "never", so that everybody pokes, and
//! a poke then makes it look once more before it sleeps.
//!
//! Invariants
//! 1. Order of a turn: publish "never", look at the shards, publish the earliest. Order of an arming: publish the
//!    shard's new earliest deadline, then read `armed`. All four are sequentially consistent, so an insert that the look
//!    missed reads "never" and pokes.
//! 2. `armed` changes only under the lock; reading it is a filter in front of the lock.
//! 3. Where two turns overlap, the one that ends last only makes the wake-up earlier. An alarm of the driver's own stays
//!    set whatever a stand-in publishes in its place.
//! 4. While the driver is expected, the alarm thread has a booking to see that it came, unless a clock is paused.
//! 5. While `certain` is finite, the alarm thread stands ready to withdraw it, soon after the tick `armed` is reached.
//! 6. No waker is woken, cloned or dropped under the lock.
//!
//! Must not know: wheel, shards, the driver's work.

#[cfg(feature = "test-util")]
mod by_hand;

// No part of any handshake, so models share it.
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{OnceLock, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::clock;
use crate::clock::instant;
use crate::core::alarm::thread::{self, Bell, BellId};
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{self, Mutex, MutexGuard};
use crate::wheel::{Tick, Ticks};

/// How late the alarm thread may be before [`Signal::is_surely_future`] answers a poll wrongly: 134 ms. Even then only a
/// sleep that is polled after its deadline is told to wait, and it is woken as soon as the thread runs.
const ALARM_MAY_LAG: Ticks = Ticks(1 << 27);

/// How long a driver may take to come round once it was woken, before a stand-in turns in its place.
const GRACE: Duration = Duration::from_millis(1);

/// The same where the driver's own alarm fires what is due without it, so that only the next alarm waits for it.
const WATCHED_GRACE: Duration = Duration::from_millis(5);

/// How often a driver looks at a clock for which it has no alarm.
const NOW_AND_THEN: Duration = Duration::from_millis(10);

/// A pause from which on timers are dense.
const DENSE: Ticks = Ticks(250_000);

/// Whether a test may pause or advance tokio's clock at any time. Elsewhere a paused clock is noticed now and then.
pub(crate) const CLOCK_MAY_PAUSE: bool = cfg!(feature = "test-util");

/// Whether one does. It fires by the system's clock.
const STANDS_IN: bool = !CLOCK_MAY_PAUSE;

/// What a driver waits on.
pub(crate) struct Signal {
    /// The tick that the driver will wake at; `Tick::MAX` while it is awake.
    armed: AtomicU64,
    /// No deadline after this tick can have passed; `Tick::MAX` where that is not known.
    certain: AtomicU64,
    /// The time of the last turn of a stand-in that the driver has not come to: it went by the system's clock, which may
    /// not be that of a poll. Zero if there is none.
    doubtful: AtomicU64,
    /// Whether the timer has no driver, so that stand-ins make all its turns.
    driverless: AtomicBool,
    state: Mutex<State>,
    id: BellId,
    bell: OnceLock<&'static dyn Bell>,
    /// What a manual clock shows; `Tick::MAX` where the clock is the runtime's.
    #[cfg(feature = "test-util")]
    manual: AtomicU64,
    /// How the runtime's clock goes on, where it was paused once and runs again; zero where it was not.
    #[cfg(feature = "test-util")]
    course: AtomicU64,
}

struct State {
    phase: Phase,
    waker: Option<DriverWaker>,
    /// The driver is not to be woken before this, whatever is armed: it lets timers gather.
    not_before: Tick,
    /// How long it let them gather the last time.
    pause: Ticks,
    /// The tick that it was last woken for, and when that was.
    rung_for: Tick,
    rung_at: Instant,
}

/// How to have the driver polled.
pub(crate) struct DriverWaker {
    pub(crate) waker: Waker,
    /// Whether it may be foreign code, not to be run by the alarm thread. A tokio task's is not: it never blocks.
    pub(crate) is_foreign: bool,
}

impl DriverWaker {
    pub(crate) fn wake(self) {
        // It is no fault of whoever arms a timer, shuts it down, or waits on it.
        catch_panic(|| self.waker.wake());
    }
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    /// A turn is on, or expected. `again`: something was armed that its look may have missed.
    Awake {
        again: bool,
        expected: bool,
    },
    Asleep(WakesBy),
}

/// What wakes a sleeping driver at the tick that it is armed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakesBy {
    /// The alarm thread.
    Thread,
    /// An alarm of the driver's own, which only the driver can set earlier. The alarm thread sees to it that it comes.
    Watched,
    /// Whoever holds the manual clock.
    #[cfg(feature = "test-util")]
    Hand,
    /// The alarm thread, now and then: the clock is another than the system's, and the driver has no alarm for it.
    NowAndThen,
    /// An alarm of the driver's own, on a clock that the alarm thread does not know, or less precise than the thread.
    Itself,
}

/// What is to be done when the alarm thread has rung.
pub(crate) enum Rung {
    /// Nothing more.
    Served,
    /// The driver is to be woken.
    Wake(DriverWaker),
    /// A stand-in is to turn the wheels: there is no driver, or it was woken before and has not come round.
    Overdue,
}

impl Signal {
    pub(crate) fn new() -> Self {
        static NEXT: Counter = Counter::new(0);
        Signal {
            armed: AtomicU64::new(u64::MAX),
            certain: AtomicU64::new(u64::MAX),
            doubtful: AtomicU64::new(0),
            driverless: AtomicBool::new(false),
            state: Mutex::new(State {
                phase: Phase::Closed,
                waker: None,
                not_before: Tick::ZERO,
                pause: Ticks(0),
                rung_for: Tick::ZERO,
                rung_at: sync::now(),
            }),
            id: BellId(NEXT.fetch_add(1, SeqCst)),
            bell: OnceLock::new(),
            #[cfg(feature = "test-util")]
            manual: AtomicU64::new(u64::MAX),
            #[cfg(feature = "test-util")]
            course: AtomicU64::new(0),
        }
    }

    /// The time on the timer's clock.
    #[inline]
    #[cfg_attr(not(feature = "test-util"), allow(clippy::unused_self))]
    pub(crate) fn now(&self) -> Tick {
        #[cfg(feature = "test-util")]
        if let Some(shown) = self.shown() {
            return shown;
        }
        #[cfg(feature = "test-util")]
        if let Some(course) = self.course() {
            return course.now();
        }
        clock::now()
    }

    /// When a tick comes by the system's clock.
    #[cfg_attr(not(feature = "test-util"), allow(clippy::unused_self))]
    pub(crate) fn instant_of(&self, tick: Tick) -> instant::Instant {
        #[cfg(feature = "test-util")]
        if let Some(course) = self.course().filter(|_| tick < Tick::MAX) {
            return clock::instant_of(course.system_tick(tick));
        }
        clock::instant_of(tick)
    }

    /// Whether this is on a manual clock, and that has come to a tick.
    #[inline]
    #[cfg_attr(not(feature = "test-util"), allow(clippy::unused_self))]
    pub(crate) fn was_shown(&self, tick: Tick) -> bool {
        #[cfg(feature = "test-util")]
        return self.shown().is_some_and(|shown| tick <= shown);
        #[cfg(not(feature = "test-util"))]
        {
            let _ = tick;
            false
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is a timer, and no thread that this process has not got held the lock when the process was forked off.
    /// Only for a process that has one thread.
    #[cfg_attr(hairspring_loom, allow(dead_code))] // No model forks.
    pub(crate) fn has_survived(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| !matches!(state.phase, Phase::Closed))
    }

    /// When a tick comes by the system's clock, for the alarm thread.
    fn system_instant(&self, tick: Tick) -> Instant {
        self.instant_of(tick).into_std()
    }

    /// A driver is about to be spawned; `bell` is what the alarm thread rings for it.
    pub(crate) fn open(&self, bell: &'static dyn Bell) {
        let mut state = self.prepare(bell, false);
        self.expect_driver(&mut state);
        if instant::clock_is_the_systems() {
            self.watch_driver(&mut state);
        }
    }

    /// A timer without a driver begins: whenever `bell` rings and something is due, a stand-in is to turn the wheels.
    pub(crate) fn open_driverless(&self, bell: &'static dyn Bell) {
        let mut state = self.prepare(bell, true);
        state.phase = Phase::Asleep(WakesBy::Thread);
        self.publish(Tick::MAX, Tick::MAX);
    }

    fn prepare(&self, bell: &'static dyn Bell, driverless: bool) -> MutexGuard<'_, State> {
        self.bell.get_or_init(|| {
            thread::list(bell);
            bell
        });
        self.driverless.store(driverless, SeqCst);
        self.doubtful.store(0, SeqCst);
        #[cfg(feature = "test-util")]
        {
            self.manual.store(u64::MAX, SeqCst);
            self.course.store(0, SeqCst);
        }
        let mut state = self.lock();
        (state.not_before, state.pause, state.rung_for) = (Tick::ZERO, Ticks(0), Tick::ZERO);
        state
    }

    /// Whether the timer has no driver.
    #[inline]
    pub(crate) fn is_driverless(&self) -> bool {
        self.driverless.load(Relaxed)
    }

    /// The timer has ended. Its driver is polled once more, to see it.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        self.publish(Tick::MAX, Tick::MAX);
        state.phase = Phase::Closed;
        thread::cancel(self.id);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// A deadline was inserted, earlier than any other of its shard, and the shard has published it. Returns whether the
    /// clock was found to be paused, which the driver has yet to see.
    #[inline]
    pub(crate) fn inserted(&self, deadline: Tick) -> bool {
        deadline.0 < self.armed.load(SeqCst) && self.poke(deadline)
    }

    #[cold]
    fn poke(&self, deadline: Tick) -> bool {
        self.look_by(self.lock(), deadline)
    }

    /// Has the driver look when `deadline` is reached. Returns whether the clock was found to be paused.
    fn look_by(&self, mut state: MutexGuard<'_, State>, deadline: Tick) -> bool {
        let deadline = deadline.max(state.not_before);
        match &mut state.phase {
            Phase::Closed => {}
            Phase::Awake { again, .. } => {
                *again = true;
                return !CLOCK_MAY_PAUSE && !self.is_driverless() && !instant::clock_is_the_systems();
            }
            Phase::Asleep(_) if deadline.0 >= self.armed.load(SeqCst) => {}
            // The driver sleeps on: only the alarm is moved. Not for a clock that was, or may any time be, paused.
            Phase::Asleep(WakesBy::Thread)
                if self.is_driverless() || (instant::clock_is_the_systems() && !CLOCK_MAY_PAUSE) =>
            {
                self.arm_thread(deadline);
            }
            Phase::Asleep(by) => {
                let found_paused = *by == WakesBy::Thread && !CLOCK_MAY_PAUSE;
                if *by == WakesBy::Watched {
                    self.watch_driver(&mut state);
                }
                self.rouse(state);
                return found_paused;
            }
        }
        false
    }

    /// What was to come at `before` was taken out or put off, on a clock that would jump there, and the shard has published
    /// what is left: the driver's alarm is to be moved.
    pub(crate) fn put_off(&self, before: Tick) {
        // The driver wakes for something earlier, or sleeps by hand.
        if self.armed() < before {
            return;
        }
        let mut state = self.lock();
        match &mut state.phase {
            Phase::Awake { again, .. } => *again = true,
            Phase::Asleep(_) if self.armed() >= before => self.rouse(state),
            Phase::Closed | Phase::Asleep(_) => {}
        }
    }

    /// The driver's own alarm has gone off, as is found at the time `now`.
    pub(crate) fn went_off(&self, now: Tick) {
        let mut state = self.lock();
        if let Phase::Asleep(_) = state.phase {
            state.rung_for = self.armed().min(now);
        }
    }

    /// Has a sleeping driver polled again, whatever it waits for.
    pub(crate) fn wake_driver(&self) {
        let state = self.lock();
        if let (Phase::Asleep(_), false) = (state.phase, self.is_driverless()) {
            self.rouse(state);
        }
    }

    fn rouse(&self, mut state: MutexGuard<'_, State>) {
        self.expect_driver(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// From now on the driver is expected to begin a turn.
    fn expect_driver(&self, state: &mut State) {
        self.publish(Tick::MAX, Tick::MAX);
        state.phase = Phase::Awake { again: false, expected: true };
    }

    /// Has the alarm thread see to it that the driver comes.
    fn watch_driver(&self, state: &mut State) {
        if !STANDS_IN {
            return;
        }
        state.rung_at = sync::now();
        // Where timers are dense, the next booking is known already, and the thread need not be told of it.
        let dense = state.pause >= DENSE;
        self.book(if dense { self.system_instant(state.rung_for + state.pause) } else { state.rung_at + GRACE });
    }

    /// The alarm thread's call: says who is to act on it.
    pub(crate) fn ring(&self) -> Rung {
        let mut state = self.lock();
        match state.phase {
            // The booking that rings was replaced while the thread had it in hand, or comes from before a fork.
            Phase::Asleep(WakesBy::Thread) if self.armed() > self.now() => {
                self.arm_thread(self.armed());
                Rung::Served
            }
            Phase::Asleep(WakesBy::Thread) => {
                // There is none, or it was woken the last time and not seen since.
                if self.is_driverless() || (STANDS_IN && state.waker.is_none()) {
                    return Rung::Overdue;
                }
                state.rung_for = self.armed();
                self.watch_driver(&mut state);
                self.expect_driver(&mut state);
                state.waker.take().map_or(Rung::Served, Rung::Wake)
            }
            Phase::Asleep(WakesBy::NowAndThen) => {
                self.expect_driver(&mut state);
                state.waker.take().map_or(Rung::Served, Rung::Wake)
            }
            Phase::Awake { expected: true, .. } if self.is_driverless() => Rung::Overdue,
            Phase::Awake { expected: true, .. } if STANDS_IN => {
                let patience = state.rung_at + GRACE;
                if sync::now() >= patience {
                    return Rung::Overdue;
                }
                self.book(patience);
                Rung::Served
            }
            Phase::Asleep(WakesBy::Watched) if STANDS_IN && self.armed() < Tick::MAX => {
                let patience = self.system_instant(self.armed()) + WATCHED_GRACE;
                if sync::now() >= patience {
                    return Rung::Overdue;
                }
                self.book(patience);
                Rung::Served
            }
            Phase::Closed | Phase::Awake { .. } | Phase::Asleep(_) => Rung::Served,
        }
    }

    /// The driver is about to look at the shards; `waker` is how to have it polled again.
    pub(crate) fn begin_turn(&self, waker: DriverWaker) {
        let mut state = self.lock();
        if let Phase::Closed = state.phase {
            return;
        }
        self.publish(Tick::MAX, Tick::MAX);
        state.phase = Phase::Awake { again: false, expected: false };
        let before = state.waker.replace(waker);
        drop(state);
        drop(before);
    }

    /// A stand-in is about to look at the shards by the time `now`. `false` if the timer has ended.
    pub(crate) fn begin_turn_as_stand_in(&self, now: Tick) -> bool {
        let mut state = self.lock();
        if let Phase::Closed = state.phase {
            return false;
        }
        if !self.is_driverless() {
            self.doubtful.fetch_max(now.0, SeqCst);
        }
        self.publish(Tick::MAX, Tick::MAX);
        state.phase = Phase::Awake { again: false, expected: true };
        true
    }

    /// The driver has turned by the time `now` of its own clock. If that has come to what stand-ins went by, a poll need
    /// not look at the clock any more.
    pub(crate) fn driver_went_by(&self, now: Tick) {
        let doubtful = self.doubtful.load(SeqCst);
        if doubtful > 0 && doubtful <= now.0 {
            // If another stand-in has turned meanwhile, the doubt stays.
            let _ = self.doubtful.compare_exchange(doubtful, 0, SeqCst, SeqCst);
        }
    }

    /// A stand-in was not through, and the alarm thread rings again once it has rung what else is due. What is left undone,
    /// no other turn may have seen.
    pub(crate) fn ring_again(&self) {
        let state = self.lock();
        if let Phase::Awake { expected: true, .. } = state.phase {
            self.book(sync::now());
        }
        self.look_by(state, Tick::ZERO);
    }

    /// A turn that went by the time `now` has looked. It wants the next when `earliest` is reached, but lets timers gather
    /// for a `pause` first. Returns when it will be woken at the latest; `None` where it has to look again.
    pub(crate) fn end_turn(&self, now: Tick, earliest: Tick, pause: Ticks, by: WakesBy) -> Option<Tick> {
        let mut state = self.lock();
        #[cfg(feature = "test-util")]
        let by = if self.is_by_hand() { WakesBy::Hand } else { by };
        let not_before = match pause {
            Ticks(0) => Tick::ZERO,
            _ => (state.rung_for + pause).max(now + Ticks(pause.0 / 2)),
        };
        let earliest = earliest.max(not_before);
        match state.phase {
            Phase::Closed => return Some(Tick::MAX),
            // It stays so until a turn begins, which will look: another that is on may have looked too early as well.
            Phase::Awake { again: true, .. } => return None,
            // Another turn has ended meanwhile, and may know of something earlier.
            Phase::Asleep(WakesBy::Thread) if self.armed.load(SeqCst) <= earliest.0 => return Some(earliest),
            Phase::Awake { .. } | Phase::Asleep(_) => {}
        }
        state.phase = Phase::Asleep(by);
        state.not_before = not_before;
        state.pause = pause;
        match by {
            WakesBy::Thread => self.arm_thread(earliest),
            WakesBy::Watched if STANDS_IN && earliest < Tick::MAX => {
                self.publish(earliest, Tick::MAX);
                self.book(self.system_instant(earliest) + WATCHED_GRACE);
            }
            #[cfg(feature = "test-util")]
            WakesBy::Hand => self.publish(Tick::ZERO, Tick::MAX),
            WakesBy::NowAndThen if earliest < Tick::MAX => {
                self.publish(earliest, Tick::MAX);
                self.book(sync::now() + NOW_AND_THEN);
            }
            WakesBy::Watched | WakesBy::NowAndThen | WakesBy::Itself => {
                self.publish(earliest, Tick::MAX);
                thread::cancel(self.id);
            }
        }
        Some(earliest)
    }

    /// A turn stops before it is through, and the driver has asked to be polled again.
    pub(crate) fn interrupt_turn(&self) {
        let mut state = self.lock();
        if let Phase::Awake { expected, .. } = &mut state.phase {
            *expected = true;
            if instant::clock_is_the_systems() {
                self.watch_driver(&mut state);
            }
        }
    }

    /// Whether a deadline is certainly not reached yet, found without reading a clock.
    #[inline]
    pub(crate) fn is_surely_future(&self, deadline: Tick) -> bool {
        !CLOCK_MAY_PAUSE && deadline.0 > self.certain.load(SeqCst)
    }

    /// The tick that the driver sleeps until; `Tick::MAX` while it is awake.
    pub(crate) fn armed(&self) -> Tick {
        Tick(self.armed.load(SeqCst))
    }

    /// Whether a poll has to look at its clock before it believes that it was fired: since a stand-in turned, and until the
    /// driver has turned at a later time.
    #[inline]
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(SeqCst) > 0
    }

    /// Has the alarm thread ring at `deadline`; the lock is held.
    fn arm_thread(&self, deadline: Tick) {
        self.publish(deadline, deadline + ALARM_MAY_LAG);
        if deadline == Tick::MAX {
            thread::cancel(self.id);
        } else {
            self.book(self.system_instant(deadline));
        }
    }

    /// When the alarm thread is to ring.
    #[cfg(test)]
    pub(crate) fn booked(&self) -> Option<Instant> {
        thread::booked(self.id)
    }

    fn publish(&self, armed: Tick, certain: Tick) {
        self.armed.store(armed.0, SeqCst);
        self.certain.store(certain.0, SeqCst);
    }

    fn book(&self, at: Instant) {
        if let Some(bell) = self.bell.get() {
            thread::book(self.id, at, *bell);
        }
    }
}

// Bells ring outside of the lock, and what they find is whole whatever has panicked.
impl std::panic::RefUnwindSafe for Signal {}

#[cfg(test)]
mod tests;
