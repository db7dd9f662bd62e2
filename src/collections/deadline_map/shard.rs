//! One lock around a hash table of entries and the timers that they wait for.
//!
//! Invariants
//! 1. Each entry of the table has one of the timers, which it names (`timer`) and which holds its hash; and the reverse.
//!    So the timer finds the entry, and a table that grows finds the hash, without any code of the key's.
//! 2. The timer's deadline of an entry is never later than the true one. A deadline that moves later is only noted; the
//!    entry is put where it belongs when the timer comes, before the deadline or at it. If that would move a clock, the
//!    timers have the true deadlines.
//! 3. `next` is never later than the timers' earliest deadline, and `Tick::MAX` exactly where the shard is empty. It
//!    changes only under the lock.
//! 4. At most [`STEPS`] steps of a wheel are made per hold of the lock.
//! 5. Of the user's code, only `Eq` and `Borrow` of keys run under the lock, before anything has changed. Keys and values
//!    are dropped outside of it, and nobody is woken under it.
//!
//! Must not know: hashers, streams, whose clock it is.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;
use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;

use super::timers::Timers;
use crate::clock;
use crate::util::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::util::sync::{Mutex, MutexGuard};
use crate::wheel::Tick;
use crate::wheel::{self, Step, Wheel};

/// Steps of the wheel, each of which touches two entries at most, before the lock is let go.
const STEPS: usize = 128;

/// Where in a hash the number of its shard stands: above what tables use as an index, below what they tell entries
/// apart by.
const SHARD_BITS_FROM: u32 = 32;

/// The latest deadline. The tick after it says that there is none.
const LAST: Tick = Tick(u64::MAX - 1);

/// A table of at least this many entries that is to an eighth full gives memory back.
const ROOMY: usize = 1024;

/// The shards of a map. One that never had an entry takes 24 bytes.
pub(super) struct Shards<K, V> {
    /// For each, when there next is work; `Tick::MAX` where there is no entry.
    // Side by side, so that the consumer's look at all of them is short, and apart from what each operation reads.
    next: Box<[AtomicU64]>,
    /// `None` where there never was an entry.
    states: Box<[Made<K, V>]>,
    /// Whether a clock jumps to `next`, which is then kept as if what was removed or put off had never been. Read under
    /// the lock of a shard.
    moves_clock: AtomicBool,
}

type Made<K, V> = OnceLock<Box<Locked<K, V>>>;

/// One of them, by its number.
pub(super) struct Shard<'a, K, V> {
    shards: &'a Shards<K, V>,
    number: usize,
}

// A cache line of its own, and the one beside it that processors fetch with it.
#[repr(align(128))]
struct Locked<K, V>(Mutex<State<K, V>>);

struct State<K, V> {
    table: HashTable<Entry<K, V>>,
    timers: Timers,
}

struct Entry<K, V> {
    key: K,
    value: V,
    deadline: Tick,
    timer: wheel::Key,
}

/// How long an entry is to live, from when on.
#[derive(Clone, Copy)]
pub(super) struct Term {
    pub(super) now: Tick,
    pub(super) duration: Duration,
}

/// Who waits for the entries of a map.
pub(super) trait Waits {
    /// A deadline was inserted, earlier than any other of its shard, and the shard has published it.
    fn inserted(&self, deadline: Tick);

    /// What came first in its shard was removed or put off, and the shard has published what is left. Only called if a
    /// clock jumps to what is waited for.
    fn put_off(&self);
}

impl Term {
    /// Counted from what the timers have gone by, where that is later: a clock that was behind ends nothing early.
    #[inline]
    fn end(self, timers: &Timers) -> Tick {
        clock::later(self.now.max(timers.elapsed()), self.duration).min(LAST)
    }
}

impl<K, V> Shards<K, V> {
    /// So many, a power of two.
    pub(super) fn new(count: usize) -> Self {
        Shards {
            next: (0..count).map(|_| AtomicU64::new(u64::MAX)).collect(),
            states: (0..count).map(|_| OnceLock::new()).collect(),
            moves_clock: AtomicBool::new(false),
        }
    }

    /// From now on a clock jumps to what is waited for here.
    pub(super) fn move_clock(&self) {
        self.moves_clock.store(true, SeqCst);
        self.iter().for_each(|shard| shard.tell_true_deadlines());
    }

    /// The shard that a hash leads to.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> Shard<'_, K, V> {
        Shard { shards: self, number: self.number_of(hash) }
    }

    // There are few.
    #[allow(clippy::cast_possible_truncation)]
    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        (hash >> SHARD_BITS_FROM) as usize & (self.states.len() - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Shard<'_, K, V>> {
        (0..self.next.len()).map(|number| Shard { shards: self, number })
    }
}

