//! [`MapShard`]: a lock around a hash table of entries and their timers.
//
// Invariants
// 1. Each entry knows its hash, either directly or through its timer. A timer can find its entry, and a growing table
//    can rehash, without running the key's code.
// 2. The timer of an entry is never later than its deadline. Postponing a deadline only writes it to the entry; the
//    timer follows when it fires. Once a test has paused a clock, which jumps to timers, it follows immediately.
// 3. `next` is never later than the earliest timer, or without timers than the earliest deadline. It is `Tick::MAX`
//    exactly if the shard is empty, and changes only under the lock.
// 4. One lock hold moves or removes a bounded number of entries, unless the hash table grows or shrinks, or the clock
//    is behind `now`. That happens only if a test has advanced another clock, and once per shard: the wheel files all
//    of its entries again.
// 5. User code runs under the lock in two cases: `Eq` and `Borrow` of keys, before anything has changed; and closures
//    that use or make values, and `Clone` of values, while the shard is consistent. If one panics, its entry stays, and
//    entries already removed stay removed. No closure sees an expired entry. Keys and values are dropped, and tasks
//    woken, outside the lock.
// 6. Each entry takes one unit of `capacity`, which is given back under the lock when the entry is removed.
// 7. Only the stream sees expired entries. If the key of one is inserted again, the expired entry is displaced: it
//    leaves the table, is due at tick 0, and comes out before the entries in the table.
// 8. A shard is allocated for its first entry. Until then it counts as empty.
// 9. No deadline is later than the end of the entry's lifetime, which is set when an insert sets the value.
// 10. The time of one operation after another never goes back, unless the clock does: `MapState::now`. The wheel is
//     never ahead of it. So an operation that was held up between its clock and the lock undoes nothing.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::shared::Shared;
use super::state::{Entry, Insert, LockedState, Made, MapState};
use crate::clock;
use crate::clock::source::LAST;
use crate::collections::Metrics;
use crate::core::parker::Next;
use crate::util::panics::drop_all;
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;

/// The answer of an insert, and what it was given if the key has a live entry.
pub(super) type Inserted<K, T, R> = (R, Option<(K, T)>);

pub(super) struct MapShard<'a, K, V> {
    map: &'a Shared<K, V>,
    next: &'a Next,
    state: &'a Made<K, V>,
}

impl<'a, K, V> MapShard<'a, K, V> {
    #[inline]
    pub(super) fn new(map: &'a Shared<K, V>, number: usize) -> Self {
        MapShard { map, next: &map.next[number], state: &map.states[number] }
    }

