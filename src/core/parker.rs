//! [`Parker`]: the handshake between a sleeper that waits for the earliest deadline and those that register deadlines.
//!
//! A mistake here hangs a program. The sleeper publishes the tick at which it will wake (`next_wake`). Whoever
//! registers an earlier deadline wakes it or moves its alarm. While the sleeper looks for the earliest deadline it
//! publishes "never", so every registration takes the lock and makes it look again.
//!
//! A timer's driver and a map's consumer each use one. `P` is what they keep under the same lock.
//
// Invariants
// 1. Order of a look: publish "never", look, publish the earliest. Order of a registration: publish the new earliest
//    deadline where the look finds it, then read `next_wake`. All of these are sequentially consistent, so a
//    registration that the look missed reads "never" and takes the lock.
// 2. `next_wake` changes only under the lock; reading it is a filter in front of the lock.
// 3. If two looks overlap, the one that ends last only makes the wake-up earlier.
// 4. A registration during a look is not lost: the look does not end in sleep, unless another look has begun since.
// 5. Nobody is woken, and no waker is cloned or dropped, under the lock.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use crate::util::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;

pub(crate) struct Parker<P> {
    next_wake: AtomicU64,
    state: Mutex<State<P>>,
}

struct State<P> {
    phase: Phase,
    beside: P,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody sleeps, or the sleeper will look without being woken. `next_wake` lets no registration through.
    Away,
    /// The sleeper looks, or is about to. `again`: a deadline was registered since, which the look may have missed.
    Looking { again: bool },
    /// The sleeper sleeps until `next_wake`.
    Parked,
}

/// A parker whose lock is held. Dereferences to what is kept beside it.
pub(crate) struct Locked<'a, P> {
    next_wake: &'a AtomicU64,
    state: MutexGuard<'a, State<P>>,
}

impl<P> Parker<P> {
    /// A parker on which nobody sleeps yet.
    pub(crate) fn new(beside: P) -> Self {
        Parker { next_wake: AtomicU64::new(0), state: Mutex::new(State { phase: Phase::Away, beside }) }
    }

    /// The tick at which the sleeper wakes; `Tick::MAX` while it looks, tick 0 while it is away.
    #[inline]
    pub(crate) fn next_wake(&self) -> Tick {
        Tick(self.next_wake.load(SeqCst))
    }

    pub(crate) fn lock(&self) -> Locked<'_, P> {
        // Nothing that can panic runs under this lock.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { next_wake: &self.next_wake, state }
    }

    /// A deadline was registered and a look can find it. Returns whether the sleeper may wake too late for it. If so,
    /// take the lock: [`Locked::registered`] says what to do.
    #[inline]
    pub(crate) fn is_too_late_for(&self, deadline: Tick) -> bool {
        deadline < self.next_wake()
    }
}

/// What a registration finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing to do: the sleeper wakes in time, or looks again.
    Served,
    /// The sleeper would sleep too long.
    Sleeper,
}

impl<P> Locked<'_, P> {
    pub(crate) fn phase(&self) -> Phase {
        self.state.phase
    }

    fn publish(&self, next_wake: Tick) {
        self.next_wake.store(next_wake.0, SeqCst);
    }

    /// A look begins.
    pub(crate) fn look(&mut self) {
        self.publish(Tick::MAX);
        self.state.phase = Phase::Looking { again: false };
    }

    /// Makes the current look repeat.
    pub(crate) fn look_again(&mut self) {
        self.publish(Tick::MAX);
        self.state.phase = Phase::Looking { again: true };
    }

    /// A look has found `earliest`. Returns `false` if it has to repeat.
    pub(crate) fn park(&mut self, earliest: Tick) -> bool {
        if let Phase::Looking { again: true } = self.state.phase {
            return false;
        }
        self.publish(earliest);
        self.state.phase = Phase::Parked;
        true
    }

    /// Whether the sleeper sleeps, until `earliest` at most.
    pub(crate) fn wakes_by(&self, earliest: Tick) -> bool {
        self.state.phase == Phase::Parked && self.next_wake.load(SeqCst) <= earliest.0
    }

    /// The sleeper's alarm was moved, so it wakes earlier.
    pub(crate) fn wake_earlier(&mut self, deadline: Tick) {
        self.publish(deadline);
    }

    /// Nobody sleeps any more.
    pub(crate) fn leave(&mut self) {
        self.publish(Tick::ZERO);
        self.state.phase = Phase::Away;
    }

    /// `deadline` was registered: what it finds here.
    pub(crate) fn registered(&mut self, deadline: Tick) -> Found {
        match &mut self.state.phase {
            Phase::Looking { again } => *again = true,
            Phase::Parked if deadline.0 < self.next_wake.load(SeqCst) => return Found::Sleeper,
            Phase::Away | Phase::Parked => {}
        }
        Found::Served
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
