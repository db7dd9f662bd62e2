//! [`ShardLease`]: a shard as used by one timer. It takes no entries once that timer has ended. If the shard serves
//! another timer by then, the lease has no name and no counts, and its time is the current runtime's.

use std::ops::Deref;
use std::task::Waker;

use super::{InsertError, Key, Shard};
use crate::clock;
use crate::core::epoch::Epoch;
use crate::core::schedule::Schedule;
use crate::core::statistics::Snapshot;
use crate::util::sync::atomic::Ordering;
use crate::wheel::{Tick, Ticks};

// Two words, to be passed in registers.
#[derive(Clone, Copy)]
pub(crate) struct ShardLease {
    shard: &'static Shard,
    epoch: Epoch,
}

impl Deref for ShardLease {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        self.shard
    }
}

impl ShardLease {
    #[inline]
    pub(crate) fn new(shard: &'static Shard, epoch: Epoch) -> Self {
        ShardLease { shard, epoch }
    }

    #[inline]
    pub(crate) fn shard(self) -> &'static Shard {
        self.shard
    }

    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        self.epoch
    }

    /// Whether the timer is still its runtime's default. For a timer that never was: whether it has not ended.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.default.load(Ordering::SeqCst) == self.epoch.0
    }

    /// Called when another timer was installed instead, or this one has ended.
    pub(crate) fn replace(self) {
        let (epoch, next) = (self.epoch.0, self.epoch.next().0);
        let _ = self.default.compare_exchange(epoch, next, Ordering::SeqCst, Ordering::SeqCst);
    }

    pub(crate) fn is_of(self, schedule: &Schedule, epoch: Epoch) -> bool {
        self.epoch == epoch && std::ptr::eq(self.schedule, schedule)
    }

    #[cold]
    pub(crate) fn name(self) -> Option<&'static str> {
        let name = self.schedule.parker.lock().name;
        // Checked last: shards are opened before the name is set.
        if self.serves() { name } else { None }
    }

    #[inline]
    pub(crate) fn now(self) -> Tick {
        let clock = &self.schedule.clock;
        if clock.is_the_runtimes() { clock::now() } else { self.time_shown() }
    }

    /// The time of a clock other than the runtime's.
    #[cold]
    pub(crate) fn time_shown(self) -> Tick {
        let now = self.schedule.clock.now();
        // Checked last: shards are opened before the time is shown.
        if self.serves() { now } else { clock::now() }
    }

    /// Whether a deadline has passed on the timer's clock.
    #[inline]
    pub(crate) fn has_come(self, deadline: Tick) -> bool {
        !self.schedule.is_surely_future(deadline) && self.now() >= deadline
    }

    #[inline]
    pub(crate) fn rounds(self) -> bool {
        self.resolution() > Ticks::ONE
    }

    /// How late the timer may fire an entry on purpose.
    pub(crate) fn delays(self) -> Ticks {
        let delays = Ticks(self.resolution().0 + self.schedule.parker.lock().coalesce.longest.0);
        // Checked last: shards are opened before the longest wait is set.
        if self.serves() { delays } else { Ticks(0) }
    }

    /// Adds a user of the timer, unless it has none left.
    pub(crate) fn join(self) {
        self.users.join(self.epoch);
    }

    /// Removes a user. If it was the last and nothing waits, the timer ends.
    pub(crate) fn leave(self) {
        if self.users.leave(self.epoch) {
            self.schedule.unused(self.epoch);
        }
    }

    pub(crate) fn is_used(self) -> bool {
        self.users.are_any(self.epoch) || !self.lock().wheel.is_empty()
    }

    /// Whether the shard has not been opened for a later timer.
    #[inline]
    pub(crate) fn serves(self) -> bool {
        self.serves.load(Ordering::Acquire) == self.epoch.0
    }

    pub(crate) fn add_to(self, sum: &mut Snapshot) {
        let state = self.lock();
        if !self.serves() {
            return;
        }
        sum.registered += state.wheel.inserted() - state.inserted_before;
        sum.cascaded += state.wheel.cascaded() - state.cascaded_before;
        sum.pending += state.wheel.len() as u64;
        sum.lateness.add(&state.lateness);
        for (sum, slots) in sum.occupancy.iter_mut().zip(state.wheel.occupancy()) {
            *sum |= slots;
        }
    }

    /// Whether all of the timer's entries with this deadline have certainly fired, so it has passed.
    #[inline]
    pub(crate) fn has_fired(self, deadline: Tick) -> bool {
        // Load `fired_through` first: a value stored for a later timer makes that timer's `serves` visible to the
        // second load.
        let fired_through = Tick(self.fired_through.load(Ordering::Acquire));
        deadline <= fired_through && self.has_fired_through(deadline, fired_through)
    }

    #[inline(never)]
    fn has_fired_through(self, deadline: Tick, fired_through: Tick) -> bool {
        self.expiry(deadline) <= fired_through && self.serves()
    }

    /// Whether an entry with this deadline has fired, or would have if its timer were not late or had not ended.
    #[allow(clippy::inline_always)] // It was called, which took each later poll 20 instructions more.
    #[inline(always)]
    pub(crate) fn is_over(self, deadline: Tick) -> bool {
        self.has_fired(deadline) || self.has_come(deadline) && (!self.rounds() || self.has_come_rounded(deadline))
    }

    #[cold]
    fn has_come_rounded(self, deadline: Tick) -> bool {
        // The resolution may be a later timer's.
        self.now() >= self.expiry(deadline) || !self.serves()
    }

    #[inline]
    pub(crate) fn insert(self, deadline: Tick, waker: Waker) -> Result<Key, InsertError> {
        let deadline = self.expiry(deadline);
        let mut state = self.lock();
        let admitted = if state.open_for != self.epoch {
            Err(InsertError::Closed)
        } else if self.is_past(&state, deadline) {
            Err(InsertError::AlreadyDue)
        } else {
            self.capacity.take().map_err(InsertError::Full)
        };
        if let Err(refused) = admitted {
            if matches!(refused, InsertError::Full(_)) {
                self.capacity.refuse();
            }
            drop(state);
            drop(waker);
            return Err(refused);
        }
        let key = state.wheel.insert(deadline, waker);
        self.publish_earlier(state, deadline);
        Ok(key)
    }

    /// Sets an entry's waker. Returns whether the entry is still there: it may have fired, or its timer may have ended.
    pub(crate) fn set_waker(self, key: Key, waker: &Waker) -> bool {
        self.swap_waker(key, waker, None)
            .unwrap_or_else(|| self.swap_waker(key, waker, Some(waker.clone())).unwrap_or(true))
    }

    /// Returns `None` if the entry has another waker and there is no clone to replace it with.
    fn swap_waker(self, key: Key, waker: &Waker, clone: Option<Waker>) -> Option<bool> {
        let mut state = self.lock();
        let Some(current) = state.wheel.get_mut(key) else {
            drop(state);
            drop(clone);
            return Some(false);
        };
        if current.will_wake(waker) {
            drop(state);
            drop(clone);
            return Some(true);
        }
        let before = std::mem::replace(current, clone?);
        drop(state);
        drop(before);
        Some(true)
    }
}
