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
//!    set whatever the alarm thread publishes in its place.
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

use crate::alarm::thread::{self, Bell, BellId};
use crate::clock;
use crate::contain::contain;
use crate::instant;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use crate::sync::{self, Mutex, MutexGuard};
use crate::tick::{Tick, Ticks};

/// How late the alarm thread may be before [`Signal::is_surely_future`] answers a poll wrongly: 134 ms. Even then only a
/// sleep that is polled after its deadline is told to wait, and it is woken as soon as the thread runs.
const ALARM_MAY_LAG: Ticks = Ticks(1 << 27);

/// How long a driver may take to come round once it was woken, before the alarm thread stands in for it.
const GRACE: Duration = Duration::from_millis(1);

/// The same where the driver's own alarm fires what is due without it, so that only the next alarm waits for it.
const WATCHED_GRACE: Duration = Duration::from_millis(5);

/// A pause from which on timers are dense.
const DENSE: Ticks = Ticks(250_000);

/// Whether a test may pause or advance tokio's clock at any time. Elsewhere a paused clock is noticed now and then.
pub(crate) const CLOCK_MAY_PAUSE: bool = cfg!(feature = "test-util");

/// Whether the alarm thread does. It fires by the system's clock.
const STANDS_IN: bool = !CLOCK_MAY_PAUSE;

/// What a driver waits on.
pub(crate) struct Signal {
    /// The tick that the driver will wake at; `Tick::MAX` while it is awake.
    armed: AtomicU64,
    /// No deadline after this tick can have passed; `Tick::MAX` where that is not known.
    certain: AtomicU64,
    /// Whether the alarm thread has ever stood in: it fires by the system's clock, which may not be that of a poll.
    doubtful: AtomicBool,
    state: Mutex<State>,
    id: BellId,
    bell: OnceLock<&'static dyn Bell>,
    /// What a manual clock shows; `Tick::MAX` where the clock is the runtime's.
    #[cfg(feature = "test-util")]
    manual: AtomicU64,
    /// How far the runtime's clock is ahead of the system's, modulo 2^64: it was paused once, and runs again.
    #[cfg(feature = "test-util")]
    ahead: AtomicU64,
}

struct State {
    phase: Phase,
    waker: Option<Waker>,
    /// The driver is not to be woken before this, whatever is armed: it lets timers gather.
    not_before: Tick,
    /// How long it let them gather the last time.
    pause: Ticks,
    /// The tick that it was last woken for, and when that was.
    rung_for: Tick,
    rung_at: Instant,
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
    /// An alarm of the driver's own, on a clock that the alarm thread does not know, or less precise than the thread.
    Itself,
}

/// What the alarm thread is to do, having rung.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rung {
    /// Nothing more.
    Served,
    /// Turn the wheels itself: the driver was woken before and has not come round.
    Overdue,
}

