//! [`Shards`]: the shards of one timer, and the turn that fires what is due in them.
//
// Invariants
// 1. Whoever fires holds the memory for its timer meanwhile.
// 2. A turn does not lock a shard with nothing due. It wakes about 1024 tasks at most, and each of its `LOOKS` takes
//    locks at most 256 times. Then other tasks run.
// 3. Whoever finds that nobody needs the timer any more ends it.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::clock::{instant, source};
use crate::core::alarm::thread::{self, Booker};
use crate::core::capacity::Capacity;
use crate::core::helpers::Helpers;
use crate::core::pool::{Epoch, Hold, Lease, Pool, Pooled, Pooling};
use crate::core::schedule::{Begun, Due, Schedule};
use crate::core::shard::{Shard, ShardLease, WakeList};
use crate::core::statistics::Snapshot;
use crate::seam;
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
    pub(crate) schedule: &'static Schedule,
    all: Vec<&'static Shard>,
    capacity: &'static Capacity,
    /// How many of the shards the timer uses.
    used: AtomicUsize,
    turns: AtomicU64,
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
    pub(crate) name: Option<&'static str>,
}

per_process! {
    // A forked process does not use its parent's.
    fn pool() -> &'static Pool<Shards> = |_| Pool::new();
}

impl Pooling for Shards {
    fn pool() -> &'static Pool<Shards> {
        pool()
    }

    fn size(&self) -> usize {
        self.all.len()
    }
}

/// How often one turn looks, if earlier deadlines are registered while it does.
const LOOKS: usize = 8;

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
}

