//! [`Parker`]: the handshake between a thread that waits for the earliest deadline and threads that register deadlines.
//!
//! A mistake here hangs a program. The waiter *scans* for the earliest deadline, and publishes in `next_wake` when its
//! next scan begins. A thread that registers an earlier deadline wakes the waiter or moves its alarm. During a scan
//! `next_wake` is "never": every registration then takes the lock and makes the scan repeat.
//!
//! Each timer and each map's consumer has a parker. `P` is further state under the same lock.
//
// Invariants
// 1. A scan publishes "never", scans, then publishes the earliest deadline. A registration publishes its deadline where
//    the scan finds it, then reads `next_wake`. All of these accesses are sequentially consistent: a registration that
//    the scan missed reads "never" and takes the lock.
// 2. `next_wake` changes only under the lock. Reading it lets most registrations skip the lock.
// 3. One thread scans at a time. If another claims the scan, or a deadline is registered, the scan repeats, or the
//    thread that is called scans again.
// 4. A [`Next`] changes only under the lock of its wheel, and is never later than the wheel's earliest deadline.
// 5. No task is woken, and no waker is cloned or dropped, under the lock.
//
// They hold because each side stores before it loads, and of two such threads at least one sees the other's store. All
// else changes under the lock.

use std::ops::{Deref, DerefMut};

use crate::util::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard, unpoisoned};
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
    /// A scan is about to begin anyway, or nothing waits. Registrations take no lock.
    Away,
    /// A scan is in progress.
    Scanning(Then),
    /// No scan begins before `next_wake`.
    Idle,
    /// The waiter is gone. No scan begins any more.
    Closed,
}

/// What follows a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Park,
    Repeat,
    /// The owner of the scan calls another thread to scan again.
    Call,
}

/// A locked parker. Dereferences to the further state.
pub(crate) struct Locked<'a, P> {
    next_wake: &'a AtomicU64,
    state: MutexGuard<'a, ParkerState<P>>,
}

impl<P> Parker<P> {
    pub(crate) fn new(beside: P) -> Self {
        Parker { next_wake: AtomicU64::new(0), state: Mutex::new(ParkerState { phase: Phase::Away, beside }) }
    }

    /// The tick at which the next scan begins; `Tick::MAX` during a scan, tick 0 while one is certain to begin or nobody
    /// waits.
    #[inline]
    pub(crate) fn next_wake(&self) -> Tick {
        Tick(self.next_wake.load(SeqCst))
    }

    pub(crate) fn lock(&self) -> Locked<'_, P> {
        // Nothing that can panic runs under this lock.
        let state = unpoisoned(self.state.lock());
        Locked { next_wake: &self.next_wake, state }
    }

    /// Call this after registering `deadline`. Returns whether the next scan may be too late for it. If so, lock and
    /// call [`Locked::note`].
    #[inline]
    pub(crate) fn is_too_late_for(&self, deadline: Tick) -> bool {
        deadline < self.next_wake()
    }
}

impl<P> Locked<'_, P> {
    pub(crate) fn phase(&self) -> Phase {
        self.state.phase
    }

    /// Moves the next scan. Move the alarm, too.
    pub(crate) fn publish(&self, next_wake: Tick) {
        self.next_wake.store(next_wake.0, SeqCst);
    }

    /// Begins a scan, replacing any other.
    pub(crate) fn scan(&mut self) {
        self.publish(Tick::MAX);
        self.state.phase = Phase::Scanning(Then::Park);
    }

    /// Begins a scan, or makes the current one repeat. Returns whether it began one.
    pub(crate) fn claim(&mut self) -> bool {
        if self.scan_again() || self.phase() == Phase::Closed {
            return false;
        }
        self.scan();
        true
    }

    /// Makes the current scan repeat. Returns whether there is one.
    pub(crate) fn scan_again(&mut self) -> bool {
        let Phase::Scanning(then) = &mut self.state.phase else { return false };
        if *then == Then::Park {
            *then = Then::Repeat;
        }
        true
    }

    /// Makes the current scan end with a call. Returns whether there is one.
    pub(crate) fn call_after_scan(&mut self) -> bool {
        let scans = matches!(self.phase(), Phase::Scanning(_));
        if scans {
            self.state.phase = Phase::Scanning(Then::Call);
        }
        scans
    }

    /// Ends a scan that found `earliest`. Returns `false` if it has to repeat.
    pub(crate) fn park(&mut self, earliest: Tick) -> bool {
        if self.phase() == Phase::Scanning(Then::Repeat) {
            self.state.phase = Phase::Scanning(Then::Park);
            return false;
        }
        self.publish(earliest);
        self.state.phase = Phase::Idle;
        true
    }

    /// Called when no thread scans or waits any more, or the waiter was woken to scan.
    pub(crate) fn leave(&mut self) {
        self.publish(Tick::ZERO);
        self.state.phase = Phase::Away;
    }

    /// Lets no further scan begin, until the waiter [leaves](Self::leave) again.
    pub(crate) fn close(&mut self) {
        self.leave();
        self.state.phase = Phase::Closed;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.phase() == Phase::Closed
    }

    /// Notes that `deadline` was registered: a scan in progress repeats. Returns whether the next would be too late for it.
    pub(crate) fn note(&mut self, deadline: Tick) -> bool {
        !self.scan_again() && self.phase() == Phase::Idle && deadline.0 < self.next_wake.load(SeqCst)
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

/// When a wheel next has work, readable without its lock. This is where a scan finds registered deadlines.
#[derive(Debug)]
pub(crate) struct Next(AtomicU64);

impl Next {
    pub(crate) fn never() -> Self {
        Next(AtomicU64::new(u64::MAX))
    }

    /// `Tick::MAX` if the wheel is empty.
    #[inline]
    pub(crate) fn get(&self) -> Tick {
        Tick(self.0.load(SeqCst))
    }

    /// Publishes the deadline of a new entry if it is the earliest, and returns whether it is.
    #[inline]
    pub(crate) fn lower_to(&self, deadline: Tick) -> bool {
        let is_earliest = deadline.0 < self.0.load(Relaxed);
        if is_earliest {
            self.0.store(deadline.0, SeqCst);
        }
        is_earliest
    }

    pub(crate) fn publish(&self, next: Option<Tick>) -> Tick {
        let next = next.unwrap_or(Tick::MAX);
        self.0.store(next.0, SeqCst);
        next
    }
}
