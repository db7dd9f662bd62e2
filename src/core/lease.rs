//! [`TimerLease`]: a timer from its start to its end, in memory that timers reuse, and the turns that fire its entries.
//!
//! A sleep points to its shard without a reference count, which would cost as much as the shard's lock. The memory of a
//! timer is therefore never freed, only reused. A lease names one use by its epoch.
//
// Invariants
// 1. Memory becomes free when the last holder of an ended timer lets go: once per use.
// 2. A thread that fires timers, or reads their counts, holds the memory while it does.
// 3. Any thread that finds the timer unneeded ends it.
// 4. A turn does not lock a shard in which nothing is due. It wakes about 1,024 tasks at most, and takes at most
//    256 locks before other tasks run; for a clock that a test has moved, as many as are due.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;

use tokio::runtime::Handle;

use crate::clock::{self, Hooks, instant, source};
use crate::core::alarm::Alarm;
use crate::core::alarm::thread::{self, AlarmHandler};
use crate::core::capacity::Capacity;
use crate::core::epoch::{Epoch, Holders};
use crate::core::helpers;
use crate::core::settings::Settings;
use crate::core::shard::{Shard, ShardLease};
use crate::core::statistics::Snapshot;
use crate::core::turns::{By, Due, Turns};
use crate::core::wake_list::WakeList;
use crate::util::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{MODELLED, Mutex, MutexGuard, keep, per_process, unpoisoned};
use crate::wheel::Tick;

pub(crate) trait TimerHooks {
    /// A timer opens in memory that timers reuse.
    fn opens(_: TimerLease) {}

    /// A timer is created on the current runtime, before any turn. Returns whether a test sets its time from now on.
    fn opens_here(_: TimerLease) -> bool {
        false
    }

    /// A timer's driver runs on the current runtime.
    fn is_here(_: TimerLease) {}
}

#[cfg(not(feature = "test-util"))]
impl TimerHooks for Hooks {}

/// The maximum number of scans in a turn. A turn repeats its scan if earlier deadlines are registered during it.
const SCANS: usize = 8;

/// How many tasks a turn may wake before it lets others run. Each lock hold counts as at least `HOLD`.
const WORK: usize = 1024;

const HOLD: usize = 4;

/// The memory of a timer. It is never freed.
struct Memory {
    turns: &'static Turns,
    shards: Vec<&'static Shard>,
    capacity: &'static Capacity,
    /// How many of the shards the current timer uses.
    used: AtomicUsize,
    /// How many threads have a shard.
    threads: StdAtomicUsize,
    turn_count: AtomicU64,
    holders: Holders,
}

/// A timer, which may have ended.
#[derive(Clone, Copy)]
pub(crate) struct TimerLease {
    memory: &'static Memory,
    epoch: Epoch,
}

/// Keeps a timer's memory from being reused, even after the timer has ended.
pub(crate) struct TimerHold(TimerLease);

/// Owns a timer: all handles share one owner, and the registry has one for each runtime's timer. Once all owners and
/// all sleeps created through a handle are gone, the timer ends as soon as nothing waits on it.
///
/// Holds the memory, so the counts can be read after the timer has ended.
pub(crate) struct Owner {
    timer: TimerHold,
    /// Whether the timer was created implicitly. No handle may end it then.
    pub(crate) is_implicit: bool,
}

/// How a turn is run.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) by: By,
    /// Fires everything that is due at this tick, instead of part of what is due now.
    pub(crate) at: Option<Tick>,
}

type Free = BTreeMap<usize, Vec<&'static Memory>>;

per_process! {
    /// Unused memory, by number of shards. A forked process does not use its parent's.
    fn free_memory() -> &'static Mutex<Free> = |_| Mutex::new(BTreeMap::new());
}

fn free() -> MutexGuard<'static, Free> {
    unpoisoned(free_memory().lock())
}

