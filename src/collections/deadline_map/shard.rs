//! A shard of a map: one lock around a hash table of entries and the timers that they wait for.
//
// Invariants
// 1. Each entry of the table has one timer, which it names (`timer`) and which holds its hash, and each timer has an
//    entry. So a timer finds its entry, and a growing table finds the hash, without running the key's code.
// 2. The timer of an entry is never later than the entry's deadline. A deadline that moves later is only written to the
//    entry; the timer follows when it fires, at or before the deadline. If a clock would jump to it, the timer moves at
//    once.
// 3. `next` is never later than the earliest timer, and is `Tick::MAX` exactly if the shard is empty. It changes only
//    under the lock.
// 4. A bounded number of entries is taken out or moved per hold of the lock.
// 5. Of the user's code, `Eq` and `Borrow` of keys run under the lock before anything has changed, and closures on
//    values (`visit.rs`) while the shard is whole. Keys and values are dropped outside it, and nobody is
//    woken under it.
// 6. Each entry has taken room of `capacity`, which is given back under the lock as the entry is taken out.
// 7. After its deadline an entry is there for the stream only. If its key is inserted anew it is displaced: it makes
//    room in the table, is due at tick 0, and comes out before what the table holds.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;
use std::ptr;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use super::inside;
use super::state::{Counts, Entry, State, register_one_of_few};
use super::timers::Timers;
use crate::clock;
use crate::core::capacity::Capacity;
use crate::core::parker::Next;
use crate::util::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;

/// The lowest bit of a hash that selects the shard: above the bits that tables use as an index, below those that they
/// compare.
const SHARD_BITS_FROM: u32 = 32;

/// The latest deadline. The tick after it means "none".
const LAST: Tick = Tick(u64::MAX - 1);

/// The shards of a map. One that never had an entry takes 24 bytes.
pub(super) struct Shards<K, V> {
    /// When each shard next has work; `Tick::MAX` if it has no entry.
    // Side by side, so that the consumer reads few cache lines, and apart from what each operation reads.
    next: Box<[Next]>,
    /// `None` if there never was an entry.
    states: Box<[Made<K, V>]>,
    /// Whether a clock jumps to `next`. Then `next` is exact: it follows what is removed or put off. Read under the
    /// lock of a shard.
    drives_clock: AtomicBool,
    capacity: Capacity,
}

type Made<K, V> = OnceLock<Box<Locked<K, V>>>;

/// A shard, by its number.
pub(super) struct Shard<'a, K, V> {
    shards: &'a Shards<K, V>,
    number: usize,
}

// On a cache line of its own, with the next one, which processors fetch along with it.
#[repr(align(128))]
struct Locked<K, V>(Mutex<State<K, V>>);

/// How long an entry lives, and from when.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) now: Tick,
    pub(super) duration: Duration,
}

/// The consumer that waits for the entries of a map.
pub(super) trait Waits {
    /// A deadline was inserted that is the earliest of its shard, and the shard has published it.
    fn registered(&self, deadline: Tick);

    /// The first entry of a shard was removed or put off, and the shard has published what is left. Only called if a
    /// clock jumps to deadlines here.
    fn put_off(&self);
}

impl Term {
    /// The term of an entry that expires at `deadline`.
    pub(super) fn until(deadline: Tick) -> Term {
        Term { now: deadline, duration: Duration::ZERO }
    }

    /// The deadline. Counted from `elapsed` if that is later, so that a clock that was behind ends nothing early.
    #[inline]
    pub(super) fn end(self, timers: &Timers) -> Tick {
        clock::later(self.now.max(timers.elapsed()), self.duration).min(LAST)
    }
}

impl<K, V> Shards<K, V> {
    /// `count` shards, a power of two, with room for at most so many entries in all.
    pub(super) fn new(count: usize, most: Option<usize>) -> Self {
        let capacity = Capacity::new();
        capacity.open(most);
        Shards {
            next: (0..count).map(|_| Next::never()).collect(),
            states: (0..count).map(|_| OnceLock::new()).collect(),
            drives_clock: AtomicBool::new(false),
            capacity,
        }
    }

    /// From now on a clock jumps to deadlines here.
    pub(super) fn drive_clock(&self) {
        self.drives_clock.store(true, SeqCst);
        self.iter().for_each(|shard| shard.update_timers());
    }

