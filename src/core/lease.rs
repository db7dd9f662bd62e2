//! [`TimerLease`]: a timer from its start to its end, in memory that timers reuse.
//!
//! A sleep points to its shard without a reference count, which would cost as much as the shard's lock. The memory of a
//! timer is therefore never freed, only reused. A lease names one use by its epoch.
//
// Invariants
// 1. Memory becomes free when the last holder of an ended timer lets go: once per use.
// 2. A thread that fires timers holds the memory while it does.
// 3. Any thread that finds the timer unneeded ends it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, PoisonError};

use tokio::runtime::Handle;

use crate::clock::{self, instant, source};
use crate::core::alarm::Alarm;
use crate::core::alarm::thread::{self, Booker};
use crate::core::epoch::Epoch;
use crate::core::helpers::Helpers;
use crate::core::schedule::{DriverWaker, Due};
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

/// A timer, which may have ended. If its memory serves another timer by now, this one has no name and no counts.
#[derive(Clone, Copy)]
pub(crate) struct TimerLease {
    of: &'static Shards,
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
    is_implicit: bool,
}

/// How a turn is run: by a helper, unless these say otherwise.
#[derive(Default)]
pub(crate) struct Turn {
    /// The waker of the driver that runs it.
    pub(crate) driver: Option<DriverWaker>,
    /// Whether the driver runs another one afterwards.
    pub(crate) calls_driver: bool,
    /// Fires everything that is due at this tick, instead of part of what is due now.
    pub(crate) at: Option<Tick>,
}

type Free = BTreeMap<usize, Vec<&'static Shards>>;

per_process! {
    /// Unused memory, by number of shards. A forked process does not use its parent's.
    fn free_memory() -> &'static Mutex<Free> = |_| Mutex::new(BTreeMap::new());
}