impl<K, V> Locked<K, V> {
    fn new() -> Self {
        Locked(Mutex::new(State { table: HashTable::new(), timers: Timers::starting_at(Tick::ZERO) }))
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // A comparison of keys may panic, before it has changed anything.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V> Shard<'_, K, V> {
    #[inline]
    fn state(&self) -> &Made<K, V> {
        &self.shards.states[self.number]
    }

    #[inline]
    fn published(&self) -> &AtomicU64 {
        &self.shards.next[self.number]
    }

    /// `None` where there never was an entry.
    #[inline]
    fn lock(&self) -> Option<MutexGuard<'_, State<K, V>>> {
        Some(self.state().get()?.lock())
    }

    #[cold]
    fn make(&self) -> &Locked<K, V> {
        // Before others can come to wait for it, and for nothing where one of them was quicker.
        let made = Box::new(Locked::new());
        self.state().get_or_init(|| made)
    }

    /// When there is work here; never too late, and `Tick::MAX` where there is no entry. Reads no lock.
    pub(super) fn next(&self) -> Tick {
        Tick(self.published().load(SeqCst))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().map_or(0, |state| state.table.len())
    }

    #[inline]
    fn moves_clock(&self) -> bool {
        self.shards.moves_clock.load(Relaxed)
    }

    /// The timers learn of all that was put off.
    fn tell_true_deadlines(&self) {
        let Some(mut guard) = self.lock() else { return };
        let State { table, timers } = &mut *guard;
        for entry in table.iter_mut() {
            timers.reset(entry.timer, entry.deadline);
        }
        self.publish(&guard);
    }

    /// Puts an entry in, or gives the one of that key another value and deadline.
    pub(super) fn insert(&self, waits: &impl Waits, hash: u64, key: K, value: V, term: Term) -> Option<V>
    where
        K: Eq,
    {
        let locked = self.state().get().map_or_else(|| self.make(), |locked| &**locked);
        let mut guard = locked.lock();
        let State { table, timers } = &mut *guard;
        let deadline = term.end(timers);
        let found = table.find_mut(hash, |entry| entry.key == key);
        let (replaced, armed) = if let Some(entry) = found {
            if self.moves_clock() {
                timers.reset(entry.timer, deadline);
            }
            (Some(mem::replace(&mut entry.value, value)), entry.move_to(deadline, timers))
        } else {
            let timer = match timers.wheel() {
                Some(wheel) => wheel.insert(deadline, hash),
                None => arm_one_of_few(table, timers, deadline, hash),
            };
            let entry = Entry { key, value, deadline, timer };
            table.insert_unique(hash, entry, |entry| timers.hash_of(entry.timer));
            (None, true)
        };
        self.unlock(guard, armed.then_some(deadline), waits);
        replaced
    }

    /// Gives an entry another deadline; `false` where there is none.
    pub(super) fn touch<Q>(&self, waits: &impl Waits, hash: u64, key: &Q, term: Term) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let Some(mut guard) = self.lock() else { return false };
        let State { table, timers } = &mut *guard;
        let Some(entry) = table.find_mut(hash, |entry| entry.key.borrow() == key) else { return false };
        let deadline = term.end(timers);
        if self.moves_clock() {
            timers.reset(entry.timer, deadline);
        }
        let armed = entry.move_to(deadline, timers);
        self.unlock(guard, armed.then_some(deadline), waits);
        true
    }

    pub(super) fn remove<Q>(&self, waits: &impl Waits, hash: u64, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut guard = self.lock()?;
        let found = guard.table.find_entry(hash, |entry| entry.key.borrow() == key).ok()?;
        let (entry, _) = found.remove();
        guard.timers.remove(entry.timer);
        guard.shrink();
        if self.moves_clock() {
            self.unlock_exactly(guard, waits);
        } else {
            if guard.table.is_empty() {
                self.published().store(u64::MAX, SeqCst);
            }
            drop(guard);
        }
        // The key goes here.
        Some(entry.value)
    }

    pub(super) fn deadline<Q>(&self, hash: u64, key: &Q) -> Option<Tick>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let guard = self.lock()?;
        guard.table.find(hash, |entry| entry.key.borrow() == key).map(|entry| entry.deadline)
    }

    /// Takes everything out. The answer is to be dropped.
    pub(super) fn clear(&self) -> impl Sized + use<K, V> {
        let mut guard = self.lock()?;
        let fresh = State { table: HashTable::new(), timers: Timers::starting_at(guard.timers.elapsed()) };
        let taken = mem::replace(&mut *guard, fresh);
        self.published().store(u64::MAX, SeqCst);
        drop(guard);
        Some(taken)
    }

    /// Takes the earliest entry out, where it is due at `now`. `None` may also mean that it takes another call: there is
    /// more to do as long as `next` is not after `now`.
    pub(super) fn take_due(&self, now: Tick) -> Option<(K, V)> {
        let mut guard = self.lock()?;
        guard.timers.skip_to(self.next().min(now));
        let due = guard.take_due(now);
        guard.shrink();
        self.publish(&guard);
        due
    }

    /// Lets go of the lock after something was armed or put off, then tells of it if that changes when there is work.
    #[inline]
    fn unlock(&self, guard: MutexGuard<'_, State<K, V>>, armed: Option<Tick>, waits: &impl Waits) {
        match armed {
            _ if self.moves_clock() => self.unlock_exactly(guard, waits),
            Some(deadline) if deadline.0 < self.published().load(Relaxed) => {
                self.unlock_earlier(guard, deadline, waits);
            }
            _ => drop(guard),
        }
    }

    // Apart, as most of what is armed is no earlier than the rest.
    #[cold]
    fn unlock_earlier(&self, guard: MutexGuard<'_, State<K, V>>, earliest: Tick, waits: &impl Waits) {
        self.published().store(earliest.0, SeqCst);
        drop(guard);
        waits.inserted(earliest);
    }

    /// The same if a clock jumps to what is waited for: tells of what is not there any more, too.
    #[cold]
    fn unlock_exactly(&self, guard: MutexGuard<'_, State<K, V>>, waits: &impl Waits) {
        let before = self.next();
        let next = self.publish(&guard);
        drop(guard);
        match next.cmp(&before) {
            Ordering::Less => waits.inserted(next),
            Ordering::Equal => {}
            Ordering::Greater => waits.put_off(),
        }
    }

    /// Publishes when there is work here.
    fn publish(&self, state: &State<K, V>) -> Tick {
        let next = state.timers.next_expiration().unwrap_or(Tick::MAX);
        self.published().store(next.0, SeqCst);
        next
    }
}