impl Memory {
    fn new(shards: usize) -> &'static Memory {
        let turns = keep!(Turns, Turns::new());
        let capacity = keep!(Capacity, Capacity::new());
        let shards = (0..shards).map(|_| keep!(Shard, Shard::new(turns, capacity))).collect();
        let (used, threads) = (AtomicUsize::new(0), StdAtomicUsize::new(0));
        let (turn_count, holders) = (AtomicU64::new(0), Holders::none());
        keep!(Memory, Memory { turns, shards, capacity, used, threads, turn_count, holders })
    }

    fn lease(&'static self, epoch: Epoch) -> TimerLease {
        TimerLease { memory: self, epoch }
    }

    /// Begins a use of memory to which the caller has exclusive access.
    fn begin(&'static self, settings: &Settings, wheels_begin: Tick) -> TimerLease {
        let timer = self.lease(self.holders.epoch().next());
        self.holders.begin(timer.epoch);
        self.used.store(settings.shards, SeqCst);
        self.threads.store(0, Relaxed);
        self.turn_count.store(0, Relaxed);
        timer.all().iter().for_each(|shard| shard.open(timer.epoch, settings.resolution, wheels_begin));
        // Last: sleeps of an earlier timer check the shards afterwards.
        self.capacity.open(settings.capacity);
        self.turns.parker.lock().name = settings.name;
        timer
    }
}

impl Turn {
    pub(crate) fn of(by: By) -> Turn {
        Turn { by, at: None }
    }
}

impl Owner {
    pub(crate) fn new(timer: TimerLease, is_implicit: bool) -> Arc<Owner> {
        Arc::new(Owner { timer: timer.hold(), is_implicit })
    }

    pub(crate) fn timer(&self) -> TimerLease {
        self.timer.lease()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let timer = self.timer();
        let unused = timer.all().iter().filter(|shard| shard.users.leave(timer.epoch)).count();
        if unused > 0 {
            timer.close_if_unneeded();
        }
    }
}

impl TimerLease {
    /// Begins a timer that nobody asked for, so nobody gets an error.
    /// Panics if the alarm thread cannot be started.
    pub(crate) fn open(is_driverless: bool, settings: &Settings) -> TimerLease {
        TimerLease::try_open(is_driverless, settings).unwrap_or_else(|error| panic!("hairspring {error}"))
    }

    /// Begins a timer. If it is driverless, helper threads run its turns. Returns the system's error if it refuses to
    /// start the alarm thread, which a timer with tokio's alarm can do without.
    pub(crate) fn try_open(is_driverless: bool, settings: &Settings) -> io::Result<TimerLease> {
        thread::start().or_else(|error| if settings.alarm == Alarm::Tokio { Ok(()) } else { Err(error) })?;
        let timer = TimerLease::make(settings, clock::now());
        if !is_driverless && Hooks::opens_here(timer) {
            return Ok(timer);
        }
        if timer.turns().open(is_driverless, settings.coalesce) {
            timer.publish_removals();
        }
        Ok(timer)
    }

    /// Takes memory for a timer and opens its shards. Nothing runs turns yet.
    pub(crate) fn make(settings: &Settings, now: Tick) -> TimerLease {
        // Powers of two, to let timers of similar sizes share memory.
        let room = settings.shards.next_power_of_two();
        let free = free().get_mut(&room).and_then(Vec::pop);
        // In models the wheels start far behind, which gives helper threads more to do in a turn.
        let wheels_begin = if MODELLED { Tick::ZERO } else { source::wheels_begin(now) };
        let timer = free.unwrap_or_else(|| Memory::new(room)).begin(settings, wheels_begin);
        timer.turns().set_handler(timer.memory);
        Hooks::opens(timer);
        timer
    }

