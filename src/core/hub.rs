//! A timer's shards and signal, and the turn that fires what is due in them.
//!
//! A hub is never freed: when its timer goes it waits, empty, for the next timer. So a sleep can point to its shard
//! without counting references, which costs as much as the shard's lock. There are never more hubs of a size, a power of
//! two of shards, than there were timers of that size at one time.
//!
//! Invariants
//! 1. A hub serves one timer at a time, named by its epoch; an epoch is used once. Whoever fires what is due holds the
//!    hub for its timer meanwhile ([`Held`]), stand-ins aside: they fire by the system's clock, and what they fire
//!    in a hub that has changed hands is due there, too.
//! 2. A shard with nothing due is not locked.
//! 3. The driver and one stand-in may turn at the same time; each entry is fired by one of them.
//!
//! Must not know: tasks, futures.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use crate::clock::instant;
use crate::core::alarm::thread::{self, Bell};
use crate::core::capacity::Limit;
use crate::core::holders::Holders;
use crate::core::shard::{Batch, Epoch, Shard, ShardLease, Snapshot};
use crate::core::signal::{Rung, Signal, WakesBy};
use crate::core::stand_ins::StandIns;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::util::sync::{Mutex, keep, per_process};
use crate::wheel::{Tick, Ticks};

pub(crate) struct Hub {
    pub(crate) signal: &'static Signal,
    shards: Vec<&'static Shard>,
    limit: &'static Limit,
    /// How many of the shards the timer uses.
    used: AtomicUsize,
    epoch: AtomicU32,
    /// The epoch of a timer that is a runtime's own; the next one's if another was installed in its place.
    default: AtomicU32,
    turns: AtomicU64,
    /// Who may still use the hub for the timer that it serves, or served last.
    holders: Holders,
    /// What a stand-in does for the hub, and in which process: a child of a fork has not got its parent's.
    stand_in: AtomicU64,
}

/// What a stand-in does for a hub.
#[derive(Clone, Copy)]
enum StandIn {
    Away,
    Turns,
    /// It was called again meanwhile.
    TurnsAgain,
}

impl StandIn {
    fn here(self) -> u64 {
        u64::from(std::process::id()) << 32 | self as u64
    }
}

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
pub(crate) struct Held(HubLease);

/// The hubs that serve no timer at present, by how many shards they have.
type Spare = Mutex<BTreeMap<usize, Vec<&'static Hub>>>;