impl Signal {
    pub(crate) fn new() -> Self {
        static NEXT: Counter = Counter::new(0);
        Signal {
            armed: AtomicU64::new(u64::MAX),
            certain: AtomicU64::new(u64::MAX),
            doubtful: AtomicBool::new(false),
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
            ahead: AtomicU64::new(0),
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
        if let ahead @ 1.. = self.ahead.load(SeqCst) {
            return Tick(clock::system_now().0.wrapping_add(ahead));
        }
        clock::now()
    }

    /// When a tick comes by the system's clock.
    #[cfg_attr(not(feature = "test-util"), allow(clippy::unused_self))]
    pub(crate) fn instant_of(&self, tick: Tick) -> instant::Instant {
        #[cfg(feature = "test-util")]
        if tick < Tick::MAX {
            return clock::instant_of(Tick(tick.0.wrapping_sub(self.ahead.load(SeqCst))));
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

    /// When a tick comes by the system's clock, for the alarm thread.
    fn system_instant(&self, tick: Tick) -> Instant {
        self.instant_of(tick).into_std()
    }

    /// A driver is about to be spawned; `bell` is what the alarm thread rings for it.
    pub(crate) fn open(&self, bell: &'static dyn Bell) {
        self.bell.get_or_init(|| bell);
        #[cfg(feature = "test-util")]
        {
            self.manual.store(u64::MAX, SeqCst);
            self.ahead.store(0, SeqCst);
        }
        let mut state = self.lock();
        (state.not_before, state.pause, state.rung_for) = (Tick::ZERO, Ticks(0), Tick::ZERO);
        self.expect_driver(&mut state);
        if instant::clock_is_the_systems() {
            self.watch_driver(&mut state);
        }
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
            // What waits on the timer is yet to be told.
            contain(|| waker.wake());
        }
    }

    /// A deadline was inserted, earlier than any other of its shard, and the shard has published it.
    #[inline]
    pub(crate) fn inserted(&self, deadline: Tick) {
        if deadline.0 < self.armed.load(SeqCst) {
            self.poke(deadline);
        }
    }

    #[cold]
    fn poke(&self, deadline: Tick) {
        self.look_by(self.lock(), deadline);
    }

    /// Has the driver look when `deadline` is reached.
    fn look_by(&self, mut state: MutexGuard<'_, State>, deadline: Tick) {
        let deadline = deadline.max(state.not_before);
        match &mut state.phase {
            Phase::Closed => {}
            Phase::Awake { again, .. } => *again = true,
            Phase::Asleep(_) if deadline.0 >= self.armed.load(SeqCst) => {}
            // The driver sleeps on: only the alarm is moved. Not for a clock that was, or may any time be, paused.
            Phase::Asleep(WakesBy::Thread) if instant::clock_is_the_systems() && !CLOCK_MAY_PAUSE => {
                self.arm_thread(deadline);
            }
            Phase::Asleep(by) => {
                if *by == WakesBy::Watched {
                    self.watch_driver(&mut state);
                }
                self.rouse(state);
            }
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
        if let Phase::Asleep(_) = state.phase {
            self.rouse(state);
        }
    }

    fn rouse(&self, mut state: MutexGuard<'_, State>) {
        self.expect_driver(&mut state);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            // It is no fault of whoever arms a timer or shuts it down.
            contain(|| waker.wake());
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

    /// The alarm thread's call: wakes the driver, or finds that it was woken and has not come.
    pub(crate) fn ring(&self) -> Rung {
        let mut state = self.lock();
        match state.phase {
            // The booking that rings was replaced while the thread had it in hand.
            Phase::Asleep(WakesBy::Thread) if self.armed() > self.now() => Rung::Served,
            Phase::Asleep(WakesBy::Thread) => {
                // Woken the last time, and not seen since.
                if STANDS_IN && state.waker.is_none() {
                    return Rung::Overdue;
                }
                state.rung_for = self.armed();
                self.watch_driver(&mut state);
                self.rouse(state);
                Rung::Served
            }
            Phase::Awake { expected: true, .. } if STANDS_IN => {
                let patience = state.rung_at + GRACE;
                if sync::now() >= patience {
                    return Rung::Overdue;
                }
                self.book(patience);
                Rung::Served
            }
            Phase::Asleep(WakesBy::Watched)
                if STANDS_IN && self.system_instant(self.armed()) + WATCHED_GRACE <= sync::now() =>
            {
                Rung::Overdue
            }
            Phase::Closed | Phase::Awake { .. } | Phase::Asleep(_) => Rung::Served,
        }
    }

    /// The driver is about to look at the shards; `waker` is how to have it polled again.
    pub(crate) fn begin_turn(&self, waker: Waker) {
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

    /// The alarm thread is about to look at the shards, in the driver's place. `false` where the timer has ended.
    pub(crate) fn begin_turn_as_stand_in(&self) -> bool {
        let mut state = self.lock();
        if let Phase::Closed = state.phase {
            return false;
        }
        self.doubtful.store(true, SeqCst);
        self.publish(Tick::MAX, Tick::MAX);
        state.phase = Phase::Awake { again: false, expected: true };
        true
    }

    /// The alarm thread was not through, and rings again once it has rung what else is due. What it leaves undone, no
    /// other turn may have seen.
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
            WakesBy::Watched | WakesBy::Itself => {
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

    /// Whether a poll has to look at its clock before it believes that it was fired.
    #[inline]
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(SeqCst)
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
mod tests {
    use super::*;

    /// An alarm may go off late, or for nothing, while the driver is awake and its next wake-up is not known.
    #[test]
    fn an_alarm_that_goes_off_out_of_turn_does_not_put_the_next_one_off() {
        let signal = Signal::new();
        signal.lock().phase = Phase::Awake { again: false, expected: true };
        let now = clock::now();
        let (soon, pause) = (now + Ticks(1_000_000), Ticks(500_000));
        signal.went_off(now);
        assert_eq!(signal.end_turn(now, soon, pause, WakesBy::Watched), Some(soon));
        signal.went_off(now);
        signal.begin_turn(Waker::noop().clone());
        assert_eq!(signal.end_turn(now, soon, pause, WakesBy::Watched), Some(soon));
    }

    fn end_of_a_turn_that_saw_nothing(signal: &Signal) -> Option<Tick> {
        signal.end_turn(clock::now(), Tick::MAX, Ticks(0), WakesBy::Thread)
    }

    /// Both had looked when it was armed. The alarm thread only rings again, and what it leaves to the driver, the driver
    /// has to look for.
    #[test]
    fn what_two_turns_have_missed_neither_sleeps_through() {
        let signal = Signal::new();
        signal.lock().phase = Phase::Awake { again: false, expected: true };
        assert!(signal.begin_turn_as_stand_in());
        signal.begin_turn(Waker::noop().clone());
        signal.inserted(Tick(1));
        assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None, "the alarm thread's");
        signal.ring_again();
        assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None, "the driver's");
    }

    /// The alarm thread would have seen what the driver missed, but was not through.
    #[test]
    fn what_the_alarm_thread_leaves_undone_nobody_sleeps_through() {
        for ends_first in [false, true] {
            let signal = Signal::new();
            signal.lock().phase = Phase::Awake { again: false, expected: true };
            signal.begin_turn(Waker::noop().clone());
            signal.inserted(Tick(1));
            assert!(signal.begin_turn_as_stand_in());
            if ends_first {
                assert_eq!(end_of_a_turn_that_saw_nothing(&signal), Some(Tick::MAX));
                signal.ring_again();
                // The alarm is moved, or the driver woken.
                assert!(signal.armed() <= Tick(1) || signal.lock().waker.is_none());
            } else {
                signal.ring_again();
                assert_eq!(end_of_a_turn_that_saw_nothing(&signal), None);
            }
        }
    }
}
