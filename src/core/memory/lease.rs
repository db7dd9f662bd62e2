//! [`TimerLease`]: a timer from its start to its end, in a memory that timers reuse. A lease names one use by its
//! epoch. [`TimerGuard`] and [`Owner`] keep that use from ending, each in its way.
//
// Invariants
// 1. A memory becomes free when the last guard of an ended timer goes: once per use.
// 2. A thread that reads a timer's counts keeps the memory while it does.
// 3. Any thread that finds the timer unneeded ends it.
//
// They hold because whether a timer is open, and how many guards it has, is one atomic word: who takes the last guard
// away gives the memory back, and from none nobody gets another.

use std::io;
use std::mem::forget;
use std::sync::Arc;

use super::pool::{Memory, take};
use crate::clock::{self, Hooks, instant, source};
use crate::core::alarm::driver_sleep::processed;
use crate::core::alarm::{Alarm, thread};
use crate::core::engine::{Above, Engine};
use crate::core::epoch::Epoch;
use crate::core::helpers;
use crate::core::settings::Settings;
use crate::core::shard::{Shard, ShardLease};
use crate::core::statistics::Snapshot;
use crate::util::panics;
use crate::util::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::wheel::Tick;

pub(crate) trait TimerHooks {
    /// A timer opens in a memory that timers reuse.
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

/// A timer, which may have ended.
#[derive(Clone, Copy)]
pub(crate) struct TimerLease {
    pub(super) memory: &'static Memory,
    epoch: Epoch,
}

/// Keeps a timer's memory from being reused, even after the timer has ended.
pub(crate) struct TimerGuard(TimerLease);

/// Owns a timer: all handles share one owner, and the registry has one for each runtime's timer. Once all owners and
/// all sleeps created through a handle are gone, the timer ends as soon as nothing waits on it.
///
/// Keeps the memory, so the counts can be read after the timer has ended.
pub(crate) struct Owner {
    timer: TimerGuard,
    /// Whether the timer was created implicitly. No handle may end it then.
    pub(crate) is_implicit: bool,
}

/// What tokio's timers have processed on a paused clock: that does not wait for a timer that begins there.
fn processed_here() -> io::Result<Tick> {
    let needs = |_| io::Error::other("needs a tokio runtime with `enable_time` on a paused clock");
    panics::if_enabled(|| processed(clock::now())).map_err(needs)
}

impl Owner {
    pub(crate) fn new(timer: TimerLease, is_implicit: bool) -> Arc<Owner> {
        // A guard for the users of each shard: a sleep on a timer that has ended can tell whether it had fired.
        timer.all().iter().for_each(|_| forget(timer.guard()));
        Arc::new(Owner { timer: timer.guard(), is_implicit })
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
        (0..unused).for_each(|_| timer.let_go());
    }
}

impl Above for Memory {
    fn turn_without_a_driver(&'static self) {
        if let Some(timer) = self.lease(self.refs.epoch()).try_guard() {
            helpers::send(move || timer.turn_without_a_driver());
        }
    }

    fn lose_users(&'static self, epoch: Epoch) {
        let timer = self.lease(epoch);
        timer.close_if_unneeded();
        timer.let_go();
    }
}

impl Memory {
    fn lease(&'static self, epoch: Epoch) -> TimerLease {
        TimerLease { memory: self, epoch }
    }

    /// Begins a use, to which the caller has exclusive access.
    fn begin_use(&'static self, settings: &Settings, wheels_begin: Tick) -> TimerLease {
        let timer = self.lease(self.refs.epoch().next());
        self.refs.begin(timer.epoch);
        self.used.store(settings.shards, SeqCst);
        self.threads.store(0, Relaxed);
        self.turn_count.store(0, Relaxed);
        timer.all().iter().for_each(|shard| shard.open(timer.epoch, settings.resolution, wheels_begin));
        // Last: sleeps of an earlier timer check the shards afterwards.
        self.engine.capacity.open(settings.capacity);
        self.engine.parker.lock().name = settings.name;
        timer
    }
}

impl TimerLease {
    /// Begins a timer that nobody asked for, so nobody gets an error.
    /// Panics if the alarm thread cannot be started.
    pub(crate) fn open(is_driverless: bool, settings: &Settings) -> TimerLease {
        TimerLease::try_open(is_driverless, settings).unwrap_or_else(|error| panic!("hairspring {error}"))
    }

    /// Begins a timer. If it is driverless, helper threads run its turns. Returns the system's error if it refuses to
    /// start the alarm thread, which a timer with tokio's alarm can do without. On a paused clock it needs
    /// `enable_time`.
    pub(crate) fn try_open(is_driverless: bool, settings: &Settings) -> io::Result<TimerLease> {
        thread::start().or_else(|error| if settings.alarm == Alarm::Tokio { Ok(()) } else { Err(error) })?;
        let is_paused = !is_driverless && !instant::clock_is_the_systems();
        let reached = if is_paused { Some(processed_here()?) } else { None };
        let timer = TimerLease::make(settings, clock::now());
        if !is_driverless && Hooks::opens_here(timer) {
            return Ok(timer);
        }
        timer.engine().open(is_driverless, settings.coalesce);
        if let Some(reached) = reached {
            source::one_is_held();
            timer.engine().reach(reached);
            timer.publish_removals();
        }
        Ok(timer)
    }