per_process! {
    // A child of a fork leaves its parent's alone.
    fn spare() -> &'static Spare = |_| Spare::new(BTreeMap::new());
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
        if !instant::clock_is_the_systems() || instant::clock_may_be_paused() {
            lease.hub.move_clock();
        }
        lease
    }

    /// As [`open`](Hub::open), on a manual clock that shows `now`.
    #[cfg(feature = "test-util")]
    pub(crate) fn open_by_hand(now: Tick, wanted: Wanted) -> HubLease {
        let lease = Hub::take(wanted);
        lease.hub.signal.open_by_hand(now);
        lease.hub.move_clock();
        lease
    }

    /// A manual clock shows another time.
    #[cfg(feature = "test-util")]
    pub(crate) fn show(&self, epoch: Epoch, now: Tick) {
        if self.serves(epoch) {
            self.signal.show(now);
        }
    }

    /// A hub for the process's own timer, which stand-ins turn.
    ///
    /// # Panics
    /// As [`open`](Hub::open).
    pub(crate) fn open_driverless(wanted: Wanted) -> HubLease {
        thread::start();
        let lease = Hub::take(wanted);
        lease.hub.signal.open_driverless(lease.hub);
        lease
    }

    /// From now on the timer's clock jumps to what waits here, as one does that a test has paused.
    pub(crate) fn move_clock(&self) {
        self.shards().iter().filter(|shard| !shard.moves_clock()).for_each(|shard| shard.move_clock());
    }

    fn take(wanted: Wanted) -> HubLease {
        // Powers of two, so that timers of all sizes can use each other's hubs.
        let room = wanted.shards.next_power_of_two();
        let fitting = spare().lock().unwrap_or_else(PoisonError::into_inner).get_mut(&room).and_then(Vec::pop);
        let hub = fitting.unwrap_or_else(|| Hub::new(room));
        HubLease { hub, epoch: hub.begin(wanted) }
    }

    /// A new timer begins; the answer names it.
    fn begin(&self, wanted: Wanted) -> Epoch {
        let epoch = Epoch(self.epoch.load(Ordering::SeqCst));
        self.holders.begin(epoch.0);
        self.default.store(epoch.0, Ordering::SeqCst);
        self.used.store(wanted.shards, Ordering::SeqCst);
        self.turns.store(0, Ordering::Relaxed);
        self.limit.open(wanted.capacity);
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
        let lease = HubLease { hub, epoch };
        std::mem::forget(lease.hold());
        hub.signal.open(bell.unwrap_or(hub));
        lease
    }

    fn new(shards: usize) -> &'static Hub {
        let signal = keep!(Signal, Signal::new());
        let limit = keep!(Limit, Limit::new());
        let shards = (0..shards).map(|_| keep!(Shard, Shard::new(signal, limit))).collect();
        keep!(
            Hub,
            Hub {
                signal,
                shards,
                limit,
                used: AtomicUsize::new(0),
                epoch: AtomicU32::new(0),
                default: AtomicU32::new(0),
                turns: AtomicU64::new(0),
                holders: Holders::none(),
                stand_in: AtomicU64::new(0),
            }
        )
    }

    /// Ends the timer: what waits is woken to see that it has gone, and counted. `None` if it has ended before.
    pub(crate) fn close(&'static self, epoch: Epoch) -> Option<usize> {
        let next = epoch.0.wrapping_add(1);
        self.epoch.compare_exchange(epoch.0, next, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        self.replace(epoch);
        self.signal.close();
        let pending = self.shards().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Another timer was installed in the place of one, or it has ended.
    pub(crate) fn replace(&self, epoch: Epoch) {
        let next = epoch.0.wrapping_add(1);
        // If it serves another by now, that stays.
        let _ = self.default.compare_exchange(epoch.0, next, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn let_go(&'static self) {
        if self.holders.leave() {
            let mut spare = spare().lock().unwrap_or_else(PoisonError::into_inner);
            spare.entry(self.shards.len()).or_default().push(self);
        }
    }

    /// Whether the timer that an epoch names is the one served now.
    #[inline]
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        self.epoch.load(Ordering::SeqCst) == epoch.0
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

    /// The earliest deadline, to the tick.
    #[cfg(feature = "test-util")]
    pub(crate) fn earliest_deadline(&self) -> Tick {
        self.shards().iter().map(|shard| shard.earliest_deadline()).min().unwrap_or(Tick::MAX)
    }

    /// Calls a stand-in, for a timer without a driver, or for a driver that does not come round: its runtime is blocked,
    /// or nobody drives it. One at a time: a waker that blocks it holds up this timer, and takes no more threads.
    fn call_stand_in(&'static self, stand_ins: &'static StandIns) {
        let turns = [StandIn::Turns.here(), StandIn::TurnsAgain.here()];
        let called = |now| Some(if turns.contains(&now) { turns[1] } else { turns[0] });
        let before = self.stand_in.fetch_update(Ordering::SeqCst, Ordering::SeqCst, called);
        if before.is_ok_and(|before| !turns.contains(&before)) {
            stand_ins.send(Box::new(|| self.stand_in()));
        }
    }

    /// Turns, and again as long as that was asked for meanwhile.
    fn stand_in(&self) {
        let (turns, away) = (StandIn::Turns.here(), StandIn::Away.here());
        while {
            self.stand_in.store(turns, Ordering::SeqCst);
            catch_panic(|| self.turn_once());
            self.stand_in.compare_exchange(turns, away, Ordering::SeqCst, Ordering::SeqCst).is_err()
        } {}
    }

    fn turn_once(&self) {
        let now = self.signal.now();
        if !self.signal.begin_turn_as_stand_in(now) {
            return;
        }
        let fired = self.fire_at(now, &mut Batch::default(), Allowance::OF_A_TURN);
        // In a model time stands still, so nothing would ever be gathered.
        let gathers = self.signal.is_driverless() && cfg!(not(hairspring_loom));
        let pause = if gathers { pause_after(fired.wakes) } else { Ticks(0) };
        let slept = fired.all.then(|| self.signal.end_turn(fired.at, self.earliest(), pause, WakesBy::Thread));
        if slept.flatten().is_none() {
            // There is more to do, after what else the alarm thread has to ring.
            self.signal.ring_again();
        }
    }
}

/// A turn costs tens of microseconds of two threads' time, however little it fires, so timers that are dense are let
/// gather: 40 us for each that the last turn fired, up to 0.8 ms. Below 25,000 timers a second a turn
/// fires few and the pause is short; above, each pause gathers more than the last until it is at its longest.
const PAUSE_PER_WAKE: u64 = 40_000;
const LONGEST_PAUSE: u64 = 800_000;

/// How long timers are let gather after a turn that fired `wakes`.
pub(crate) fn pause_after(wakes: usize) -> Ticks {
    Ticks(PAUSE_PER_WAKE.saturating_mul(wakes as u64).min(LONGEST_PAUSE))
}

impl HubLease {
    /// Whether the timer has ended.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        !self.hub.serves(self.epoch)
    }

    /// Whether this is its runtime's timer still. One that was never a runtime's is as long as it lives.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.hub.default.load(Ordering::SeqCst) == self.epoch.0
    }

    /// Keeps the hub for this timer, as long as the answer lives. `None` if it has ended and nobody else kept it.
    pub(crate) fn try_hold(self) -> Option<Held> {
        self.hub.holders.join(self.epoch.0).then(|| Held(self))
    }

    /// Keeps the hub for this timer, which is certainly there or kept by others.
    pub(crate) fn hold(self) -> Held {
        self.try_hold().expect("the timer is there")
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
        self.0.hub
    }

    pub(crate) fn lease(&self) -> HubLease {
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
        self.hub().let_go();
    }
}

impl Bell for Hub {
    #[cfg(feature = "test-util")]
    fn wake_driver(&self) {
        if !self.signal.is_by_hand() {
            self.signal.wake_driver();
        }
    }

    fn has_survived(&self) -> bool {
        self.signal.has_survived()
    }

    fn ring(&'static self, stand_ins: &'static StandIns) {
        match self.signal.ring() {
            Rung::Served => {}
            Rung::Wake(driver) if driver.is_foreign => stand_ins.send(Box::new(|| driver.wake())),
            Rung::Wake(driver) => driver.wake(),
            Rung::Overdue => self.call_stand_in(stand_ins),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_fired_little_is_hardly_followed_by_a_pause_and_none_by_a_long_one() {
        let pauses = [0, 1, 3, 20, 21, usize::MAX].map(|wakes| pause_after(wakes).0);
        assert_eq!(pauses, [0, 40_000, 120_000, 800_000, 800_000, 800_000]);
    }
}