    /// The shard that a hash leads to.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> Shard<'_, K, V> {
        Shard { shards: self, number: self.number_of(hash) }
    }

    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize & (self.states.len() - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Shard<'_, K, V>> {
        (0..self.next.len()).map(|number| Shard { shards: self, number })
    }
}

impl<K, V> Locked<K, V> {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // The user's code may panic, but while the shard is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a, K, V> Shard<'a, K, V> {
    #[inline]
    fn state(&self) -> &'a Made<K, V> {
        &self.shards.states[self.number]
    }

    #[inline]
    fn published(&self) -> &Next {
        &self.shards.next[self.number]
    }

    /// `None` if there never was an entry.
    ///
    /// # Panics
    /// If this is called by a closure that this map runs.
    #[inline]
    pub(super) fn lock(&self) -> Option<MutexGuard<'a, State<K, V>>> {
        inside::check(self.map());
        Some(self.state().get()?.lock())
    }

    /// What tells this map from others.
    #[inline]
    pub(super) fn map(&self) -> usize {
        ptr::from_ref(self.shards).addr()
    }

    #[cold]
    fn make(&self) -> &'a Locked<K, V> {
        // Allocate outside `get_or_init`, in which others would wait. In vain if another thread was quicker.
        let made = Box::new(Locked(Mutex::new(State::new())));
        self.state().get_or_init(|| made)
    }

    /// When there is work here: never too late, and `Tick::MAX` if there is no entry. Takes no lock.
    pub(super) fn next(&self) -> Tick {
        self.published().get()
    }

    pub(super) fn len(&self) -> usize {
        self.lock().map_or(0, |state| state.len())
    }

    /// What the shard has done, and the number of its entries.
    pub(super) fn counts(&self) -> (Counts, usize) {
        self.lock().map_or((Counts::default(), 0), |state| (state.counts, state.len()))
    }

    #[inline]
    pub(super) fn drives_clock(&self) -> bool {
        self.shards.drives_clock.load(Relaxed)
    }

    /// Moves the timers to the deadlines that were only written to their entries.
    fn update_timers(&self) {
        let Some(mut guard) = self.lock() else { return };
        let State { table, timers, .. } = &mut *guard;
        for entry in table.iter_mut() {
            timers.reset(entry.timer, entry.deadline);
        }
        self.publish(&guard);
    }

    /// Inserts an entry, or gives the entry of that key another value and deadline unless it has expired at `now`. If
    /// the map is full, returns the key and the value.
    pub(super) fn insert(
        &self,
        waits: &impl Waits,
        hash: u64,
        key: K,
        value: V,
        term: Term,
        now: Tick,
    ) -> Result<Option<V>, (K, V)>
    where
        K: Eq,
    {
        inside::check(self.map());
        let mut guard = self.state().get().map_or_else(|| self.make(), |locked| &**locked).lock();
        let State { table, timers, displaced, counts } = &mut *guard;
        let deadline = term.end(timers);
        let (replaced, registered) = match table.find_mut(hash, |entry| entry.key == key) {
            Some(entry) if !entry.has_expired(now) => {
                let registered = entry.move_to(deadline, timers, self.drives_clock());
                (Some(mem::replace(&mut entry.value, value)), registered.then_some(deadline))
            }
            // The caller drops them outside the lock.
            _ if self.shards.capacity.take().is_err() => return Err((key, value)),
            Some(entry) => {
                counts.inserted += 1;
                entry.move_to(deadline, timers, self.drives_clock());
                displaced.push_back((mem::replace(&mut entry.key, key), mem::replace(&mut entry.value, value)));
                (None, Some(Tick::ZERO))
            }
            None => {
                counts.inserted += 1;
                let timer = match timers.wheel() {
                    Some(wheel) => wheel.insert(deadline, hash),
                    None => register_one_of_few(table, timers, deadline, hash),
                };
                let entry = Entry { key, value, deadline, timer };
                table.insert_unique(hash, entry, |entry| timers.hash_of(entry.timer));
                (None, Some(deadline))
            }
        };
        self.unlock(guard, registered, waits);
        Ok(replaced)
    }

    /// Takes out an entry that has not expired at `now`.
    pub(super) fn remove<Q>(&self, waits: &impl Waits, hash: u64, key: &Q, now: Tick) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut guard = self.lock()?;
        let found = guard.table.find_entry(hash, |entry| entry.key.borrow() == key).ok()?;
        if found.get().has_expired(now) {
            return None;
        }
        let (entry, _) = found.remove();
        guard.timers.remove(entry.timer);
        self.unlock_without(guard, 1, waits);
        // The key is dropped here, outside the lock.
        Some(entry.value)
    }

    /// The deadline of an entry that has not expired at `now`.
    pub(super) fn deadline<Q>(&self, hash: u64, key: &Q, now: Tick) -> Option<Tick>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let guard = self.lock()?;
        let found = guard.table.find(hash, |entry| entry.key.borrow() == key)?;
        (!found.has_expired(now)).then_some(found.deadline)
    }

    /// Takes everything out, for the caller to drop.
    pub(super) fn clear(&self) -> impl Sized + use<K, V> {
        let mut guard = self.lock()?;
        self.shards.capacity.give(guard.len());
        let timers = Timers::starting_at(guard.timers.elapsed());
        let timers = mem::replace(&mut guard.timers, timers);
        let taken = (mem::take(&mut guard.table), timers, mem::take(&mut guard.displaced));
        self.published().publish(None);
        drop(guard);
        Some(taken)
    }

    /// Takes out an entry that was displaced, or else the earliest if it is due at `now`. After `None` there is more to
    /// do if `next` is not after `now`.
    pub(super) fn take_due(&self, now: Tick) -> Option<(K, V)> {
        let mut guard = self.lock()?;
        guard.timers.skip_to(self.next().min(now));
        let due = guard.take_due(now);
        if due.is_some() {
            self.shards.capacity.give(1);
        }
        guard.shrink();
        self.publish(&guard);
        due
    }

    /// Unlocks after so many entries were taken out before their deadlines.
    #[inline]
    pub(super) fn unlock_without(&self, mut guard: MutexGuard<'_, State<K, V>>, taken: usize, waits: &impl Waits) {
        self.shards.capacity.give(taken);
        guard.shrink();
        if self.drives_clock() {
            self.unlock_exactly(guard, waits);
        } else if guard.is_empty() {
            self.published().publish(None);
        }
    }

    /// Unlocks after an entry was registered or put off, then calls the consumer if there is work earlier.
    #[inline]
    pub(super) fn unlock(&self, guard: MutexGuard<'_, State<K, V>>, registered: Option<Tick>, waits: &impl Waits) {
        match registered {
            _ if self.drives_clock() => self.unlock_exactly(guard, waits),
            Some(deadline) if self.published().registered(deadline) => {
                drop(guard);
                waits.registered(deadline);
            }
            _ => drop(guard),
        }
    }

    /// The same if a clock jumps to deadlines here: also calls the consumer if there is work only later.
    #[cold]
    fn unlock_exactly(&self, guard: MutexGuard<'_, State<K, V>>, waits: &impl Waits) {
        let before = self.next();
        let next = self.publish(&guard);
        drop(guard);
        match next.cmp(&before) {
            Ordering::Less => waits.registered(next),
            Ordering::Equal => {}
            Ordering::Greater => waits.put_off(),
        }
    }

    /// Publishes when there is work here.
    fn publish(&self, state: &State<K, V>) -> Tick {
        self.published().publish(state.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Waits for Nobody {
        fn registered(&self, _: Tick) {}

        fn put_off(&self) {}
    }

    #[test]
    fn unordered_entries_after_a_long_rest_cascade_once() {
        const COUNT: u64 = 1_000;
        let shards = Shards::new(1, None);
        let shard = shards.of(0);
        let first = 1_576_800_000_123_456_789;
        for n in 0..COUNT {
            let term = Term { now: Tick(first + n * 7_919 % COUNT), duration: Duration::ZERO };
            assert_eq!(shard.insert(&Nobody, n, n, (), term, Tick::ZERO), Ok(None));
        }
        while shard.next() <= Tick(first) {
            let due = shard.take_due(Tick(first));
            assert!(due.is_none_or(|(key, ())| key == 0));
        }
        let mut state = shard.lock().expect("there are entries");
        let wheel = state.timers.wheel().expect("they are many");
        assert_eq!((wheel.len() as u64, wheel.cascaded()), (COUNT - 1, COUNT));
    }
}
