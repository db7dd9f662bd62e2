//! [`TimerLease`]: a timer, from its begin to its end, in memory that another timer may have used before.
//!
//! A sleep points to its shard without counting references, which would cost as much as the shard's lock. So the memory
//! of a timer is never freed, but waits for its next use. A lease names one use, by its epoch.
//
// Invariants
// 1. Memory is free again when the last holder of an ended timer lets it go: once for each use.
// 2. Whoever fires holds the memory for its timer meanwhile.
// 3. Whoever finds that nobody needs the timer any more ends it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};

use tokio::runtime::Handle;

use crate::clock::{self, instant, source};
use crate::core::alarm::thread::{self, Booker};
use crate::core::epoch::Epoch;
use crate::core::helpers::Helpers;
use crate::core::schedule::Due;
use crate::core::settings::Settings;
use crate::core::shard::ShardLease;
use crate::core::shards::Shards;
use crate::core::statistics::Snapshot;
use crate::seam;
use crate::util::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::util::sync::{MODELLED, Mutex, MutexGuard, per_process};
use crate::wheel::Tick;
#[cfg(test)]
use crate::wheel::Ticks;

/// A timer, which may have ended.
#[derive(Clone, Copy)]
pub(crate) struct TimerLease {
    of: &'static Shards,
    epoch: Epoch,
}

/// Keeps a timer's memory, even after the timer has ended.
pub(crate) struct TimerHold(TimerLease);

/// Owns a timer: the handles on it share one, and the registry has one for the timer of each runtime. Once all owners and
/// all sleeps that were made by a handle are gone, the timer ends as soon as nothing waits on it.
///
/// Keeps the timer's memory, so that its counts can be read even after it has ended.
pub(crate) struct Owner {
    timer: TimerHold,
    /// Whether nobody built the timer, so that no handle may end it.
    is_implicit: bool,
}

type Free = BTreeMap<usize, Vec<&'static Shards>>;

per_process! {
    /// Memory that no timer uses, by its number of shards. A forked process does not use its parent's.
    fn free_memory() -> &'static Mutex<Free> = |_| Mutex::new(BTreeMap::new());
}

fn free() -> MutexGuard<'static, Free> {
    free_memory().lock().unwrap_or_else(PoisonError::into_inner)
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
        let unused = timer.shards().filter(|shard| shard.users.leave(timer.epoch)).count();
        if unused > 0 {
            timer.close_if_unneeded();
        }
    }
}

