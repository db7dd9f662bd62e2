//! [`Shards`]: the shards of one timer, and the turn that fires what is due in them.
//
// Invariants
// 1. Whoever fires holds the memory for its timer meanwhile. Stand-ins do not: they go by the system's clock, so what
//    they fire in memory that another timer has by now is due there too.
// 2. A turn does not lock a shard with nothing due.
// 3. A driver may begin to turn while a stand-in does, but not the other way round. Each entry is fired by one of them.

use std::sync::Arc;
#[cfg(feature = "test-util")]
use std::sync::{Mutex, PoisonError};

use crate::clock::{instant, source};
use crate::core::alarm::thread::{self, Booker};
use crate::core::capacity::Capacity;
use crate::core::parking::{Due, Parking, WakesBy};
use crate::core::pool::{Epoch, Hold, Lease, Pool, Pooled, Pooling};
use crate::core::shard::{Shard, ShardLease, Snapshot, WakeList};
use crate::core::stand_ins::StandIns;
use crate::util::catch_panic::catch_panic;
use crate::util::name::Name;
use crate::util::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::util::sync::{MODELLED, keep, per_process};
use crate::wheel::{Tick, Ticks};

/// A timer, which may have ended.
pub(crate) type TimerLease = Lease<Shards>;

/// Keeps a timer's memory, even after the timer has ended.
pub(crate) type TimerHold = Hold<Shards>;

/// Owns a timer: the handles on it share one, and the registry has one for the timer of each runtime. Once all owners and
/// all sleeps that were made by a handle are gone, the timer ends as soon as nothing waits on it.
///
/// Keeps the timer's memory, so that its counts can be read even after it has ended.
pub(crate) struct Owner {
    timer: TimerHold,
    /// Whether nobody built the timer, so that no handle may end it.
    is_implicit: bool,
}

pub(crate) struct Shards {
    pub(crate) parking: &'static Parking,
    all: Vec<&'static Shard>,
    capacity: &'static Capacity,
    /// How many of the shards the timer uses.
    used: AtomicUsize,
    turns: AtomicU64,
    /// What a stand-in does here, and in which process: a forked process does not have its parent's stand-ins.
    stand_in: AtomicU64,
}

/// What a stand-in does.
#[derive(Clone, Copy)]
enum StandIn {
    Away,
    Turns,
    /// It turns, and was called again meanwhile.
    TurnsAgain,
}

impl StandIn {
    fn here(self) -> u64 {
        u64::from(crate::util::per_process::generation()) << 32 | self as u64
    }
}

/// What a timer asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) shards: usize,
    /// Deadlines are rounded up to multiples of this; one tick for not at all.
    pub(crate) resolution: Ticks,
    /// The maximum number of entries, if it is limited.
    pub(crate) capacity: Option<usize>,
    /// How long timers may wait for company; zero for none.
    pub(crate) coalesce: Ticks,
    pub(crate) name: Name,
}

per_process! {
    // A forked process does not use its parent's.
    fn pool() -> &'static Pool<Shards> = |_| Pool::new();
}

#[cfg(feature = "test-util")]
per_process! {
    /// The parking of each timer, open or not, for tests that hold a clock.
    pub(crate) fn parkings() -> &'static Mutex<Vec<&'static Parking>> = |_| Mutex::default();
}

impl Pooling for Shards {
    fn pool() -> &'static Pool<Shards> {
        pool()
    }

    fn size(&self) -> usize {
        self.all.len()
    }
}

/// How much a turn may do.
#[derive(Clone, Copy)]
pub(crate) struct TurnBudget {
    /// Wakers to wake.
    pub(crate) wakes: usize,
    /// Holds of a shard's lock.
    pub(crate) holds: usize,
}

/// What a turn has done.
pub(crate) struct Fired {
    /// The time of the turn.
    pub(crate) at: Tick,
    pub(crate) wakes: usize,
    /// Whether everything due was fired.
    pub(crate) all: bool,
}

impl TurnBudget {
    /// The limits of one turn, after which other tasks, or the alarms of other timers, go first.
    pub(crate) const OF_A_TURN: TurnBudget = TurnBudget { wakes: 1024, holds: 256 };
    pub(crate) const UNBOUNDED: TurnBudget = TurnBudget { wakes: usize::MAX, holds: usize::MAX };
}

