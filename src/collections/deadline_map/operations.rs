//! The operations of a map, each on the shard of its key, or on all shards.

use std::borrow::Borrow;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(feature = "metrics")]
use std::sync::Arc;

use super::builder::TryInsertError;
use super::shard::{Inserted, MapShard, drop_key};
use super::shared::Shared;
use super::state::{Entry, Insert, Lookup, MapState};
use crate::collections::Metrics;
#[cfg(feature = "metrics")]
use crate::collections::published::{Published, Publisher};
use crate::util::panics::drop_all;
use crate::wheel::Tick;

/// The lowest bit of a hash that selects the shard: above the bits that tables use as an index, below those they
/// compare.
const SHARD_BITS_FROM: u32 = 32;

/// How many expired entries an insert drops if there is no consumer.
const DISCARDED: usize = 2;

impl<K, V> Shared<K, V> {
    pub(super) fn metrics(&self) -> Metrics {
        let (refused, capacity) = (self.capacity.refused(), self.capacity.most());
        let mut metrics = Metrics { refused, max_entries: capacity, ..Metrics::default() };
        self.iter().for_each(|shard| shard.count(&mut metrics));
        metrics
    }

    #[inline]
    pub(super) fn shard_for(&self, hash: u64) -> MapShard<'_, K, V> {
        MapShard::new(self, self.number_of(hash))
    }

    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize & (self.states.len() - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = MapShard<'_, K, V>> {
        (0..self.states.len()).map(|number| MapShard::new(self, number))
    }

    /// Inserts an entry, or replaces the value and the deadline of a live one. Returns the old value.
    #[inline]
    pub(super) fn insert(&self, new: Insert<K, V>) -> Result<Option<V>, TryInsertError<K, V>>
    where
        K: Eq,
    {
        self.insert_with::<true, _, _>(new, mem::swap, |value| (value, ())).map(|((), old)| old.map(drop_key))
    }

    /// Inserts an entry, unless the key has a live one.
    pub(super) fn insert_if_absent(&self, new: Insert<K, V>) -> Result<(), TryInsertError<K, V>>
    where
        K: Eq,
    {
        match self.insert_with::<false, _, _>(new, |_, _| (), |value| (value, ()))? {
            ((), None) => Ok(()),
            ((), Some((key, value))) => Err(TryInsertError { key, value, max_entries: None, name: self.name }),
        }
    }

    /// Returns a clone of the live value of a key. Without one, inserts what the function in `new` returns.
    pub(super) fn get_or_insert_with<F: FnOnce() -> V>(&self, new: Insert<K, F>) -> Result<V, TryInsertError<K, F>>
    where
        K: Eq,
        V: Clone,
    {
        // If this panics, the value is in the map. The panic is resumed outside the lock.
        let clone = |value: &V| catch_unwind(AssertUnwindSafe(|| self.inside(|| value.clone())));
        let make = |code: F| {
            let made = catch_unwind(AssertUnwindSafe(|| self.inside(code)));
            let value = made.unwrap_or_else(|payload| {
                self.capacity.give(1);
                resume_unwind(payload)
            });
            let cloned = clone(&value);
            (value, cloned)
        };
        let (cloned, _) = self.insert_with::<false, _, _>(new, |_, value| clone(value), make)?;
        Ok(cloned.unwrap_or_else(|payload| resume_unwind(payload)))
    }

    /// Does what [`MapShard::insert`] does, and makes room if there is no consumer.
    #[inline]
    fn insert_with<const REPLACES: bool, T, R>(
        &self,
        new: Insert<K, T>,
        live: impl FnOnce(&mut T, &mut V) -> R + Copy,
        make: impl FnOnce(T) -> (V, R) + Copy,
    ) -> Result<Inserted<K, T, R>, TryInsertError<K, T>>
    where
        K: Eq,
    {
        let (shard, now) = (self.shard_for(new.hash), new.now);
        let mut inserted = shard.insert::<REPLACES, _, _>(new, live, make);
        if self.consumer.is_gone() {
            // Another thread, or the drop of what made room, may take that first.
            while inserted.is_err() && self.make_room(now) {
                inserted = inserted.or_else(|refused| shard.insert::<REPLACES, _, _>(refused, live, make));
            }
            // Nothing else takes them.
            (0..DISCARDED).take_while(|_| shard.next() <= now).for_each(|_| drop(shard.discard(now)));
        }
        inserted.map_err(|Insert { key, value, .. }| {
            self.capacity.refuse();
            TryInsertError { key, value, max_entries: self.capacity.most(), name: self.name }
        })
    }

    /// Removes a live entry if `goes` returns `true` for its value.
    pub(super) fn remove_if<Q>(&self, mut lookup: Lookup<'_, Q>, goes: impl FnOnce(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let shard = self.shard_for(lookup.hash);
        let mut guard = shard.lock_at(&mut lookup.now)?;
        let (found, timers) = guard.find_live(lookup)?;
        if !self.inside(|| goes(&found.get().value)) {
            return None;
        }
        let (entry, _) = found.remove();
        entry.remove_timer(timers);
        shard.unlock_without(guard, 1);
        Some(drop_key((entry.key, entry.value)))
    }

    /// Runs `code` on a live entry, then sets the deadline, if any. Both closures get the time of the operation.
    #[inline]
    pub(super) fn visit<Q, R>(
        &self,
        mut lookup: Lookup<'_, Q>,
        deadline: impl FnOnce(&Entry<K, V>, Tick) -> Option<Tick>,
        code: impl FnOnce(&mut Entry<K, V>, Tick) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let shard = self.shard_for(lookup.hash);
        let mut guard = shard.lock_at(&mut lookup.now)?;
        let now = lookup.now;
        let (found, timers) = guard.find_live(lookup)?;
        let entry = found.into_mut();
        let result = self.inside(|| code(entry, now));
        if let Some(deadline) = deadline(entry, now) {
            let registered = entry.move_to(deadline, timers, self.consumer.is_exact());
            shard.unlock(guard, registered);
        }
        Some(result)
    }

    /// Drops one expired entry of a map that is full and has no consumer. Returns whether there was one.
    #[cold]
    fn make_room(&self, now: Tick) -> bool {
        for shard in self.iter() {
            while shard.next() <= now {
                if shard.discard(now).is_some() {
                    return true;
                }
            }
        }
        false
    }

    pub(super) fn clear(&self) {
        // Empty all shards before dropping anything, because that runs user code.
        let taken: Vec<_> = self.iter().filter_map(|shard| shard.clear()).collect();
        self.postponed();
        let entries = |state: MapState<K, V>| {
            state.table.into_iter().map(|entry| (entry.key, entry.value)).chain(state.displaced)
        };
        drop_all(taken.into_iter().flat_map(entries));
    }

    /// From now on, a paused clock must not jump to deadlines that were postponed. Lets the timers follow that have not
    /// yet.
    #[cold]
    pub(super) fn be_exact(&self) {
        self.consumer.be_exact();
        for shard in self.iter() {
            let Some(mut guard) = shard.lock() else { continue };
            let MapState { table, timers, .. } = &mut *guard;
            table.iter().for_each(|entry| _ = entry.move_timer(timers, true));
            shard.publish(&guard);
        }
    }

    /// The stream's clock shows an earlier time than before.
    #[cold]
    pub(super) fn set_back(&self, now: Tick) {
        for shard in self.iter() {
            if let Some(guard) = shard.lock() {
                shard.set_back(guard, now);
            }
        }
    }
}