impl TimerLease {
    /// Begins a use of memory that the caller has to itself.
    fn begin(of: &'static Shards) -> TimerLease {
        let epoch = Epoch(of.epoch.load(SeqCst));
        of.holders.begin(epoch);
        TimerLease { of, epoch }
    }

    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.epoch
    }

    /// Whether the timer has not ended.
    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.of.epoch.load(SeqCst) == self.epoch.0
    }

    /// Keeps the memory for this timer. Returns `None` if it has ended and nobody else keeps it.
    pub(crate) fn try_hold(self) -> Option<TimerHold> {
        self.of.holders.join(self.epoch).then(|| TimerHold(self))
    }

    /// Keeps the memory for this timer, which must serve or have another holder.
    pub(crate) fn hold(self) -> TimerHold {
        self.try_hold().expect("the timer has not ended")
    }

    fn let_go(self) {
        if self.of.holders.leave(self.epoch) {
            free().entry(self.of.all.len()).or_default().push(self.of);
        }
    }

    /// Begins a timer with a driver, or without one: then helper threads turn it.
    ///
    /// # Panics
    /// If the system refuses the alarm thread.
    pub(crate) fn open(driverless: bool, settings: &Settings) -> TimerLease {
        thread::start();
        let timer = TimerLease::make(settings);
        // The time of its wheels begins near the present. In models they are behind, so that helper threads have more to
        // do in a turn.
        if !MODELLED {
            let begin = source::wheels_begin();
            timer.all().iter().for_each(|shard| shard.skip_to(begin));
        }
        timer.schedule.open(driverless, settings.coalesce);
        timer
    }

    /// Takes memory for a timer, and opens its shards. Nothing turns it yet.
    pub(crate) fn make(settings: &Settings) -> TimerLease {
        // Powers of two, so that timers of similar sizes can reuse memory.
        let room = settings.shards.next_power_of_two();
        let free = free().get_mut(&room).and_then(Vec::pop);
        let timer = TimerLease::begin(free.unwrap_or_else(|| Shards::new(room))).prepared(settings);
        timer.schedule.set_booker(timer.of);
        timer
    }

    fn prepared(self, settings: &Settings) -> Self {
        self.used.store(settings.shards, SeqCst);
        self.turns.store(0, Relaxed);
        seam::opens(&self);
        for shard in self.all() {
            shard.open(self.epoch, settings.resolution);
        }
        // Last: whoever finds these for an earlier timer then finds that the shards are of another.
        self.capacity.open(settings.capacity);
        self.schedule.set_name(settings.name);
        self
    }

    /// A timer of a model, whose memory is not reused. The alarm thread calls `booker`, or the shards themselves.
    #[cfg(test)]
    pub(crate) fn of_a_model(booker: Option<&'static dyn Booker>) -> TimerLease {
        let settings = Settings { coalesce: Ticks(0), ..Settings::with_shards(2) };
        let timer = TimerLease::begin(Shards::new(2)).prepared(&settings);
        std::mem::forget(timer.hold());
        timer.schedule.set_booker(booker.unwrap_or(timer.of));
        timer.schedule.open(false, Ticks(0));
        timer
    }

    /// Ends the timer, wakes everything that waits, and returns how many that were. `None` if it has ended before.
    pub(crate) fn close(self) -> Option<usize> {
        // Whoever ends it is the holder that it began with.
        let next = self.epoch.next();
        self.of.epoch.compare_exchange(self.epoch.0, next.0, SeqCst, SeqCst).ok()?;
        self.replace();
        self.schedule.close();
        let pending = self.all().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Ends the timer if nothing waits on it and nobody can register with it any more.
    pub(crate) fn close_if_unneeded(self) {
        if !self.shards().any(ShardLease::is_used) {
            self.close();
        }
    }

    /// Another timer was installed in place of this one, or it has ended.
    pub(crate) fn replace(self) {
        self.shards().for_each(ShardLease::replace);
    }

    /// The time on the timer's clock, or on the current runtime's if another timer has the memory by now.
    #[inline]
    pub(crate) fn now(self) -> Tick {
        // A shard is read only if it must be: the threads that use it write to it.
        if self.schedule.clock.is_the_runtimes() { clock::now() } else { self.first().now() }
    }

    #[inline]
    fn first(self) -> ShardLease {
        ShardLease::new(self.all()[0], self.epoch)
    }

    fn shards(self) -> impl Iterator<Item = ShardLease> {
        self.of.all().iter().map(move |shard| ShardLease::new(shard, self.epoch))
    }

    /// The shard of a thread, by its `number` among the runtime's workers or among all threads.
    pub(crate) fn shard(self, number: impl FnOnce() -> usize) -> ShardLease {
        let shards = self.of.all();
        // One wheel if a test shows the time, so that equal deadlines fire in the order of registration.
        let is_alone = shards.len() == 1 || source::any_is_held() && self.schedule.clock.is_shown();
        let number = if is_alone { 0 } else { number() };
        ShardLease::new(shards[number % shards.len()], self.epoch)
    }

    /// The name of this timer; none if another timer has the memory by now.
    pub(crate) fn name(self) -> Option<&'static str> {
        self.first().name()
    }

    /// The number of turns for this timer; zero if another timer has the memory by now.
    pub(crate) fn turns(self) -> u64 {
        let turns = self.turns.load(Acquire);
        // Checked last: the shards are opened for a timer before its turns.
        if self.first().serves() { turns } else { 0 }
    }

    /// The counts of this timer; all zero if another timer has the memory by now.
    pub(crate) fn snapshot(self) -> Snapshot {
        let mut sum = Snapshot::empty();
        (sum.refused, sum.capacity) = (self.capacity.refused(), self.capacity.most());
        self.shards().for_each(|shard| shard.add_to(&mut sum));
        // Checked last: the shards are opened for a timer before its capacity.
        if self.first().serves() { sum } else { Snapshot::empty() }
    }
}

impl Deref for TimerLease {
    type Target = Shards;

    #[inline]
    fn deref(&self) -> &Shards {
        self.of
    }
}

impl PartialEq for TimerLease {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.of, other.of) && self.epoch == other.epoch
    }
}

impl Eq for TimerLease {}

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

    /// Turns in place of a driver that is late, or for a timer without one. Its runtime is blocked or not driven, or a
    /// test has paused its clock.
    fn turn_for_the_driver(&self) {
        let timer = self.lease();
        let runtime = timer.schedule.runtime();
        let _entered = runtime.as_ref().map(Handle::enter);
        // On a paused clock nothing is late: its driver was called, and comes.
        let is_paused = runtime.is_some() && !instant::clock_is_the_systems();
        if is_paused || !timer.schedule.begin_turn(None) {
            return;
        }
        if timer.turn(Shards::earliest).is_none() {
            timer.schedule.interrupt_turn(true);
        }
        timer.close_if_unneeded();
    }
}

impl Booker for Shards {
    fn unused(&'static self, epoch: Epoch) {
        TimerLease { of: self, epoch }.close_if_unneeded();
    }

    fn alarm(&'static self, helpers: &'static Helpers) {
        match self.schedule.alarm() {
            Due::Nothing => {}
            Due::Wake(driver) if driver.is_foreign => helpers.send(Box::new(|| driver.wake())),
            Due::Wake(driver) => {
                driver.wake();
                if self.schedule.io.is_due() {
                    self.schedule.io.look_soon();
                }
            }
            Due::Helper => {
                let present = TimerLease { of: self, epoch: Epoch(self.epoch.load(SeqCst)) };
                if let Some(timer) = present.try_hold() {
                    helpers.send(Box::new(move || timer.turn_for_the_driver()));
                }
            }
        }
    }
}
