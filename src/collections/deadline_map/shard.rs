//! The shards of a map: each is a lock around a hash table of entries and their timers.
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
// 9. While a thread runs a closure for a map, `INNERMOST` or `OUTER` names that map, and the thread locks no shard of
//    it: two threads in two shards could wait for each other.
// 10. No deadline is later than the end of the entry's lifetime, which is set when an insert sets the value.
// 11. The time of one operation after another never goes back, unless the clock does: `MapState::now`. The wheel is
//     never ahead of it. So an operation that was held up between its clock and the lock undoes nothing.

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::ptr;
#[cfg(feature = "metrics")]
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

use super::builder::{Config, TryInsertError};
use super::consumer::Consumer;
use super::state::{Entry, Insert, Lookup, MapState};
use crate::clock;
use crate::clock::source::LAST;
use crate::collections::Metrics;
#[cfg(feature = "metrics")]
use crate::collections::published::{Published, Publisher};
use crate::core::capacity::Capacity;
use crate::core::parker::Next;
use crate::future::{LazySleep, TimerKind, now_on, sleep_made_at};
use crate::timer::Timer;
use crate::util::panics::drop_all;
use crate::util::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard, unpoisoned};
use crate::wheel::Tick;

/// The lowest bit of a hash that selects the shard: above the bits that tables use as an index, below those they
/// compare.
const SHARD_BITS_FROM: u32 = 32;

/// How many expired entries an insert drops if there is no consumer.
const DISCARDED: usize = 2;

/// Shared by the handles of a map and its stream. A shard that never had an entry takes 24 bytes.
pub(super) struct Shared<K, V> {
    /// The tick at which each shard next has work; `Tick::MAX` if it has no entries.
    // Separate from the data that each operation reads: the consumer reads few cache lines.
    next: Box<[Next]>,
    /// `None` if there never was an entry.
    states: Box<[Made<K, V>]>,
    pub(super) capacity: Capacity,
    max_lifetime: Option<Duration>,
    pub(super) consumer: Consumer,
    pub(super) name: Option<&'static str>,
    /// The stream waits on it, and the map reads its clock.
    pub(super) timer: Option<Timer>,
    made: &'static Location<'static>,
    /// The number of handles. Without any, the stream ends once it is empty.
    pub(super) handles: AtomicUsize,
}

type Made<K, V> = OnceLock<Box<LockedState<K, V>>>;

pub(super) struct MapShard<'a, K, V> {
    map: &'a Shared<K, V>,
    next: &'a Next,
    state: &'a Made<K, V>,
}

// Two cache lines, because CPUs prefetch them in pairs.
#[repr(align(128))]
struct LockedState<K, V>(Mutex<MapState<K, V>>);

impl<K, V> Shared<K, V> {
    /// A map with one handle. The number of shards is a power of two.
    #[track_caller]
    pub(super) fn new(config: Config) -> Self {
        let Config { shards, max_entries: most, max_lifetime, timer, name } = config;
        let capacity = Capacity::new();
        capacity.open(most);
        let map = Shared {
            next: (0..shards).map(|_| Next::never()).collect(),
            states: (0..shards).map(|_| OnceLock::new()).collect(),
            capacity,
            max_lifetime,
            consumer: Consumer::new(),
            name,
            timer,
            made: Location::caller(),
            handles: AtomicUsize::new(1),
        };
        // Created now: if a test has paused the clock here, the sleep stays on that clock.
        map.consumer.stop_waiting(Some(map.endless_sleep()));
        map
    }

    pub(super) fn endless_sleep(&self) -> LazySleep {
        let sleep = sleep_made_at(self.timer.as_ref(), Tick::MAX, self.made);
        LazySleep::new(sleep.of(TimerKind::DeadlineMap))
    }

    #[inline]
    pub(super) fn now(&self) -> Tick {
        now_on(self.timer.as_ref())
    }

    pub(super) fn metrics(&self) -> Metrics {
        let (refused, capacity) = (self.capacity.refused(), self.capacity.most());
        let mut metrics = Metrics { refused, max_entries: capacity, ..Metrics::default() };
        self.iter().for_each(|shard| shard.count(&mut metrics));
        metrics
    }

    /// Identifies this map: not zero.
    #[inline]
    fn id(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.handles.load(SeqCst) == 0
    }