    /// Returns `None` if the shard never had an entry.
    #[inline]
    pub(super) fn lock(&self) -> Option<MutexGuard<'a, MapState<K, V>>> {
        self.map.check();
        Some(self.state.get()?.lock())
    }

    /// Locks the shard for an operation that has read `now`. If another has read the clock since and was faster, sets
    /// `now` to the present.
    #[inline]
    pub(super) fn lock_at(&self, now: &mut Tick) -> Option<MutexGuard<'a, MapState<K, V>>> {
        self.map.check();
        Some(self.lock_state_at(self.state.get()?, now))
    }

    #[inline]
    fn lock_state_at(&self, state: &'a LockedState<K, V>, now: &mut Tick) -> MutexGuard<'a, MapState<K, V>> {
        let mut guard = state.lock();
        if *now < guard.now {
            (guard, *now) = self.look_again(state, guard);
        }
        guard.now = *now;
        guard
    }

    #[cold]
    #[inline(never)]
    fn look_again(
        &self,
        state: &'a LockedState<K, V>,
        mut guard: MutexGuard<'a, MapState<K, V>>,
    ) -> (MutexGuard<'a, MapState<K, V>>, Tick) {
        loop {
            let now = self.map.now();
            if now >= guard.now {
                return (guard, now);
            }
            // This is another clock, which is behind.
            self.set_back(guard, now);
            guard = state.lock();
        }
    }

    /// Sets the shard's time back, and unlocks.
    pub(super) fn set_back(&self, mut guard: MutexGuard<'_, MapState<K, V>>, now: Tick) {
        guard.set_back(now);
        let next = self.publish(&guard);
        drop(guard);
        self.map.consumer.registered(next);
    }

    #[cold]
    fn make(&self) -> &'a LockedState<K, V> {
        // Allocate outside `get_or_init`, where others would wait. Wasted if another thread was faster.
        let made = Box::new(LockedState(Mutex::new(MapState::new())));
        self.state.get_or_init(|| made)
    }

    /// A tick no later than the next work; `Tick::MAX` if there are no entries. Takes no lock.
    pub(super) fn next(&self) -> Tick {
        self.next.get()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().map_or(0, |state| state.len())
    }

    pub(super) fn count(&self, metrics: &mut Metrics) {
        let Some(state) = self.lock() else { return };
        metrics.inserted += state.inserted;
        metrics.expired += state.expired;
        metrics.pending += state.len() as u64;
    }

    /// If the key has no live entry, inserts one with the value that `make` returns. Otherwise calls `live` with what
    /// was given and the live value, and begins a new life if `REPLACES`.
    ///
    /// Returns what the function returned, and in the second case the key and what was given. If the map is at capacity,
    /// returns `new`.
    pub(super) fn insert<const REPLACES: bool, T, R>(
        &self,
        mut new: Insert<K, T>,
        live: impl FnOnce(&mut T, &mut V) -> R,
        make: impl FnOnce(T) -> (V, R),
    ) -> Result<Inserted<K, T, R>, Insert<K, T>>
    where
        K: Eq,
    {
        self.map.check();
        let state = self.state.get().map_or_else(|| self.make(), |locked| &**locked);
        let mut guard = self.lock_state_at(state, &mut new.now);
        let MapState { table, timers, displaced, inserted, .. } = &mut *guard;
        let is_exact = self.map.consumer.is_exact();
        let end = self.map.max_lifetime.map_or(LAST, |lifetime| clock::later(new.now, lifetime).min(LAST));
        let (answer, unused, registered) = match table.find_mut(new.hash, |entry| entry.key == new.key) {
            Some(entry) if !entry.has_expired(new.now) => {
                let answer = live(&mut new.value, &mut entry.value);
                let Insert { expires, now, .. } = new;
                let registered =
                    if REPLACES { entry.restart(expires.tick(now), now, end, timers, is_exact) } else { None };
                (answer, Some((new.key, new.value)), registered)
            }
            found => {
                if self.map.capacity.take(1).is_err() {
                    // The caller drops it outside the lock.
                    return Err(new);
                }
                let (value, answer) = make(new.value);
                let Insert { hash, key, expires, now, .. } = new;
                *inserted += 1;
                let due = if let Some(entry) = found {
                    entry.restart(expires.tick(now), now, end, timers, is_exact);
                    displaced.push_back((mem::replace(&mut entry.key, key), mem::replace(&mut entry.value, value)));
                    Tick::ZERO
                } else {
                    guard.insert(Insert { hash, key, value, expires, now }, end)
                };
                (answer, None, Some(due))
            }
        };
        self.unlock(guard, registered);
        Ok((answer, unused))
    }

    pub(super) fn visit_all(&self, now: Tick, code: impl FnMut(&Entry<K, V>)) {
        let Some(guard) = self.lock() else { return };
        let alive = guard.table.iter().filter(|entry| !entry.has_expired(now));
        self.map.inside(|| alive.for_each(code));
    }

    /// Entries that `keep` rejects are dropped outside the lock, even if it panics.
    pub(super) fn retain(&self, mut now: Tick, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let Some(mut guard) = self.lock_at(&mut now) else { return };
        let MapState { table, timers, .. } = &mut *guard;
        let mut taken = Vec::new();
        let goes = |entry: &mut Entry<K, V>| !entry.has_expired(now) && !keep(&entry.key, &mut entry.value);
        let kept = catch_unwind(AssertUnwindSafe(|| {
            self.map.inside(|| {
                for entry in table.extract_if(goes) {
                    entry.remove_timer(timers);
                    taken.push(entry);
                }
            });
        }));
        self.unlock_without(guard, taken.len());
        // Drop before resuming the panic: a second panic in a drop would abort.
        drop_all(taken);
        if let Err(payload) = kept {
            resume_unwind(payload);
        }
    }

    /// Takes out all entries, for the caller to drop.
    pub(super) fn clear(&self) -> Option<MapState<K, V>> {
        let mut guard = self.lock()?;
        self.map.capacity.give(guard.len());
        let MapState { inserted, expired, now, .. } = *guard;
        let empty = MapState { inserted, expired, now, ..MapState::new() };
        let taken = mem::replace(&mut *guard, empty);
        self.publish(&guard);
        Some(taken)
    }

    /// What the stream takes at its time. After `None` there may be more to do if `next` is not after `now`.
    pub(super) fn take_due(&self, now: Tick) -> Option<(K, V)> {
        let mut guard = self.lock()?;
        guard.now = guard.now.max(now);
        self.unlock_with_due(guard, now)
    }

    /// The same for an insert if there is no stream.
    pub(super) fn discard(&self, mut now: Tick) -> Option<(K, V)> {
        let guard = self.lock_at(&mut now)?;
        self.unlock_with_due(guard, now)
    }

    #[inline]
    fn unlock_with_due(&self, mut guard: MutexGuard<'_, MapState<K, V>>, now: Tick) -> Option<(K, V)> {
        let due = guard.take_due(now);
        if due.is_some() {
            self.map.capacity.give(1);
        }
        guard.shrink();
        self.publish(&guard);
        due
    }

    #[inline]
    pub(super) fn unlock_without(&self, mut guard: MutexGuard<'_, MapState<K, V>>, taken: usize) {
        self.map.capacity.give(taken);
        guard.shrink();
        if self.map.consumer.is_exact() {
            self.unlock_exactly(guard);
        } else if guard.is_empty() {
            self.next.publish(None);
        }
    }

    /// Unlocks, then tells the consumer if there is earlier work.
    #[inline]
    pub(super) fn unlock(&self, guard: MutexGuard<'_, MapState<K, V>>, registered: Option<Tick>) {
        match registered {
            _ if self.map.consumer.is_exact() => self.unlock_exactly(guard),
            Some(deadline) if self.next.lower_to(deadline) => {
                drop(guard);
                self.map.consumer.registered(deadline);
            }
            _ => drop(guard),
        }
    }

    /// Unlocks, and also tells the consumer if the earliest work is now later.
    #[cold]
    fn unlock_exactly(&self, guard: MutexGuard<'_, MapState<K, V>>) {
        let before = self.next();
        let next = self.publish(&guard);
        drop(guard);
        if next < before {
            self.map.consumer.registered(next);
        } else if next > before {
            self.map.postponed();
        }
    }

    pub(super) fn publish(&self, state: &MapState<K, V>) -> Tick {
        self.next.publish(state.next())
    }
}

/// Drops the key, outside the lock. If it is dropped as the value is being returned, a panic leaks the value.
pub(super) fn drop_key<K, V>((key, value): (K, V)) -> V {
    drop(key);
    value
}