impl Shards {
    fn new(shards: usize) -> &'static Pooled<Shards> {
        let parking = keep!(Parking, Parking::new());
        let capacity = keep!(Capacity, Capacity::new());
        let all = (0..shards).map(|_| keep!(Shard, Shard::new(parking, capacity))).collect();
        let (used, turns, stand_in) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let shards = Shards { parking, all, capacity, used, turns, stand_in };
        let kept = keep!(Pooled<Shards>, Pooled::new(shards));
        #[cfg(feature = "test-util")]
        parkings().lock().unwrap_or_else(PoisonError::into_inner).push(parking);
        kept
    }

    pub(crate) fn all(&self) -> &[&'static Shard] {
        &self.all[..self.used.load(Ordering::Relaxed)]
    }

    /// From now on the timer drives its clock, which a test has paused: the clock jumps to deadlines here.
    pub(crate) fn drive_clock(&self) {
        self.all().iter().filter(|shard| !shard.drives_clock()).for_each(|shard| shard.drive_clock());
    }

    /// Fires what is due now, within the budget.
    pub(crate) fn fire_due(&self, list: &mut WakeList, budget: TurnBudget) -> Fired {
        self.fire_at(self.parking.clock.now(), list, budget)
    }

    /// Fires what is due at a tick that has been reached, within the budget.
    pub(crate) fn fire_at(&self, at: Tick, list: &mut WakeList, budget: TurnBudget) -> Fired {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let mut fired = Fired { at, wakes: 0, all: true };
        let mut holds = 0;
        // One hold of each shard in turn, so that many due entries in one do not delay the others.
        loop {
            let before = holds;
            for shard in self.all().iter().filter(|shard| shard.next() <= fired.at) {
                if fired.wakes >= budget.wakes || holds == budget.holds {
                    return Fired { all: false, ..fired };
                }
                fired.wakes += shard.fire(fired.at, list);
                holds += 1;
            }
            if holds == before {
                return fired;
            }
        }
    }

    /// When a shard next has work.
    pub(crate) fn earliest(&self) -> Tick {
        self.all().iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX)
    }

    /// Calls a stand-in, for a timer without a driver or with a late one, whose runtime is blocked or not driven. One
    /// at a time: a waker that blocks a stand-in delays this timer, but takes no more threads.
    fn call_stand_in(&'static self, stand_ins: &'static StandIns) {
        let turns = [StandIn::Turns.here(), StandIn::TurnsAgain.here()];
        let called = |now| Some(if turns.contains(&now) { turns[1] } else { turns[0] });
        let before = self.stand_in.fetch_update(Ordering::SeqCst, Ordering::SeqCst, called);
        if before.is_ok_and(|before| !turns.contains(&before)) {
            stand_ins.send(Box::new(|| self.stand_in()));
        }
    }

    /// Turns, and again if it was called meanwhile.
    fn stand_in(&self) {
        let (turns, away) = (StandIn::Turns.here(), StandIn::Away.here());
        while {
            self.stand_in.store(turns, Ordering::SeqCst);
            catch_panic(|| self.turn_once());
            self.stand_in.compare_exchange(turns, away, Ordering::SeqCst, Ordering::SeqCst).is_err()
        } {}
    }

    fn turn_once(&self) {
        let now = self.parking.clock.now();
        if self.parking.is_paused() || !self.parking.begin_turn_as_stand_in(now) {
            return;
        }
        let fired = self.fire_at(now, &mut WakeList::default(), TurnBudget::OF_A_TURN);
        let slept = fired.all.then(|| self.parking.end_turn(fired.at, self.earliest(), WakesBy::Thread));
        if slept.flatten().is_none() {
            // There is more to do, after the other calls of the alarm thread.
            self.parking.call_again();
        }
    }
}

impl Owner {
    /// The first owner of a timer, to be shared. The timer must not have ended.
    pub(crate) fn of(timer: TimerLease) -> Arc<Owner> {
        Arc::new(Owner { timer: timer.hold(), is_implicit: false })
    }

    /// The same, for a timer that nobody built.
    pub(crate) fn implicit(timer: TimerLease) -> Arc<Owner> {
        Arc::new(Owner { timer: timer.hold(), is_implicit: true })
    }

    pub(crate) fn timer(&self) -> TimerLease {
        self.timer.lease()
    }

    pub(crate) fn is_implicit(&self) -> bool {
        self.is_implicit
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let timer = self.timer();
        let unused = timer.all().iter().filter(|shard| shard.leave(timer.epoch())).count();
        if unused > 0 {
            timer.pooled().unused(timer.epoch());
        }
    }
}

impl TimerLease {
    /// Begins a timer with a driver.
    ///
    /// # Panics
    /// If the system refuses the alarm thread.
    pub(crate) fn open(wanted: Wanted) -> TimerLease {
        thread::start();
        let timer = Lease::make(wanted).begun();
        timer.parking.open(wanted.coalesce);
        let is_the_systems = instant::clock_is_the_systems();
        if !is_the_systems {
            source::one_is_held();
        }
        if !is_the_systems || instant::runtime_that_may_pause().is_some() {
            timer.drive_clock();
        }
        timer
    }

    /// Begins a timer without a driver, which stand-ins turn.
    ///
    /// # Panics
    /// If the system refuses the alarm thread.
    pub(crate) fn open_driverless(wanted: Wanted) -> TimerLease {
        thread::start();
        let timer = Lease::make(wanted).begun();
        timer.parking.open_driverless(wanted.coalesce);
        timer
    }