    #[inline]
    pub(super) fn shard_for(&self, hash: u64) -> MapShard<'_, K, V> {
        let number = self.number_of(hash);
        MapShard { map: self, next: &self.next[number], state: &self.states[number] }
    }

    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize & (self.states.len() - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = MapShard<'_, K, V>> {
        self.next.iter().zip(&self.states).map(|(next, state)| MapShard { map: self, next, state })
    }

    /// Inserts an entry, or replaces the value and the deadline of a live one. Returns the old value.
    #[inline]
    pub(super) fn insert(&self, new: Insert<K, V>) -> Result<Option<V>, TryInsertError<K, V>>
    where
        K: Eq,
    {
        self.insert_with::<true, _, _>(new, mem::swap, |value| (value, ())).map(|((), old)| old)
    }

    /// Inserts an entry, or returns the value if the key has a live one.
    pub(super) fn insert_if_absent(&self, new: Insert<K, V>) -> Result<Option<V>, TryInsertError<K, V>>
    where
        K: Eq,
    {
        self.insert_with::<false, _, _>(new, |_, _| (), |value| (value, ())).map(|((), refused)| refused)
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
    ) -> Result<(R, Option<T>), TryInsertError<K, T>>
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
            TryInsertError { key, value, max_entries: self.capacity.most().unwrap_or_default(), name: self.name }
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

    /// Runs `code` of the user under the lock of one of the map's shards.
    #[inline]
    pub(super) fn inside<R>(&self, code: impl FnOnce() -> R) -> R {
        let _inside = Inside::enter(self.id());
        code()
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

    /// Entries were removed or postponed. A paused clock must not jump to their old deadlines.
    pub(super) fn postponed(&self) {
        if self.consumer.is_exact() {
            self.consumer.postponed(self.iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX));
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

impl<K, V> LockedState<K, V> {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, MapState<K, V>> {
        // User code may have panicked, but only while the shard was consistent.
        unpoisoned(self.0.lock())
    }
}

impl<'a, K, V> MapShard<'a, K, V> {
    /// Returns `None` if the shard never had an entry.
    #[inline]
    fn lock(&self) -> Option<MutexGuard<'a, MapState<K, V>>> {
        check(self.map.id());
        Some(self.state.get()?.lock())
    }

    /// Locks the shard for an operation that has read `now`. If another has read the clock since and was faster, sets
    /// `now` to the present.
    #[inline]
    fn lock_at(&self, now: &mut Tick) -> Option<MutexGuard<'a, MapState<K, V>>> {
        check(self.map.id());
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
    fn set_back(&self, mut guard: MutexGuard<'_, MapState<K, V>>, now: Tick) {
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
    /// Returns what the function returned, and in the second case what was given, after the function. If the map is at
    /// capacity, returns `new`.
    pub(super) fn insert<const REPLACES: bool, T, R>(
        &self,
        mut new: Insert<K, T>,
        live: impl FnOnce(&mut T, &mut V) -> R,
        make: impl FnOnce(T) -> (V, R),
    ) -> Result<(R, Option<T>), Insert<K, T>>
    where
        K: Eq,
    {
        check(self.map.id());
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
        Ok((answer, unused.map(drop_key)))
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
    fn clear(&self) -> Option<MapState<K, V>> {
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
    fn discard(&self, mut now: Tick) -> Option<(K, V)> {
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
    fn unlock_without(&self, mut guard: MutexGuard<'_, MapState<K, V>>, taken: usize) {
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
    fn unlock(&self, guard: MutexGuard<'_, MapState<K, V>>, registered: Option<Tick>) {
        match registered {
            _ if self.map.consumer.is_exact() => self.unlock_exactly(guard),
            Some(deadline) if self.next.registered(deadline) => {
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

    fn publish(&self, state: &MapState<K, V>) -> Tick {
        self.next.publish(state.next())
    }
}

/// Drops the key, outside the lock. If it is dropped as the value is being returned, a panic leaks the value.
fn drop_key<K, V>((key, value): (K, V)) -> V {
    drop(key);
    value
}

thread_local! {
    /// The map that runs a closure on this thread, the innermost if there are several; zero for none.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
    /// The other maps: a closure may use another map. This has no destructor, because those of a thread may use maps.
    /// It is empty by then, and owns no memory.
    static OUTER: RefCell<ManuallyDrop<Vec<usize>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

struct Inside {
    outer: usize,
}

/// Panics if this thread runs a closure for this map.
// Three instructions if no closure runs.
#[inline]
fn check(map: usize) {
    if INNERMOST.get() != 0 {
        check_all(map);
    }
}

#[cold]
fn check_all(map: usize) {
    let is_inside = INNERMOST.get() == map || OUTER.with_borrow(|others| others.contains(&map));
    assert!(!is_inside, "a closure for a `DeadlineMap`, or `Clone` of its value, used the same map, which is locked");
}

impl Inside {
    /// Called under the lock of one of the map's shards.
    #[inline]
    fn enter(map: usize) -> Inside {
        let outer = INNERMOST.replace(map);
        if outer != 0 {
            OUTER.with_borrow_mut(|others| others.push(outer));
        }
        Inside { outer }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
        if self.outer != 0 {
            OUTER.with_borrow_mut(|others| {
                others.pop();
                if others.is_empty() {
                    **others = Vec::new();
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
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
