//! [`ShardLease`]: a shard as used by one timer. It takes no entries once that timer has ended. If the shard serves
//! another timer by then, the lease has no name, and its time is the current runtime's.

use std::task::Waker;

use super::{DEFAULT, InsertError, Key, OPEN, Shard, takes_room};
use crate::clock;
use crate::core::engine::Engine;
use crate::core::epoch::Epoch;
use crate::util::panics::catch_panic;
use crate::util::sync::atomic::Ordering;
use crate::wheel::{Tick, Ticks};

// Two words, to be passed in registers.
#[derive(Clone, Copy)]
pub(crate) struct ShardLease {
    shard: &'static Shard,
    /// The shard's `life` while the timer has not ended and is its runtime's.
    default: u32,
}

impl ShardLease {
    #[inline]
    pub(crate) fn new(shard: &'static Shard, epoch: Epoch) -> Self {
        ShardLease { shard, default: epoch.0 | OPEN | DEFAULT }
    }

    #[inline]
    pub(crate) fn shard(self) -> &'static Shard {
        self.shard
    }

    #[inline]
    pub(crate) fn epoch(self) -> Epoch {
        Epoch(self.default & !(OPEN | DEFAULT))
    }

    #[inline]
    pub(crate) fn address(self) -> usize {
        self.shard.address()
    }

    /// Whether the timer is still its runtime's default. For a timer that never was: whether it has not ended.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.shard.life.load(Ordering::SeqCst) == self.default
    }

    /// Whether the timer has not ended, also if another was installed instead.
    #[inline]
    fn is_open(self, order: Ordering) -> bool {
        self.shard.life.load(order) | DEFAULT == self.default
    }

    /// Whether the shard has not been opened for a later timer.
    #[inline]
    fn is_current(self) -> bool {
        self.shard.life.load(Ordering::Acquire) | OPEN | DEFAULT == self.default
    }

    #[inline]
    pub(crate) fn is_of(self, engine: &Engine, epoch: Epoch) -> bool {
        self.epoch() == epoch && std::ptr::eq(self.shard.engine, engine)
    }

    #[cold]
    pub(crate) fn name(self) -> Option<&'static str> {
        let name = self.shard.engine.parker.lock().name;
        // Checked last: shards are opened before the name is set.
        if self.is_current() { name } else { None }
    }

    #[inline]
    pub(crate) fn now(self) -> Tick {
        if self.shard.engine.clock.is_shown() { self.time_shown() } else { clock::now() }
    }

    /// The time of a clock other than the runtime's.
    #[cold]
    fn time_shown(self) -> Tick {
        let now = self.shard.engine.clock.now();
        // Checked last: shards are opened before the time is shown.
        if self.is_current() { now } else { clock::now() }
    }

    /// Whether a turn has reached a deadline, so that a sleep until then is ready without waiting. Reads no clock.
    #[inline]
    pub(crate) fn is_reached(self, deadline: Tick) -> bool {
        self.shard.expiry(deadline) <= self.reached()
    }

    /// The last tick that a turn has reached; tick 0 if the timer has ended: another runtime's clock may be behind.
    #[inline]
    pub(crate) fn reached(self) -> Tick {
        let reached = self.shard.engine.reached();
        // Checked last: a later timer's turns come after its shards were opened.
        if self.is_open(Ordering::Acquire) { reached } else { Tick::ZERO }
    }

    /// How late the timer may fire an entry on purpose.
    pub(crate) fn delays(self) -> Ticks {
        let delays = Ticks(self.shard.resolution().0 + self.shard.engine.parker.lock().coalesce.longest.0);
        // Checked last: shards are opened before the longest wait is set.
        if self.is_current() { delays } else { Ticks(0) }
    }

    /// Adds a user of the timer, unless it has none left.
    pub(crate) fn join(self) {
        self.shard.users.join(self.epoch());
    }

    /// Removes a user. If it was the last and nothing waits, the timer ends.
    pub(crate) fn leave(self) {
        if self.shard.users.leave(self.epoch()) {
            self.shard.engine.above().lose_users(self.epoch());
        }
    }

    /// Whether all of the timer's entries with this deadline have certainly fired, so it has passed.
    #[inline]
    pub(crate) fn has_fired(self, deadline: Tick) -> bool {
        // Load `fired_through` first: a value stored for a later timer makes that timer's epoch visible to the second
        // load.
        let fired_through = Tick(self.shard.fired_through.load(Ordering::Acquire));
        deadline <= fired_through && self.has_fired_through(deadline, fired_through)
    }

    /// The same of an entry of its own. Of entries with one deadline, some are taken out before others.
    pub(crate) fn entry_has_fired(self, key: Key, deadline: Tick) -> bool {
        let is_next = || {
            let fired_through = Tick(self.shard.fired_through.load(Ordering::Acquire));
            self.shard.expiry(deadline) == fired_through + Ticks::ONE
        };
        let is_out = || {
            let state = self.shard.lock();
            // A timer that has ended has taken out what had not come.
            self.is_open(Ordering::Relaxed) && state.wheel.deadline(key).is_none()
        };
        self.has_fired(deadline) || is_next() && is_out()
    }

    #[inline(never)]
    fn has_fired_through(self, deadline: Tick, fired_through: Tick) -> bool {
        self.shard.expiry(deadline) <= fired_through && self.is_current()
    }

    #[inline]
    pub(crate) fn insert(self, deadline: Tick, waker: Waker) -> Result<Key, InsertError> {
        let shard = self.shard;
        let deadline = shard.expiry_here(deadline);
        let mut state = shard.lock();
        let admitted = if !self.is_open(Ordering::Relaxed) {
            Err(InsertError::Closed)
        } else if shard.is_past(&state, deadline) {
            Err(InsertError::AlreadyDue)
        } else {
            shard.engine.capacity.take(takes_room(deadline)).map_err(|pending| {
                shard.engine.capacity.refuse();
                InsertError::AtCapacity(pending)
            })
        };
        if let Err(refused) = admitted {
            drop(state);
            drop(waker);
            return Err(refused);
        }
        let key = state.wheel.insert(deadline, waker);
        shard.publish_earlier(state, deadline);
        Ok(key)
    }

    #[inline]
    pub(crate) fn remove(self, key: Key) -> Option<Waker> {
        let mut state = self.shard.lock();
        let noticed = self.shard.noticed(&state, key);
        let waker = self.shard.take_out(&mut state, key);
        self.shard.unlock_later(state, noticed);
        waker
    }

    /// Moves an entry, but not to later if it `must_come`, and returns whether it waits for the new deadline. If that has
    /// passed, wakes the entry immediately.
    pub(crate) fn reset(self, key: Key, deadline: Tick, must_come: bool) -> bool {
        let shard = self.shard;
        let deadline = shard.expiry_here(deadline);
        let mut state = shard.lock();
        if shard.is_past(&state, deadline) {
            let noticed = shard.noticed(&state, key);
            let waker = shard.take_out(&mut state, key);
            shard.unlock_later(state, noticed);
            // A panic would leave the sleep with a stale key.
            catch_panic(|| waker.into_iter().for_each(Waker::wake));
            return false;
        }
        let due = state.wheel.replace_deadline(key, deadline);
        if let Some(due) = due.filter(|due| must_come && *due < deadline) {
            state.wheel.reset(key, due);
        }
        if let Some(due) = due.filter(|_| shard.engine.capacity.is_limited()) {
            shard.engine.capacity.change(takes_room(due), takes_room(state.wheel.deadline(key).unwrap_or(due)));
        }
        let (waits, noticed) = (due.is_some(), due.filter(|_| shard.publishes_removals()));
        if waits && (deadline < shard.next() || noticed.is_some_and(|due| deadline < due)) {
            shard.publish_earlier(state, deadline);
        } else {
            shard.unlock_later(state, noticed);
        }
        waits
    }

    /// Sets an entry's waker. Returns whether the entry is still there: it may have fired, or its timer may have ended.
    pub(crate) fn set_waker(self, key: Key, waker: &Waker) -> bool {
        self.swap_waker(key, waker, None)
            .unwrap_or_else(|| self.swap_waker(key, waker, Some(waker.clone())).unwrap_or(true))
    }

    /// Returns `None` if the entry has another waker and there is no clone to replace it with.
    fn swap_waker(self, key: Key, waker: &Waker, mut clone: Option<Waker>) -> Option<bool> {
        let mut state = self.shard.lock();
        let swapped = match state.wheel.get_mut(key) {
            None => Some(false),
            Some(current) if current.will_wake(waker) => Some(true),
            // Dropped after unlocking, whichever it is.
            Some(current) => clone.as_mut().map(|clone| std::mem::swap(current, clone)).map(|()| true),
        };
        drop(state);
        drop(clone);
        swapped
    }
}