    /// Takes memory for a timer, and opens its shards. Nothing turns it yet.
    pub(crate) fn make(wanted: Wanted) -> TimerLease {
        // Powers of two, so that timers of similar sizes can reuse memory.
        let room = wanted.shards.next_power_of_two();
        let timer = Lease::take(room, || Shards::new(room)).prepared(wanted);
        timer.parking.set_booker(timer.pooled());
        timer
    }

    fn prepared(self, wanted: Wanted) -> Self {
        self.used.store(wanted.shards, Ordering::SeqCst);
        self.turns.store(0, Ordering::Relaxed);
        self.capacity.open(wanted.capacity);
        for shard in self.all() {
            shard.open(self.epoch(), wanted.resolution);
        }
        // Last: whoever finds this name for an earlier timer then finds that the shards are of another.
        self.parking.set_name(wanted.name);
        self
    }

    /// Lets the time of its wheels begin near the present.
    fn begun(self) -> Self {
        // In models wheels are behind, so that stand-ins have more to do in a turn.
        if !MODELLED {
            let begin = source::wheels_begin();
            self.all().iter().for_each(|shard| shard.skip_to(begin));
        }
        self
    }

    /// A timer of a model, whose memory is not reused. The alarm thread calls `booker`, or the shards themselves.
    #[cfg(test)]
    pub(crate) fn of_a_model(booker: Option<&'static dyn Booker>) -> TimerLease {
        let timer = Shards::new(2).begin().prepared(Wanted {
            shards: 2,
            resolution: Ticks::ONE,
            capacity: None,
            coalesce: Ticks(0),
            name: Name::NONE,
        });
        std::mem::forget(timer.hold());
        timer.parking.set_booker(booker.unwrap_or(timer.pooled()));
        timer.parking.open(Ticks(0));
        timer
    }

    /// Ends the timer, wakes everything that waits, and returns how many that were. `None` if it has ended before.
    pub(crate) fn close(self) -> Option<usize> {
        if !self.end() {
            return None;
        }
        self.replace();
        self.parking.close();
        let pending = self.all().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Whether nothing waits on this and nobody can register with it any more.
    pub(crate) fn is_unneeded(self) -> bool {
        !self.all().iter().any(|shard| shard.is_used(self.epoch()))
    }

    /// Another timer was installed in place of this one, or it has ended.
    pub(crate) fn replace(self) {
        self.all().iter().for_each(|shard| shard.replace(self.epoch()));
    }

    /// Whether this is still its runtime's timer. For a timer that was never a runtime's: whether it has not ended.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.all()[0].is_default(self.epoch())
    }

    /// The time on the timer's clock, or on the current runtime's if another timer has the memory by now.
    #[inline]
    pub(crate) fn now(self) -> Tick {
        ShardLease::new(self.all()[0], self.epoch()).now()
    }

    /// The shard of a thread, by its `number` among the runtime's workers or among all threads.
    pub(crate) fn shard(self, number: impl FnOnce() -> usize) -> ShardLease {
        let shards = self.get().all();
        // One wheel if a test shows the time, so that equal deadlines fire in the order of registration.
        let is_alone = shards.len() == 1 || source::any_is_held() && self.parking.clock.is_shown();
        let number = if is_alone { 0 } else { number() };
        ShardLease::new(shards[number % shards.len()], self.epoch())
    }

    /// The name of this timer; none if another timer has the memory by now.
    pub(crate) fn name(self) -> Name {
        self.shard(|| 0).name()
    }

    /// The number of turns for this timer; zero if another timer has the memory by now.
    pub(crate) fn turns(self) -> u64 {
        let turns = self.turns.load(Ordering::Relaxed);
        if self.all()[0].was_opened_for(self.epoch()) { turns } else { 0 }
    }

    /// The counts of this timer; all zero if another timer has the memory by now.
    pub(crate) fn snapshot(self) -> Snapshot {
        let mut sum = Snapshot::empty();
        self.all().iter().for_each(|shard| shard.add_to(&mut sum, self.epoch()));
        sum
    }
}

impl Booker for Pooled<Shards> {
    fn unused(&'static self, epoch: Epoch) {
        let timer = self.at(epoch);
        if timer.is_unneeded() {
            timer.close();
        }
    }

    fn alarm(&'static self, stand_ins: &'static StandIns) {
        match self.parking.alarm() {
            Due::Nothing => {}
            Due::Wake(driver) if driver.is_foreign => stand_ins.send(Box::new(|| driver.wake())),
            Due::Wake(driver) => {
                driver.wake();
                // Sent from here, so that a stand-in that is started for it is as urgent as this thread.
                if self.parking.io.is_due() {
                    stand_ins.send(Box::new(|| self.parking.io.look()));
                }
            }
            Due::StandIn => Shards::call_stand_in(self, stand_ins),
        }
    }
}