impl Shards {
    fn new(shards: usize) -> &'static Pooled<Shards> {
        let schedule = keep!(Schedule, Schedule::new());
        let capacity = keep!(Capacity, Capacity::new());
        let all = (0..shards).map(|_| keep!(Shard, Shard::new(schedule, capacity))).collect();
        let shards = Shards { schedule, all, capacity, used: AtomicUsize::new(0), turns: AtomicU64::new(0) };
        keep!(Pooled<Shards>, Pooled::new(shards))
    }

    pub(crate) fn all(&self) -> &[&'static Shard] {
        &self.all[..self.used.load(Ordering::Relaxed)]
    }

    /// From now on the driver hears of removals: a test has paused its clock, which would jump to deadlines that are
    /// gone, or the timer ends with its last entry.
    pub(crate) fn publish_removals(&self) {
        self.all().iter().for_each(|shard| shard.publish_removals());
    }

    /// The earliest deadline, or `Tick::MAX`. Takes time in proportion to the number of unordered entries near it.
    pub(crate) fn first_deadline(&self) -> Tick {
        self.all().iter().map(|shard| shard.first_deadline()).min().unwrap_or(Tick::MAX)
    }

    /// Makes the turn that has [begun](Schedule::begin_turn), and finds the `earliest` deadline left. Returns when the next
    /// begins, or `None` if there is more to do: then interrupt it.
    pub(crate) fn turn(&self, list: &mut WakeList, earliest: fn(&Shards) -> Tick) -> Option<Tick> {
        let mut left = TurnBudget::OF_A_TURN;
        for _ in 0..LOOKS {
            let fired = self.fire_at(self.schedule.clock.now(), list, left);
            left.wakes = left.wakes.saturating_sub(fired.wakes);
            if !fired.all {
                return None;
            }
            if let Some(at) = self.schedule.end_turn(fired.at, earliest(self)) {
                return Some(at);
            }
        }
        None
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
        timer.schedule.open(wanted.coalesce);
        let runs = instant::clock_is_the_systems();
        if !runs {
            source::one_is_held();
        }
        if !runs || instant::may_be_paused() {
            timer.publish_removals();
        }
        timer
    }

    /// Begins a timer without a driver, which helper threads turn.
    ///
    /// # Panics
    /// If the system refuses the alarm thread.
    pub(crate) fn open_driverless(wanted: Wanted) -> TimerLease {
        thread::start();
        let timer = Lease::make(wanted).begun();
        timer.schedule.open_driverless(wanted.coalesce);
        timer
    }

    /// Takes memory for a timer, and opens its shards. Nothing turns it yet.
    pub(crate) fn make(wanted: Wanted) -> TimerLease {
        // Powers of two, so that timers of similar sizes can reuse memory.
        let room = wanted.shards.next_power_of_two();
        let timer = Lease::take(room, || Shards::new(room)).prepared(wanted);
        timer.schedule.set_booker(timer.pooled());
        timer
    }

    fn prepared(self, wanted: Wanted) -> Self {
        self.used.store(wanted.shards, Ordering::SeqCst);
        self.turns.store(0, Ordering::Relaxed);
        self.capacity.open(wanted.capacity);
        seam::opens(&self);
        for shard in self.all() {
            shard.open(self.epoch(), wanted.resolution);
        }
        // Last: whoever finds this name for an earlier timer then finds that the shards are of another.
        self.schedule.set_name(wanted.name);
        self
    }

    /// Lets the time of its wheels begin near the present.
    fn begun(self) -> Self {
        // In models wheels are behind, so that helper threads have more to do in a turn.
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
            name: None,
        });
        std::mem::forget(timer.hold());
        timer.schedule.set_booker(booker.unwrap_or(timer.pooled()));
        timer.schedule.open(Ticks(0));
        timer
    }

    /// Ends the timer, wakes everything that waits, and returns how many that were. `None` if it has ended before.
    pub(crate) fn close(self) -> Option<usize> {
        if !self.end() {
            return None;
        }
        self.replace();
        self.schedule.close();
        let pending = self.all().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Whether nothing waits on this and nobody can register with it any more.
    pub(crate) fn is_unneeded(self) -> bool {
        !self.all().iter().any(|shard| shard.is_used(self.epoch()))
    }

    /// Ends the timer if nobody needs it.
    pub(crate) fn close_if_unneeded(self) {
        if self.is_unneeded() {
            self.close();
        }
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
        let is_alone = shards.len() == 1 || source::any_is_held() && self.schedule.clock.is_shown();
        let number = if is_alone { 0 } else { number() };
        ShardLease::new(shards[number % shards.len()], self.epoch())
    }

    /// The name of this timer; none if another timer has the memory by now.
    pub(crate) fn name(self) -> Option<&'static str> {
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

impl TimerHold {
    /// Turns in place of a driver that is late, or for a timer without one. Its runtime is blocked or not driven, or a
    /// test has paused its clock.
    fn turn_for_the_driver(&self) {
        let timer = self.lease();
        let runtime = timer.schedule.runtime();
        let _entered = runtime.as_ref().map(Handle::enter);
        // On a paused clock nothing is late: its driver was called, and comes.
        let is_paused = runtime.is_some() && !instant::clock_is_the_systems();
        if is_paused || timer.schedule.begin_turn(None) != Begun::Turn {
            return;
        }
        if timer.turn(&mut WakeList::default(), Shards::earliest).is_none() {
            timer.schedule.interrupt_turn(true);
        }
        timer.close_if_unneeded();
    }
}

impl Booker for Pooled<Shards> {
    fn unused(&'static self, epoch: Epoch) {
        self.at(epoch).close_if_unneeded();
    }

    fn alarm(&'static self, helpers: &'static Helpers) {
        match self.schedule.alarm() {
            Due::Nothing => {}
            Due::Wake(driver) if driver.is_foreign => helpers.send(Box::new(|| driver.wake())),
            Due::Wake(driver) => {
                driver.wake();
                // Sent from here, so that a helper thread that is started for it is as urgent as this thread.
                if self.schedule.io.is_due() {
                    helpers.send(Box::new(|| self.schedule.io.look()));
                }
            }
            Due::Helper => {
                if let Some(timer) = self.present().try_hold() {
                    helpers.send(Box::new(move || timer.turn_for_the_driver()));
                }
            }
        }
    }
}