    #[inline]
    pub(crate) fn turns(self) -> &'static Turns {
        self.memory.turns
    }

    /// Whether the timer has not ended.
    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.memory.holders.is_open(self.epoch)
    }

    /// Holds the memory. Returns `None` if the timer has ended and has no other holder.
    pub(crate) fn try_hold(self) -> Option<TimerHold> {
        self.memory.holders.join(self.epoch).then(|| TimerHold(self))
    }

    /// Like `try_hold`, for a timer that has not ended or has another holder.
    pub(crate) fn hold(self) -> TimerHold {
        self.try_hold().expect("the timer has not ended")
    }

    fn let_go(self) {
        if self.memory.holders.leave(self.epoch) {
            free().entry(self.memory.shards.len()).or_default().push(self.memory);
        }
    }

    /// Ends the timer, wakes all waiting tasks, and returns how many; `None` if it had already ended.
    pub(crate) fn close(self) -> Option<usize> {
        if !self.memory.holders.end(self.epoch) {
            return None;
        }
        self.turns().close();
        let pending = self.all().iter().map(|shard| shard.close()).sum();
        // The thread that ends a timer takes over its initial holder.
        self.let_go();
        Some(pending)
    }

    /// Ends the timer if nothing waits on it and nothing can register any more.
    pub(crate) fn close_if_unneeded(self) {
        if !self.all().iter().any(|shard| shard.is_used(self.epoch)) {
            self.close();
        }
    }

    /// Another timer was installed instead.
    pub(crate) fn replace(self) {
        self.all().iter().for_each(|shard| shard.replace(self.epoch));
        // Its driver has to notice when its last entry is cancelled.
        self.publish_removals();
    }

    pub(crate) fn now(self) -> Tick {
        self.turns().clock.now()
    }

    pub(crate) fn name(self) -> Option<&'static str> {
        self.turns().parker.lock().name
    }

    pub(crate) fn capacity(self) -> Option<usize> {
        self.memory.capacity.most()
    }

    pub(crate) fn snapshot(self) -> Snapshot {
        let mut sum = Snapshot::default();
        (sum.refused, sum.capacity) = (self.memory.capacity.refused(), self.capacity());
        self.all().iter().for_each(|shard| shard.add_to(&mut sum));
        sum.turns = self.memory.turn_count.load(Acquire);
        let next = if self.serves() { self.earliest() } else { Tick::MAX };
        // A shard that is empty may still publish the deadline of its last entry.
        sum.next_deadline = (next < Tick::MAX && sum.pending > 0).then_some(next);
        sum
    }

    pub(crate) fn all(self) -> &'static [&'static Shard] {
        &self.memory.shards[..self.memory.used.load(Relaxed)]
    }

    /// A shard for a thread that has none yet. Threads do not share shards if there are enough.
    pub(crate) fn next_shard(self) -> ShardLease {
        let shards = self.all();
        // A clock under a test's control uses one wheel: equal deadlines then fire in the order of registration.
        let is_alone = self.turns().clock.is_shown();
        let number = if is_alone { 0 } else { self.memory.threads.fetch_add(1, Relaxed) };
        ShardLease::new(shards[number % shards.len()], self.epoch)
    }

    #[inline]
    pub(crate) fn owns(self, shard: ShardLease) -> bool {
        shard.is_of(self.turns(), self.epoch)
    }

    /// From now on, makes the driver notice removals: a paused clock must not jump to removed deadlines, and a replaced
    /// timer ends with its last entry.
    pub(crate) fn publish_removals(self) {
        self.all().iter().for_each(|shard| shard.publish_removals());
    }

    pub(crate) fn first_deadline(self) -> Tick {
        self.all().iter().map(|shard| shard.first_deadline()).min().unwrap_or(Tick::MAX)
    }

    /// When a shard next has work, or earlier. Takes no lock.
    pub(crate) fn earliest(self) -> Tick {
        self.all().iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX)
    }

    /// Runs a turn, unless the timer has ended, a test sets the time, or another turn is in progress, which then scans
    /// again. `earliest` finds the earliest remaining deadline. Returns `None` if more timers are due, and otherwise when
    /// the next turn begins, if that is known.
    pub(crate) fn run_turn(self, turn: Turn, earliest: fn(TimerLease) -> Tick) -> Option<Tick> {
        let Some(mut wakes) = self.turns().begin_turn(turn.by) else {
            return Some(Tick::MAX);
        };
        let next = self.scan(turn.at, earliest, &mut wakes);
        if next.is_none() {
            self.turns().interrupt_turn();
        }
        self.close_if_unneeded();
        next
    }

    /// Scans until the turn has ended: returns when the next begins, or `None` if more is left to do.
    fn scan(self, at: Option<Tick>, earliest: fn(TimerLease) -> Tick, wakes: &mut WakeList) -> Option<Tick> {
        let (mut work, mut fired) = (WORK, 0);
        for _ in 0..SCANS {
            let shown = at.unwrap_or_else(|| self.now());
            // An empty shard has work at the tick after the last: never.
            let now = shown.min(source::LAST);
            let (woken, left) = self.fire_some(now, if at.is_some() { usize::MAX } else { work }, wakes);
            work = left?;
            self.turns().reach(shown);
            fired += woken;
            if let Some(at) = self.turns().end_turn(now, fired, earliest(self)) {
                return Some(at);
            }
        }
        None
    }

    /// Fires all entries due at `at`. Returns how many tasks it woke.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn fire_at(self, at: Tick) -> usize {
        self.turns().reach(at);
        // A thread that registers may have read the time before a test moved it. Its deadline is published when it
        // unlocks.
        if self.turns().clock.is_shown() {
            self.all().iter().for_each(|shard| drop(shard.lock()));
        }
        self.fire_some(at, usize::MAX, &mut WakeList::default()).0
    }

    /// Fires entries due at `at`, within the limit of `work`. Returns how many, and the remaining `work` if it fired
    /// all.
    fn fire_some(self, at: Tick, mut work: usize, wakes: &mut WakeList) -> (usize, Option<usize>) {
        self.memory.turn_count.fetch_add(1, SeqCst);
        let mut fired = 0;
        // One lock hold per shard and round: a shard with many due entries does not delay the others.
        loop {
            let mut rests = true;
            for shard in self.all().iter().filter(|shard| shard.next() <= at) {
                if work == 0 {
                    return (fired, None);
                }
                let woken = shard.fire(at, wakes);
                fired += woken;
                work = work.saturating_sub(woken.max(HOLD));
                rests = false;
            }
            if rests {
                return (fired, Some(work));
            }
        }
    }
}