fn free() -> MutexGuard<'static, Free> {
    free_memory().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Owner {
    pub(crate) fn of(timer: TimerLease) -> Arc<Owner> {
        Arc::new(Owner { timer: timer.hold(), is_implicit: false })
    }

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
    /// Begins a use of memory to which the caller has exclusive access.
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

    /// Holds the memory. Returns `None` if the timer has ended and has no other holder.
    pub(crate) fn try_hold(self) -> Option<TimerHold> {
        self.of.holders.join(self.epoch).then(|| TimerHold(self))
    }

    /// Like `try_hold`, for a timer that has not ended or has another holder.
    pub(crate) fn hold(self) -> TimerHold {
        self.try_hold().expect("the timer has not ended")
    }

    fn let_go(self) {
        if self.of.holders.leave(self.epoch) {
            free().entry(self.of.all.len()).or_default().push(self.of);
        }
    }

    /// Begins a timer that nobody asked for, so nobody gets an error.
    /// Panics if the system refuses to start the alarm thread.
    pub(crate) fn open(driverless: bool, settings: &Settings) -> TimerLease {
        TimerLease::try_open(driverless, settings).unwrap_or_else(|error| panic!("hairspring {error}"))
    }

    /// Begins a timer. If it is driverless, helper threads make its turns. Returns the system's error if it refuses to
    /// start the alarm thread, which a timer with tokio's alarm can do without.
    pub(crate) fn try_open(driverless: bool, settings: &Settings) -> io::Result<TimerLease> {
        thread::start().or_else(|error| if settings.alarm == Alarm::Tokio { Ok(()) } else { Err(error) })?;
        let timer = TimerLease::make(settings);
        // In models the wheels start far behind, which gives helper threads more to do in a turn.
        if !MODELLED {
            let begin = source::wheels_begin();
            timer.all().iter().for_each(|shard| shard.skip_to(begin));
        }
        timer.schedule.open(driverless, settings.coalesce);
        Ok(timer)
    }

    /// Takes memory for a timer and opens its shards. Nothing makes turns yet.
    pub(crate) fn make(settings: &Settings) -> TimerLease {
        // Powers of two, to let timers of similar sizes share memory.
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
        // Last: readers for an earlier timer check the shards afterwards.
        self.capacity.open(settings.capacity);
        self.schedule.parker.lock().name = settings.name;
        self
    }

    /// A timer for a model; its memory is not reused. The alarm thread calls `booker`, or else the shards themselves.
    #[cfg(test)]
    pub(crate) fn of_a_model(booker: Option<&'static dyn Booker>) -> TimerLease {
        let settings = Settings { coalesce: Ticks(0), ..Settings::with_shards(2) };
        let timer = TimerLease::begin(Shards::new(2)).prepared(&settings);
        std::mem::forget(timer.hold());
        timer.schedule.set_booker(booker.unwrap_or(timer.of));
        timer.schedule.open(false, Ticks(0));
        timer
    }

    /// Ends the timer, wakes all waiting tasks, and returns how many; `None` if it had already ended.
    pub(crate) fn close(self) -> Option<usize> {
        // The thread that ends a timer takes over its initial holder.
        let next = self.epoch.next();
        self.of.epoch.compare_exchange(self.epoch.0, next.0, SeqCst, SeqCst).ok()?;
        self.replace();
        self.schedule.close();
        let pending = self.all().iter().map(|shard| shard.close()).sum();
        self.let_go();
        Some(pending)
    }

    /// Ends the timer if nothing waits on it and nothing can register any more.
    pub(crate) fn close_if_unneeded(self) {
        if !self.shards().any(ShardLease::is_used) {
            self.close();
        }
    }

    /// Runs a turn, unless the timer has ended, a test sets the time, or another turn is in progress, which then scans
    /// again. `prepare` is called once the turn has begun; what it returns finds the earliest remaining deadline.
    /// Returns `None` if more timers are due, and otherwise when the next turn begins, if that is known.
    pub(crate) fn run_turn(self, turn: Turn, prepare: impl FnOnce() -> fn(&Shards) -> Tick) -> Option<Tick> {
        let Some(mut wakes) = self.schedule.begin_turn(turn.driver, turn.calls_driver) else {
            return Some(Tick::MAX);
        };
        let next = self.scan(turn.at, prepare(), &mut wakes);
        if next.is_none() {
            self.schedule.interrupt_turn();
        }
        wakes.wake_all();
        self.close_if_unneeded();
        next
    }

    pub(crate) fn replace(self) {
        self.shards().for_each(ShardLease::replace);
    }

    #[inline]
    pub(crate) fn now(self) -> Tick {
        // Read a shard only if necessary: the threads that use it write to it.
        if self.schedule.clock.is_the_runtimes() { clock::now() } else { self.first().time_shown() }
    }

    #[inline]
    fn first(self) -> ShardLease {
        ShardLease::new(self.all()[0], self.epoch)
    }

    fn shards(self) -> impl Iterator<Item = ShardLease> {
        self.of.all().iter().map(move |shard| ShardLease::new(shard, self.epoch))
    }

    /// The shard of a thread. `number` is its number among the runtime's workers or among all threads.
    pub(crate) fn shard(self, number: impl FnOnce() -> usize) -> ShardLease {
        let shards = self.of.all();
        // A clock under a test's control uses one wheel: equal deadlines then fire in the order of registration.
        let is_alone = shards.len() == 1 || source::any_is_held() && self.schedule.clock.is_shown();
        let number = if is_alone { 0 } else { number() };
        ShardLease::new(shards[number % shards.len()], self.epoch)
    }

    pub(crate) fn name(self) -> Option<&'static str> {
        self.first().name()
    }

    pub(crate) fn turns(self) -> u64 {
        let turns = self.turns.load(Acquire);
        // Checked last: shards are opened before turns begin.
        if self.first().serves() { turns } else { 0 }
    }

    pub(crate) fn snapshot(self) -> Snapshot {
        let mut sum = Snapshot::empty();
        (sum.refused, sum.capacity) = (self.capacity.refused(), self.capacity.most());
        self.shards().for_each(|shard| shard.add_to(&mut sum));
        // Checked last: shards are opened before the capacity.
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

    /// Runs turns for a driver that is late or missing, as long as more timers are due. Its runtime may be blocked, not
    /// driven, or paused by a test.
    fn help_the_driver(&self) {
        let timer = self.lease();
        let runtime = timer.schedule.parker.lock().runtime.clone();
        let _entered = runtime.as_ref().map(Handle::enter);
        // On a paused clock nothing is late: the driver was woken, and runs a turn.
        let is_paused = runtime.is_some() && !instant::clock_is_the_systems();
        while !is_paused && timer.run_turn(Turn::default(), || Shards::earliest).is_none() {}
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
                self.schedule.io.check_if_due();
            }
            Due::Helper => {
                let present = TimerLease { of: self, epoch: Epoch(self.epoch.load(SeqCst)) };
                if let Some(timer) = present.try_hold() {
                    helpers.send(Box::new(move || timer.help_the_driver()));
                }
            }
        }
    }
}
