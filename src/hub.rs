//! A timer's shards and signal, and the turn that fires what is due in them.
//!
//! A hub is never freed: when its timer goes it waits, empty, for the next timer. So a sleep can point to its shard
//! without counting references, which costs as much as the shard's lock. There are never more hubs of a size, a power of
//! two of shards, than there were timers of that size at one time.
//!
//! Invariants
//! 1. A hub serves one timer at a time, named by its epoch; an epoch is used once. Whoever fires what is due holds the
//!    hub for its timer meanwhile ([`Held`]), the alarm thread aside: it fires by the system's clock, and what it fires
//!    in a hub that has changed hands is due there, too.
//! 2. A shard with nothing due is not locked.
//! 3. Driver and alarm thread may turn at the same time; each entry is fired by one of them.
//!
//! Must not know: tasks, futures.

use std::sync::PoisonError;

use crate::alarm::thread::{self, Bell};
use crate::limit::Limit;
use crate::shard::{Batch, Epoch, Shard, ShardLease, Snapshot};
use crate::signal::{Rung, Signal, WakesBy};
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, global, keep};
use crate::tick::{Tick, Ticks};

pub(crate) struct Hub {
    pub(crate) signal: &'static Signal,
    shards: Vec<&'static Shard>,
    limit: &'static Limit,
    /// How many of the shards the timer uses.
    used: AtomicUsize,
    epoch: AtomicU32,
    turns: AtomicU64,
    /// How many may still use the hub for the timer it serves, or served last.
    holders: AtomicU32,
    /// The threads on which tasks have armed timers, by number.
    threads: Mutex<Vec<usize>>,
}

/// How many threads on which tasks run are told apart. More than workers there are only where threads come and go.
const MOST_THREADS: usize = 1024;

/// A hub, as one timer has it.
#[derive(Clone, Copy)]
pub(crate) struct HubLease {
    pub(crate) hub: &'static Hub,
    pub(crate) epoch: Epoch,
}

/// What a timer asks of its hub.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) shards: usize,
    /// Deadlines are rounded up to multiples of two to the power of this many ticks.
    pub(crate) grain: u32,
    /// How many entries there may be, where that is limited.
    pub(crate) capacity: Option<usize>,
}

/// Keeps a hub from being given to another timer.
pub(crate) struct Held(&'static Hub);

global! {
    /// The hubs that serve no timer at present.
    static SPARE: Mutex<Vec<&'static Hub>> = Mutex::new(Vec::new());
}

#[cfg(feature = "test-util")]
global! {
    /// All hubs that were ever made.
    static ALL: Mutex<Vec<&'static Hub>> = Mutex::new(Vec::new());
}

/// Has all drivers polled, wherever they run, to look at their clocks.
#[cfg(feature = "test-util")]
pub(crate) fn wake_all_drivers() {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner).clone();
    all.iter().filter(|hub| !hub.signal.is_by_hand()).for_each(|hub| hub.signal.wake_driver());
}

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
    /// What is done before other tasks, or other timers' alarms, get their turn.
    pub(crate) const OF_A_TURN: Allowance = Allowance { wakes: 1024, holds: 256 };
    pub(crate) const UNBOUNDED: Allowance = Allowance { wakes: usize::MAX, holds: usize::MAX };
}

impl Hub {
    /// A hub for a new timer.
    ///
    /// # Panics
    /// Where the system refuses the alarm thread.
    pub(crate) fn open(wanted: Wanted) -> HubLease {
        thread::start();
        let lease = Hub::take(wanted);
        lease.hub.signal.open(lease.hub);
        lease
    }

    /// As [`open`](Hub::open), on a manual clock that shows `now`.
    #[cfg(feature = "test-util")]
    pub(crate) fn open_by_hand(now: Tick, wanted: Wanted) -> HubLease {
        let lease = Hub::take(wanted);
        lease.hub.signal.open_by_hand(now);
        lease
    }

    /// A manual clock shows another time.
    #[cfg(feature = "test-util")]
    pub(crate) fn show(&self, epoch: Epoch, now: Tick) {
        if self.serves(epoch) {
            self.signal.show(now);
        }
    }

    fn take(wanted: Wanted) -> HubLease {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        // Powers of two, so that timers of all sizes can use each other's hubs.
        let room = wanted.shards.next_power_of_two();
        let fitting = spare.iter().position(|hub| hub.shards.len() == room);
        let fitting = fitting.map(|at| spare.swap_remove(at));
        drop(spare);
        let hub = fitting.unwrap_or_else(|| Hub::new(room));
        HubLease { hub, epoch: hub.begin(wanted) }
    }

    /// A new timer begins; the answer names it.
    fn begin(&self, wanted: Wanted) -> Epoch {
        let epoch = Epoch(self.epoch.load(Ordering::SeqCst));
        self.holders.store(1, Ordering::SeqCst);
        self.used.store(wanted.shards, Ordering::SeqCst);
        self.turns.store(0, Ordering::Relaxed);
        self.limit.open(wanted.capacity);
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for shard in self.shards() {
            shard.open(epoch, wanted.grain);
        }
        epoch
    }

