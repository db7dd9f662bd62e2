//! [`Parker`]: the handshake between whoever waits for the earliest deadline and those that register deadlines.
//!
//! A mistake here hangs a program. Whoever waits publishes the tick at which a look begins by itself (`next_wake`).
//! Whoever registers an earlier deadline wakes the waiter or moves its alarm. While somebody looks for the earliest
//! deadline the tick is "never", so every registration takes the lock and makes the look repeat.
//!
//! A timer and a map's consumer each use one. `P` is what they keep under the same lock.
//
// Invariants
// 1. Order of a look: publish "never", look, publish the earliest. Order of a registration: publish the new earliest
//    deadline where the look finds it, then read `next_wake`. All of these are sequentially consistent, so a
//    registration that the look missed reads "never" and takes the lock.
// 2. `next_wake` changes only under the lock; reading it is a filter in front of the lock.
// 3. One looks at a time. Who claims the look meanwhile makes it repeat, and so does a registration.
// 4. A [`Next`] changes only under the lock of its wheel, and is never later than the wheel's earliest deadline.
// 5. Nobody is woken, and no waker is cloned or dropped, under the lock.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::util::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;

pub(crate) struct Parker<P> {
    next_wake: AtomicU64,
    state: Mutex<ParkerState<P>>,
}

struct ParkerState<P> {
    phase: Phase,
    beside: P,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A look will come without a registration, or nobody waits. `next_wake` lets no registration through.
    Away,
    /// Somebody looks. `again`: it has to repeat.
    Looking { again: bool },
    /// Nobody looks until `next_wake`.
    Idle,
}

/// A parker whose lock is held. Dereferences to what is kept beside it.
pub(crate) struct Locked<'a, P> {
    next_wake: &'a AtomicU64,
    state: MutexGuard<'a, ParkerState<P>>,
}

impl<P> Parker<P> {
    /// A parker on which nobody waits yet.
    pub(crate) fn new(beside: P) -> Self {
        Parker { next_wake: AtomicU64::new(0), state: Mutex::new(ParkerState { phase: Phase::Away, beside }) }
    }

    /// The tick at which a look begins by itself; `Tick::MAX` during a look, tick 0 if nothing needs to be woken.
    #[inline]
    pub(crate) fn next_wake(&self) -> Tick {
        Tick(self.next_wake.load(SeqCst))
    }

    pub(crate) fn lock(&self) -> Locked<'_, P> {
        // Nothing that can panic runs under this lock.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { next_wake: &self.next_wake, state }
    }

    /// A deadline was registered and a look can find it. Returns whether the next look may come too late for it. If so,
    /// take the lock and ask [`Locked::registered`].
    #[inline]
    pub(crate) fn is_too_late_for(&self, deadline: Tick) -> bool {
        deadline < self.next_wake()
    }
}

impl<P> Locked<'_, P> {
    pub(crate) fn phase(&self) -> Phase {
        self.state.phase
    }

    fn publish(&self, next_wake: Tick) {
        self.next_wake.store(next_wake.0, SeqCst);
    }

    /// Begins a look, in place of any before.
    pub(crate) fn look(&mut self) {
        self.publish(Tick::MAX);
        self.state.phase = Phase::Looking { again: false };
    }

    /// Begins a look unless somebody else looks, who then looks again. Returns whether it does.
    pub(crate) fn claim(&mut self) -> bool {
        if self.look_again() {
            return false;
        }
        self.look();
        true
    }

    /// Makes the look repeat, if there is one. Returns whether there is.
    pub(crate) fn look_again(&mut self) -> bool {
        let Phase::Looking { again } = &mut self.state.phase else { return false };
        *again = true;
        true
    }

    /// A look has found `earliest`. Returns `false` if it has to repeat.
    pub(crate) fn park(&mut self, earliest: Tick) -> bool {
        if self.state.phase == (Phase::Looking { again: true }) {
            self.state.phase = Phase::Looking { again: false };
            return false;
        }
        self.publish(earliest);
        self.state.phase = Phase::Idle;
        true
    }

    /// The alarm was moved, so that the next look comes earlier.
    pub(crate) fn wake_earlier(&mut self, deadline: Tick) {
        self.publish(deadline);
    }

    /// Nobody looks or waits any more, or somebody was woken to look.
    pub(crate) fn leave(&mut self) {
        self.publish(Tick::ZERO);
        self.state.phase = Phase::Away;
    }

    /// `deadline` was registered. Returns whether the next look would come too late for it; a look that is made repeats.
    pub(crate) fn registered(&mut self, deadline: Tick) -> bool {
        !self.look_again() && self.phase() == Phase::Idle && deadline.0 < self.next_wake.load(SeqCst)
    }
}

impl<P> Deref for Locked<'_, P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.state.beside
    }
}

impl<P> DerefMut for Locked<'_, P> {
    fn deref_mut(&mut self) -> &mut P {
        &mut self.state.beside
    }
}

/// When a wheel next has work, readable without its lock: where a look finds what was registered.
#[derive(Debug)]
pub(crate) struct Next(AtomicU64);

impl Next {
    /// For a wheel with no entries.
    pub(crate) fn never() -> Self {
        Next(AtomicU64::new(u64::MAX))
    }

    /// `Tick::MAX` if there is no entry.
    #[inline]
    pub(crate) fn get(&self) -> Tick {
        Tick(self.0.load(SeqCst))
    }

    /// An entry was registered. Publishes its deadline if it is the earliest, and returns whether it is.
    #[inline]
    pub(crate) fn registered(&self, deadline: Tick) -> bool {
        let is_earliest = deadline.0 < self.0.load(Relaxed);
        if is_earliest {
            self.0.store(deadline.0, SeqCst);
        }
        is_earliest
    }

    /// Publishes the wheel's next expiration.
    pub(crate) fn publish(&self, next: Option<Tick>) -> Tick {
        let next = next.unwrap_or(Tick::MAX);
        self.0.store(next.0, SeqCst);
        next
    }
}