impl PartialEq for TimerLease {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.memory, other.memory) && self.epoch == other.epoch
    }
}

impl Clone for TimerHold {
    fn clone(&self) -> Self {
        self.0.hold()
    }
}

impl Drop for TimerHold {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl TimerHold {
    pub(crate) fn lease(&self) -> TimerLease {
        self.0
    }

    /// Runs turns for a driver that is late or missing, as long as more timers are due. Its runtime may be blocked, not
    /// driven, or paused by a test.
    fn help_the_driver(&self) {
        let timer = self.lease();
        let runtime = timer.turns().parker.lock().runtime.clone();
        let _entered = runtime.as_ref().map(Handle::enter);
        // On a paused clock nothing is late: the driver was woken, and runs a turn.
        let is_paused = runtime.is_some() && !instant::clock_is_the_systems();
        while !is_paused && timer.run_turn(Turn::of(By::Helper), TimerLease::earliest).is_none() {}
    }
}

impl AlarmHandler for Memory {
    fn unused(&'static self, epoch: Epoch) {
        self.lease(epoch).close_if_unneeded();
    }

    fn alarm(&'static self) {
        match self.turns.alarm() {
            Due::Nothing => {}
            Due::Wake(driver) if driver.is_foreign => helpers::send(|| driver.wake()),
            Due::Wake(driver) => {
                self.turns.io.check_if_due();
                driver.wake();
            }
            Due::Helper => {
                if let Some(timer) = self.lease(self.holders.epoch()).try_hold() {
                    helpers::send(move || timer.help_the_driver());
                }
            }
        }
    }
}

#[cfg(test)]
mod modelled {
    use super::*;
    use crate::wheel::Ticks;

    impl TimerLease {
        /// A timer for a model; its memory is not reused, and no other test wakes its driver. The alarm thread calls
        /// `handler`, or else the memory itself.
        pub(crate) fn of_a_model(handler: Option<&'static dyn AlarmHandler>) -> TimerLease {
            let settings = Settings { coalesce: Ticks(0), ..Settings::with_shards(2) };
            let timer = Memory::new(2).begin(&settings, Tick::ZERO);
            std::mem::forget(timer.hold());
            timer.turns().set_handler(handler.unwrap_or(timer.memory));
            timer.turns().open(false, Ticks(0));
            timer
        }

        pub(crate) fn shard(self, number: usize) -> ShardLease {
            ShardLease::new(self.all()[number], self.epoch)
        }
    }
}