impl<K, V> State<K, V> {
    /// After something was taken out: gives memory back.
    #[inline]
    fn shrink(&mut self) {
        if self.table.capacity() >= ROOMY && self.table.len() < self.table.capacity() / 8 {
            self.shrink_table();
        }
    }

    #[cold]
    fn shrink_table(&mut self) {
        let State { table, timers } = self;
        table.shrink_to(table.len() * 2, |entry| timers.hash_of(entry.timer));
    }

    fn take_due(&mut self, now: Tick) -> Option<(K, V)> {
        let State { table, timers } = self;
        for _ in 0..STEPS {
            match timers.step(now) {
                Step::Fired { key: timer, deadline, value: hash } => {
                    let found = table.find_entry(hash, |entry| entry.timer == timer);
                    let Ok(mut found) = found else { unreachable!("each of the timers is of an entry") };
                    let entry = found.get_mut();
                    if entry.deadline == deadline {
                        let (entry, _) = found.remove();
                        return Some((entry.key, entry.value));
                    }
                    // It was touched. Also where it is due all the same, so that it has its turn among the others.
                    entry.timer = timers.insert(entry.deadline, hash).expect("one has just gone");
                }
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
        None
    }
}

impl<K, V> Entry<K, V> {
    /// Gives this another deadline, and says whether that took arming.
    fn move_to(&mut self, deadline: Tick, timers: &mut Timers) -> bool {
        let earlier = deadline < self.deadline && timers.bring_forward(self.timer, deadline);
        self.deadline = deadline;
        earlier
    }
}

/// Puts an entry in where there is no wheel, or makes one.
#[inline(never)]
fn arm_one_of_few<K, V>(
    table: &mut HashTable<Entry<K, V>>,
    timers: &mut Timers,
    deadline: Tick,
    hash: u64,
) -> wheel::Key {
    if let Some(timer) = timers.insert(deadline, hash) {
        return timer;
    }
    let mut wheel = Wheel::starting_at(timers.elapsed());
    for entry in table.iter_mut() {
        entry.timer = wheel.insert(entry.deadline, timers.hash_of(entry.timer));
    }
    let timer = wheel.insert(deadline, hash);
    *timers = Timers::in_a(wheel);
    timer
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Waits for Nobody {
        fn inserted(&self, _: Tick) {}

        fn put_off(&self) {}
    }

    #[test]
    fn what_came_in_no_order_after_a_long_rest_moves_down_once_to_where_it_belongs() {
        const COUNT: u64 = 1_000;
        let shards = Shards::new(1);
        let shard = shards.of(0);
        let first = 1_576_800_000_123_456_789;
        for n in 0..COUNT {
            let term = Term { now: Tick(first + n * 7_919 % COUNT), duration: Duration::ZERO };
            assert_eq!(shard.insert(&Nobody, n, n, (), term), None);
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
