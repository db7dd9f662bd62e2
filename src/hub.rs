//! A timer's shards and signal, and the turn that fires what is due in them.
//!
//! A hub is never freed: when its timer goes it waits, empty, for the next timer. So a sleep can point to its shard
//! without counting references, which costs as much as the shard's lock. There are never more hubs than there were
//! timers at one time.
//!
//! Invariants
//! 1. A hub serves one timer at a time, named by its epoch; an epoch is used once.
//! 2. A shard with nothing due is not locked.
//! 3. Driver and alarm thread may turn at the same time; each entry is fired by one of them.
//!
//! Must not know: tasks, futures.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::alarm::thread::{self, Bell};
use crate::shard::{Batch, Counts, Epoch, Lease, Shard};
use crate::signal::{Rung, Signal, WakesBy};
use crate::tick::{Tick, Ticks};

pub(crate) struct Hub {
    pub(crate) signal: &'static Signal,
    shards: Vec<&'static Shard>,
    epoch: AtomicU32,
    turns: AtomicU64,
}

/// The hubs that serve no timer at present.
static SPARE: Mutex<Vec<&'static Hub>> = Mutex::new(Vec::new());

/// How much a turn may do.
#[derive(Clone, Copy)]
pub(crate) struct Allowance {
    /// Wakers to wake.
    pub(crate) wakes: usize,
    /// Holds of a shard's lock.
    pub(crate) holds: usize,
}

/// What a turn has done.
pub(crate) struct Fired {
    /// The time that the turn went by.
    pub(crate) at: Tick,
    pub(crate) wakes: usize,
    /// Whether everything due was fired.
    pub(crate) all: bool,
}

impl Allowance {
    pub(crate) const UNBOUNDED: Allowance = Allowance { wakes: usize::MAX, holds: usize::MAX };
}

impl Hub {
    /// A hub for a new timer, with that many shards, and the epoch that names the timer. Deadlines are rounded up to
    /// multiples of two to the power of `grain` ticks.
    ///
    /// # Panics
    /// Where the system refuses the alarm thread.
    pub(crate) fn open(shards: usize, grain: u32) -> (&'static Hub, Epoch) {
        thread::start();
        let (hub, epoch) = Hub::take(shards, grain);
        hub.signal.open(hub);
        (hub, epoch)
    }

    /// As [`open`](Hub::open), on a manual clock that shows `now`.
    #[cfg(feature = "test-util")]
    pub(crate) fn open_by_hand(now: Tick, shards: usize, grain: u32) -> (&'static Hub, Epoch) {
        let (hub, epoch) = Hub::take(shards, grain);
        hub.signal.open_by_hand(now);
        (hub, epoch)
    }

    /// A manual clock shows another time.
    #[cfg(feature = "test-util")]
    pub(crate) fn show(&self, epoch: Epoch, now: Tick) {
        if self.serves(epoch) {
            self.signal.show(now);
        }
    }

    fn take(shards: usize, grain: u32) -> (&'static Hub, Epoch) {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spare.iter().position(|hub| hub.shards.len() == shards);
        let fitting = fitting.map(|at| spare.swap_remove(at));
        drop(spare);
        let hub = fitting.unwrap_or_else(|| Hub::new(shards));
        let epoch = Epoch(hub.epoch.load(Ordering::SeqCst));
        hub.turns.store(0, Ordering::Relaxed);
        for shard in &hub.shards {
            shard.open(epoch, grain);
        }
        (hub, epoch)
    }

    fn new(shards: usize) -> &'static Hub {
        let signal: &Signal = Box::leak(Box::new(Signal::new()));
        let shards = (0..shards).map(|_| &*Box::leak(Box::new(Shard::new(signal)))).collect();
        Box::leak(Box::new(Hub { signal, shards, epoch: AtomicU32::new(0), turns: AtomicU64::new(0) }))
    }

    /// Ends the timer: what waits is woken to see that it has gone, and counted. `None` where it has ended before.
    pub(crate) fn close(&self, epoch: Epoch) -> Option<usize> {
        let next = epoch.0.wrapping_add(1);
        self.epoch.compare_exchange(epoch.0, next, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        self.signal.close();
        Some(self.shards.iter().map(|shard| shard.close()).sum())
    }

    /// Makes the hub ready for another timer, once the driver of the last has gone.
    pub(crate) fn recycle(&'static self) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Whether the timer that an epoch names is the one served now.
    #[inline]
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        self.epoch.load(Ordering::SeqCst) == epoch.0
    }

    /// The shard that thread number `number` keeps to.
    pub(crate) fn shard(&self, number: usize) -> &'static Shard {
        self.shards[number % self.shards.len()]
    }

    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Fires what is due now, as far as the allowance reaches.
    pub(crate) fn fire_due(&self, batch: &mut Batch, allowance: Allowance) -> Fired {
        self.fire_at(self.signal.now(), batch, allowance)
    }

    /// Fires what is due at a tick that has been reached, as far as the allowance reaches.
    pub(crate) fn fire_at(&self, at: Tick, batch: &mut Batch, allowance: Allowance) -> Fired {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let mut fired = Fired { at, wakes: 0, all: true };
        let mut holds = 0;
        // A hold of each shard at a time, so that a crowd in one does not keep the others waiting.
        loop {
            let before = holds;
            for shard in self.shards.iter().filter(|shard| shard.next() <= fired.at) {
                if fired.wakes >= allowance.wakes || holds == allowance.holds {
                    return Fired { all: false, ..fired };
                }
                fired.wakes += shard.fire(fired.at, batch);
                holds += 1;
            }
            if holds == before {
                return fired;
            }
        }
    }

    /// How often the wheels were turned for this timer.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// A timer's counts over all shards.
    pub(crate) fn counts(&self, epoch: Epoch) -> Counts {
        self.shards.iter().map(|shard| shard.counts(epoch)).fold(Counts::default(), |sum, shard| Counts {
            registered: sum.registered + shard.registered,
            fired: sum.fired + shard.fired,
            pending: sum.pending + shard.pending,
            cascaded: sum.cascaded + shard.cascaded,
        })
    }

    /// When there next is something to do.
    pub(crate) fn earliest(&self) -> Tick {
        self.shards.iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX)
    }

    /// A turn by the alarm thread, for a driver that does not come round: its runtime is blocked, or nobody drives it.
    fn stand_in(&self) {
        let mut batch = Batch::default();
        loop {
            self.signal.begin_turn_as_stand_in();
            let fired = self.fire_due(&mut batch, Allowance::UNBOUNDED);
            if self.signal.end_turn(fired.at, self.earliest(), Ticks(0), WakesBy::Thread).is_some() {
                return;
            }
        }
    }
}

impl Bell for Hub {
    fn ring(&self) {
        match self.signal.ring() {
            Rung::Served => {}
            Rung::Overdue => self.stand_in(),
        }
    }
}

impl Lease {
    /// Whether the timer is still there.
    #[inline]
    pub(crate) fn is_open(self, hub: &Hub) -> bool {
        hub.serves(self.epoch)
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub").field("shards", &self.shards).field("signal", &self.signal).finish_non_exhaustive()
    }
}
