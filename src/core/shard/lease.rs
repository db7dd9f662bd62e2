//! [`ShardLease`]: a shard as one timer has it, which takes no entries once that timer has ended.

use std::task::Waker;

use super::{EntryState, InsertError, Key, Shard};
use crate::clock;
use crate::core::parking::Parking;
use crate::core::pool::Epoch;
use crate::util::name::Name;
use crate::wheel::{Tick, Ticks};

// Two words, so that it is passed in registers.
#[derive(Clone, Copy)]
pub(crate) struct ShardLease {
    shard: &'static Shard,
    epoch: Epoch,
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

    /// Whether the timer is still its runtime's. See [`Shard::is_default`].
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.shard.is_default(self.epoch)
    }

    /// Whether this is a shard of the timer with this parking and epoch.
    pub(crate) fn is_of(self, parking: &Parking, epoch: Epoch) -> bool {
        self.epoch == epoch && std::ptr::eq(self.shard.parking, parking)
    }

    /// The name of the timer; none if another timer has the shard by now.
    #[cold]
    pub(crate) fn name(self) -> Name {
        let name = self.shard.parking.name();
        // Checked last: see where it is set.
        if self.shard.was_opened_for(self.epoch) { name } else { Name::NONE }
    }

    /// The time on the timer's clock, or on the current runtime's if another timer has the shard by now.
    #[inline]
    pub(crate) fn now(self) -> Tick {
        let clock = &self.shard.parking.clock;
        if clock.is_the_runtimes() { clock::now() } else { self.time_shown() }
    }

    #[cold]
    fn time_shown(self) -> Tick {
        let now = self.shard.parking.clock.now();
        // Checked last: a shard is opened for a timer before that timer's time is shown.
        if self.shard.serves(self.epoch) { now } else { clock::now() }
    }

    /// Whether a deadline has passed by the timer's clock.
    #[inline]
    pub(crate) fn has_come(self, deadline: Tick) -> bool {
        !self.shard.parking.is_surely_future(deadline) && self.now() >= deadline
    }

    /// Whether a deadline, rounded up to the timer's resolution, has passed by the timer's clock.
    #[cold]
    pub(crate) fn has_come_rounded(self, deadline: Tick) -> bool {
        let now = self.now();
        // If another timer has the shard by now, the resolution is that one's.
        now >= deadline && (now >= self.shard.expiry(deadline) || !self.shard.serves(self.epoch()))
    }

    /// Whether the timer rounds deadlines up.
    #[inline]
    pub(crate) fn rounds(self) -> bool {
        self.shard.resolution() > Ticks::ONE
    }

    /// Whether the timer is the process's own.
    #[inline]
    pub(crate) fn is_driverless(self) -> bool {
        // Checked last: a shard is opened for that timer before it is found driverless, and serves it for good.
        self.shard.parking.is_driverless() && self.shard.serves(self.epoch)
    }

    /// See [`Shard::join`].
    pub(crate) fn join(self) {
        self.shard.join(self.epoch);
    }

    /// Removes a user. The timer ends if it was the last and nothing waits.
    pub(crate) fn leave(self) {
        if self.shard.leave(self.epoch) {
            self.shard.parking.unused(self.epoch);
        }
    }

    /// See [`Shard::insert`].
    #[inline]
    pub(crate) fn insert(self, deadline: Tick, waker: Waker) -> Result<Key, InsertError> {
        self.shard.insert(self.epoch, deadline, waker)
    }

    /// See [`Shard::remove`].
    #[inline]
    pub(crate) fn remove(self, key: Key) {
        self.shard.remove(key);
    }

    /// See [`Shard::reset`].
    pub(crate) fn reset(self, key: Key, deadline: Tick) -> bool {
        self.shard.reset(key, deadline)
    }

    /// See [`Shard::set_waker`].
    pub(crate) fn set_waker(self, key: Key, waker: &Waker) -> EntryState {
        self.shard.set_waker(self.epoch, key, waker)
    }

    /// See [`Shard::has_fired`].
    #[inline]
    pub(crate) fn has_fired(self, deadline: Tick) -> bool {
        self.shard.has_fired(self.epoch, deadline)
    }

    /// See [`Shard::holds`].
    pub(crate) fn holds(self, key: Key, deadline: Tick) -> bool {
        self.shard.holds(self.epoch, key, deadline)
    }

    /// See [`Shard::address`].
    #[inline]
    pub(crate) fn address(self) -> usize {
        self.shard.address()
    }
}