    /// Takes a memory for a timer and opens its shards. Nothing runs turns yet.
    pub(crate) fn make(settings: &Settings, now: Tick) -> TimerLease {
        let timer = take(settings.shards).begin_use(settings, source::wheels_begin(now));
        Hooks::opens(timer);
        timer
    }

    #[inline]
    pub(crate) fn engine(self) -> &'static Engine {
        self.memory.engine
    }

    /// Whether the timer has not ended.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.memory.refs.is_open(self.epoch)
    }

    /// Keeps the memory. Returns `None` if the timer has ended and has no other guard.
    pub(crate) fn try_guard(self) -> Option<TimerGuard> {
        self.memory.refs.join(self.epoch).then(|| TimerGuard(self))
    }

    /// Like `try_guard`, for a timer that has not ended or has another guard.
    pub(crate) fn guard(self) -> TimerGuard {
        self.try_guard().expect("the timer has not ended")
    }

    fn let_go(self) {
        if self.memory.refs.leave(self.epoch) {
            self.memory.give_back();
        }
    }

    /// Ends the timer, wakes all waiting tasks, and returns how many; `None` if it had already ended.
    pub(crate) fn close(self) -> Option<usize> {
        if !self.memory.refs.end(self.epoch) {
            return None;
        }
        self.engine().close();
        let pending = self.all().iter().map(Shard::close).sum();
        // The thread that ends a timer takes over its first guard.
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
        self.engine().clock.now()
    }

    pub(crate) fn name(self) -> Option<&'static str> {
        self.engine().parker.lock().name
    }

    pub(crate) fn capacity(self) -> Option<usize> {
        self.engine().capacity.most()
    }

    pub(crate) fn snapshot(self) -> Snapshot {
        let mut sum = Snapshot::default();
        (sum.refused, sum.capacity) = (self.engine().capacity.refused(), self.capacity());
        self.all().iter().for_each(|shard| shard.add_to(&mut sum));
        sum.turns = self.memory.turn_count.load(Acquire);
        sum
    }

    pub(crate) fn all(self) -> &'static [Shard] {
        &self.memory.shards[..self.memory.used.load(Relaxed)]
    }

    /// A shard for a thread that has none yet. Threads do not share shards if there are enough.
    pub(crate) fn next_shard(self) -> ShardLease {
        let shards = self.all();
        // A clock under a test's control uses one wheel: equal deadlines then fire in the order of registration.
        let is_alone = self.engine().clock.is_shown();
        let number = if is_alone { 0 } else { self.memory.threads.fetch_add(1, Relaxed) };
        ShardLease::new(&shards[number % shards.len()], self.epoch)
    }

    #[inline]
    pub(crate) fn owns(self, shard: ShardLease) -> bool {
        shard.is_of(self.memory.engine, self.epoch)
    }

    /// From now on, makes the driver notice removals: a paused clock must not jump to removed deadlines, and a replaced
    /// timer ends with its last entry.
    pub(crate) fn publish_removals(self) {
        self.all().iter().for_each(Shard::publish_removals);
    }

    pub(crate) fn first_deadline(self) -> Tick {
        self.all().iter().map(Shard::first_deadline).min().unwrap_or(Tick::MAX)
    }

    /// When a shard next has work, or earlier. Takes no lock.
    pub(crate) fn earliest(self) -> Tick {
        self.all().iter().map(Shard::next).min().unwrap_or(Tick::MAX)
    }
}

impl PartialEq for TimerLease {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.memory, other.memory) && self.epoch == other.epoch
    }
}

impl Clone for TimerGuard {
    fn clone(&self) -> Self {
        self.0.guard()
    }
}

impl Drop for TimerGuard {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl TimerGuard {
    pub(crate) fn lease(&self) -> TimerLease {
        self.0
    }
}

#[cfg(test)]
mod modelled {
    use super::*;
    use crate::wheel::Ticks;

    impl TimerLease {
        /// A timer for a model; its memory is not reused, and no other test wakes its driver.
        pub(crate) fn of_a_model(ignores_alarm: bool) -> TimerLease {
            let settings = Settings { coalesce: Ticks(0), ..Settings::with_shards(2) };
            let timer = Memory::new(2).begin_use(&settings, Tick::ZERO);
            forget(timer.guard());
            timer.engine().ignores_alarm.store(ignores_alarm, Relaxed);
            timer.engine().open(false, Ticks(0));
            timer
        }

        pub(crate) fn shard(self, number: usize) -> ShardLease {
            ShardLease::new(&self.all()[number], self.epoch)
        }
    }
}