#[cfg(feature = "metrics")]
impl<K, V> Shared<K, V> {
    /// A function that reads the counters for a reporter, without keeping the map alive.
    pub(super) fn reader(self: &Arc<Self>) -> impl Fn() -> Published + use<K, V> {
        let (map, last) = (Arc::downgrade(self), self.consumer.publisher.get_or_init(Publisher::default).reader());
        let present = move || map.upgrade().map(|map| Published { counts: map.metrics(), is_over: false });
        move || present().unwrap_or_else(&last)
    }
}

impl<K, V> Drop for Shared<K, V> {
    fn drop(&mut self) {
        #[cfg(feature = "metrics")]
        if let Some(publisher) = self.consumer.publisher.get() {
            publisher.publish(self.metrics());
        }
        // A table that is dropped forgets the entries behind one whose drop panics.
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::builder::Config;
    use super::super::state::Expiry;
    use super::*;

    #[test]
    fn unordered_entries_after_a_long_rest_cascade_once() {
        const COUNT: u64 = 1_000;
        let map = Shared::new(Config { shards: 1, ..Config::default() });
        let shard = map.shard_for(0);
        let first = 1_576_800_000_123_456_789;
        for n in 0..COUNT {
            let deadline = Tick(first + n * 7_919 % COUNT);
            assert_eq!(
                map.insert(Insert { hash: n, key: n, value: (), expires: Expiry::At(deadline), now: Tick::ZERO }),
                Ok(None)
            );
        }
        while shard.next() <= Tick(first) {
            let due = shard.take_due(Tick(first));
            assert!(due.is_none_or(|(key, ())| key == 0));
        }
        let state = shard.lock().expect("there are entries");
        let wheel = state.timers.as_ref().expect("they are many");
        assert_eq!((wheel.len() as u64, wheel.cascaded()), (COUNT - 1, COUNT));
    }

    #[test]
    fn a_life_ends_when_it_would_have_if_its_entry_goes_back_into_the_wheel() {
        const COUNT: u64 = 1_000;
        const LIFETIME: u64 = 100_000;
        let max_lifetime = Some(Duration::from_nanos(LIFETIME));
        let map = Shared::new(Config { shards: 1, max_lifetime, ..Config::default() });
        let shard = map.shard_for(0);
        let start = 1_576_800_000_123_456_789;
        for n in 0..COUNT {
            let (deadline, now) = (Tick(start + 10_000), Tick(start + n));
            assert_eq!(map.insert(Insert { hash: n, key: n, value: (), expires: Expiry::At(deadline), now }), Ok(None));
            let touched = map.visit(Lookup { hash: n, key: &n, now }, |_, _| Some(Tick(start + 50_000)), |_, _| ());
            assert!(touched.is_some());
        }
        let now = Tick(start + 20_000);
        while shard.next() <= now {
            assert_eq!(shard.take_due(now), None);
        }
        for n in 0..COUNT {
            map.visit(Lookup { hash: n, key: &n, now }, |_, _| Some(Tick::MAX), |_, _| ());
            let deadline = map.visit(Lookup { hash: n, key: &n, now }, |_, _| None, |entry, _| entry.deadline);
            assert_eq!(deadline, Some(Tick(start + n + LIFETIME)));
        }
    }
}