    /// A hub that serves one model, and that no timer gets after it. The alarm thread rings `bell`, or the hub itself.
    #[cfg(test)]
    pub(crate) fn of_a_model(bell: Option<&'static dyn Bell>) -> HubLease {
        let hub = Hub::new(2);
        let epoch = hub.begin(Wanted { shards: 2, grain: 0, capacity: None });
        std::mem::forget(hub.hold());
        hub.signal.open(bell.unwrap_or(hub));
        HubLease { hub, epoch }
    }

    fn new(shards: usize) -> &'static Hub {
        let signal = keep!(Signal, Signal::new());
        let limit = keep!(Limit, Limit::new());
        let shards = (0..shards).map(|_| keep!(Shard, Shard::new(signal, limit))).collect();
        let hub = keep!(
            Hub,
            Hub {
                signal,
                shards,
                limit,
                used: AtomicUsize::new(0),
                epoch: AtomicU32::new(0),
                turns: AtomicU64::new(0),
                holders: AtomicU32::new(0),
                threads: Mutex::new(Vec::new()),
            }
        );
        #[cfg(feature = "test-util")]
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(hub);
        hub
    }

    /// Ends the timer: what waits is woken to see that it has gone, and counted. `None` where it has ended before.
    pub(crate) fn close(&'static self, epoch: Epoch) -> Option<usize> {
        let next = epoch.0.wrapping_add(1);
        self.epoch.compare_exchange(epoch.0, next, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        self.signal.close();
        let pending = self.shards().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Keeps the hub for the timer it serves, as long as the answer lives. For use while the timer is certainly there.
    pub(crate) fn hold(&'static self) -> Held {
        self.holders.fetch_add(1, Ordering::SeqCst);
        Held(self)
    }

    fn let_go(&'static self) {
        if self.holders.fetch_sub(1, Ordering::SeqCst) == 1 {
            SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }

    /// Whether the timer that an epoch names is the one served now.
    #[inline]
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        self.epoch.load(Ordering::SeqCst) == epoch.0
    }

    /// A thread's place among those on which tasks have armed timers. Where each keeps to the shard of its place, no two
    /// workers share one, whatever threads outside of tasks there are. Threads of `spawn_blocking` run tasks, too.
    pub(crate) fn place_of(&self, thread: usize) -> usize {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = threads.iter().position(|&known| known == thread) {
            return place;
        }
        if threads.len() == MOST_THREADS {
            return thread;
        }
        threads.push(thread);
        threads.len() - 1
    }

    /// The shard that thread number `number` keeps to.
    pub(crate) fn shard(&self, number: usize) -> &'static Shard {
        let shards = self.shards();
        shards[number % shards.len()]
    }

    pub(crate) fn shards(&self) -> &[&'static Shard] {
        &self.shards[..self.used.load(Ordering::Relaxed)]
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
            for shard in self.shards().iter().filter(|shard| shard.next() <= fired.at) {
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

    /// How often the wheels were turned for a timer; zero where the hub serves another by now.
    pub(crate) fn turns(&self, epoch: Epoch) -> u64 {
        let turns = self.turns.load(Ordering::Relaxed);
        if self.shard(0).was_opened_for(epoch) { turns } else { 0 }
    }

    /// What was done for a timer and is held for it; nothing where the hub serves another by now.
    pub(crate) fn snapshot(&self, epoch: Epoch) -> Snapshot {
        let mut sum = Snapshot::empty();
        self.shards().iter().for_each(|shard| shard.add_to(&mut sum, epoch));
        sum
    }

    /// How many entries a timer has over all shards.
    #[cfg(feature = "test-util")]
    pub(crate) fn pending(&self, epoch: Epoch) -> usize {
        self.shards().iter().map(|shard| shard.pending(epoch)).sum()
    }

    /// When there next is something to do.
    pub(crate) fn earliest(&self) -> Tick {
        self.shards().iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX)
    }

    /// A turn by the alarm thread, for a driver that does not come round: its runtime is blocked, or nobody drives it.
    fn stand_in(&self) {
        if !self.signal.begin_turn_as_stand_in() {
            return;
        }
        let fired = self.fire_due(&mut Batch::default(), Allowance::OF_A_TURN);
        let slept = fired.all.then(|| self.signal.end_turn(fired.at, self.earliest(), Ticks(0), WakesBy::Thread));
        if slept.flatten().is_none() {
            // There is more to do, after what else the thread has to ring.
            self.signal.ring_again();
        }
    }
}

impl HubLease {
    /// Whether the timer has ended.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        !self.hub.serves(self.epoch)
    }

    /// The shard that thread number `number` keeps to.
    pub(crate) fn shard(self, number: usize) -> ShardLease {
        // One wheel where a test moves the clock: what is due at one instant is fired in the order it was armed.
        #[cfg(feature = "test-util")]
        let number = if self.hub.signal.is_by_hand() { 0 } else { number };
        ShardLease { shard: self.hub.shard(number), epoch: self.epoch }
    }
}

impl PartialEq for HubLease {
    fn eq(&self, other: &HubLease) -> bool {
        std::ptr::eq(self.hub, other.hub) && self.epoch == other.epoch
    }
}

impl Eq for HubLease {}

impl Held {
    pub(crate) fn hub(&self) -> &'static Hub {
        self.0
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.let_go();
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
