//! One lock around a hash table of entries and the wheel that they wait in.
//!
//! Invariants
//! 1. Each entry of the table has one entry in the wheel, which it names (`timer`) and which holds its hash; and the
//!    reverse. So the wheel finds the entry, and a table that grows finds the hash, without any code of the key's.
//! 2. The wheel's deadline of an entry is never later than the true one. A deadline that moves later is only noted; the
//!    entry is put where it belongs when the wheel hands it out, before its deadline or at it. Where that would move a
//!    clock, the wheel has the true deadlines.
//! 3. `next` is never later than the wheel's earliest deadline, and `Tick::MAX` exactly where the shard is empty. It
//!    changes only under the lock.
//! 4. At most [`STEPS`] steps of the wheel are made per hold of the lock.
//! 5. Of the user's code, only `Eq` and `Borrow` of keys run under the lock, before anything has changed. Keys and values
//!    are dropped outside of it, and nobody is woken under it.
//!
//! Must not know: hashers, streams, whose clock it is.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::mem;
use std::sync::PoisonError;
use std::time::Duration;

use hashbrown::HashTable;

use crate::clock;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::sync::{Mutex, MutexGuard};
use crate::tick::Tick;
use crate::wheel::{self, Step, Wheel};

/// Steps of the wheel, each of which touches two entries at most, before the lock is let go.
const STEPS: usize = 128;

/// The latest deadline. The tick after it says that there is none.
const LAST: Tick = Tick(u64::MAX - 1);

/// A table of at least this many entries that is to an eighth full gives memory back.
const ROOMY: usize = 1024;

// A cache line of its own, and the one beside it that processors fetch with it.
#[repr(align(128))]
pub(super) struct Shard<K, V> {
    state: Mutex<State<K, V>>,
    /// When the wheel next has work; `Tick::MAX` where there is no entry.
    next: AtomicU64,
}

struct State<K, V> {
    table: HashTable<Entry<K, V>>,
    /// Of the entries' hashes.
    wheel: Wheel<u64>,
    /// Whether a clock jumps to `next`, which is then kept as if what was removed or put off had never been.
    moves_clock: bool,
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

    /// What came first in its shard was removed or put off, and the shard has published what is left. Only called where a
    /// clock jumps to what is waited for.
    fn put_off(&self);
}

impl Term {
    /// Counted from what the wheel has gone by, where that is later: a clock that was behind ends nothing early.
    fn end<T>(self, wheel: &Wheel<T>) -> Tick {
        clock::later(self.now.max(wheel.elapsed()), self.duration).min(LAST)
    }
}

impl<K, V> Shard<K, V> {
    pub(super) fn new() -> Self {
        let state = State { table: HashTable::new(), wheel: Wheel::new(), moves_clock: false };
        Shard { state: Mutex::new(state), next: AtomicU64::new(u64::MAX) }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // A comparison of keys may panic, before it has changed anything.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When there is work here; never too late, and `Tick::MAX` where there is no entry. Reads no lock.
    pub(super) fn next(&self) -> Tick {
        Tick(self.next.load(SeqCst))
    }

    pub(super) fn len(&self) -> usize {
        self.lock().table.len()
    }

    /// From now on a clock jumps to what is waited for here.
    pub(super) fn move_clock(&self) {
        let mut guard = self.lock();
        let State { table, wheel, moves_clock } = &mut *guard;
        *moves_clock = true;
        for entry in table.iter_mut() {
            wheel.reset(entry.timer, entry.deadline);
        }
        self.publish(&guard);
    }

    /// Puts an entry in, or gives the one of that key another value and deadline.
    pub(super) fn insert(&self, waits: &impl Waits, hash: u64, key: K, value: V, term: Term) -> Option<V>
    where
        K: Eq,
    {
        let mut guard = self.lock();
        let State { table, wheel, moves_clock } = &mut *guard;
        let deadline = term.end(wheel);
        let found = table.find_mut(hash, |entry| entry.key == key);
        let (replaced, armed) = if let Some(entry) = found {
            if *moves_clock {
                entry.move_at_once(deadline, wheel);
            }
            (Some(mem::replace(&mut entry.value, value)), entry.move_to(deadline, wheel))
        } else {
            let timer = wheel.insert(deadline, hash);
            let entry = Entry { key, value, deadline, timer };
            table.insert_unique(hash, entry, |entry| hash_of(wheel, entry));
            (None, true)
        };
        if guard.moves_clock {
            self.unlock_exactly(guard, waits);
        } else {
            self.unlock(guard, armed.then_some(deadline), waits);
        }
        replaced
    }

    /// Gives an entry another deadline; `false` where there is none.
    pub(super) fn touch<Q>(&self, waits: &impl Waits, hash: u64, key: &Q, term: Term) -> bool
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut guard = self.lock();
        let State { table, wheel, moves_clock } = &mut *guard;
        let Some(entry) = table.find_mut(hash, |entry| entry.key.borrow() == key) else { return false };
        let deadline = term.end(wheel);
        if *moves_clock {
            entry.move_at_once(deadline, wheel);
            self.unlock_exactly(guard, waits);
        } else {
            let armed = entry.move_to(deadline, wheel);
            self.unlock(guard, armed.then_some(deadline), waits);
        }
        true
    }

    pub(super) fn remove<Q>(&self, waits: &impl Waits, hash: u64, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut guard = self.lock();
        let found = guard.table.find_entry(hash, |entry| entry.key.borrow() == key).ok()?;
        let (entry, _) = found.remove();
        guard.wheel.remove(entry.timer);
        guard.shrink();
        if guard.moves_clock {
            self.unlock_exactly(guard, waits);
        } else {
            if guard.table.is_empty() {
                self.next.store(u64::MAX, SeqCst);
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
        let guard = self.lock();
        guard.table.find(hash, |entry| entry.key.borrow() == key).map(|entry| entry.deadline)
    }

    /// Takes everything out. The answer is to be dropped.
    pub(super) fn clear(&self) -> impl Sized + use<K, V> {
        let mut guard = self.lock();
        let elapsed = guard.wheel.elapsed();
        let moves_clock = guard.moves_clock;
        let empty = State { table: HashTable::new(), wheel: Wheel::starting_at(elapsed), moves_clock };
        let taken = mem::replace(&mut *guard, empty);
        self.next.store(u64::MAX, SeqCst);
        drop(guard);
        taken
    }

    /// Takes the earliest entry out, where it is due at `now`. `None` may also mean that it takes another call: there is
    /// more to do as long as `next` is not after `now`.
    pub(super) fn take_due(&self, now: Tick) -> Option<(K, V)> {
        let mut guard = self.lock();
        guard.wheel.skip_to(self.next().min(now));
        let due = guard.take_due(now);
        guard.shrink();
        self.publish(&guard);
        due
    }

    /// Lets go of the lock, then tells of what was armed, where that is the earliest here.
    #[inline]
    fn unlock(&self, guard: MutexGuard<'_, State<K, V>>, armed: Option<Tick>, waits: &impl Waits) {
        let earlier = armed.filter(|armed| armed.0 < self.next.load(Relaxed));
        if let Some(deadline) = earlier {
            self.next.store(deadline.0, SeqCst);
        }
        drop(guard);
        if let Some(deadline) = earlier {
            waits.inserted(deadline);
        }
    }

    /// The same where a clock jumps to what is waited for: tells of what is not there any more, too.
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
        let next = state.wheel.next_expiration().unwrap_or(Tick::MAX);
        self.next.store(next.0, SeqCst);
        next
    }
}

impl<K, V> State<K, V> {
    /// After something was taken out: gives memory back.
    fn shrink(&mut self) {
        let State { table, wheel, .. } = self;
        if table.capacity() >= ROOMY && table.len() < table.capacity() / 8 {
            table.shrink_to(table.len() * 2, |entry| hash_of(wheel, entry));
        }
    }

    fn take_due(&mut self, now: Tick) -> Option<(K, V)> {
        let State { table, wheel, .. } = self;
        for _ in 0..STEPS {
            match wheel.step(now) {
                Step::Fired { key: timer, deadline, value: hash } => {
                    let found = table.find_entry(hash, |entry| entry.timer == timer);
                    let Ok(mut found) = found else { unreachable!("what is in the wheel is in the table") };
                    let entry = found.get_mut();
                    if entry.deadline == deadline {
                        let (entry, _) = found.remove();
                        return Some((entry.key, entry.value));
                    }
                    // It was touched. Also where it is due all the same, so that it has its turn among the others.
                    entry.timer = wheel.insert(entry.deadline, hash);
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
    fn move_to(&mut self, deadline: Tick, wheel: &mut Wheel<u64>) -> bool {
        let earlier = deadline < self.deadline && wheel.deadline(self.timer).is_some_and(|armed| deadline < armed);
        if earlier {
            wheel.reset(self.timer, deadline);
        }
        self.deadline = deadline;
        earlier
    }

    /// The same, and has the wheel know of it whichever it is.
    #[cold]
    fn move_at_once(&mut self, deadline: Tick, wheel: &mut Wheel<u64>) {
        wheel.reset(self.timer, deadline);
        self.deadline = deadline;
    }
}

fn hash_of<K, V>(wheel: &Wheel<u64>, entry: &Entry<K, V>) -> u64 {
    *wheel.get(entry.timer).expect("what is in the table is in the wheel")
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
        let shard = Shard::new();
        let first = 1_576_800_000_123_456_789;
        for n in 0..COUNT {
            let term = Term { now: Tick(first + n * 7_919 % COUNT), duration: Duration::ZERO };
            assert_eq!(shard.insert(&Nobody, n, n, (), term), None);
        }
        while shard.next() <= Tick(first) {
            let due = shard.take_due(Tick(first));
            assert!(due.is_none_or(|(key, ())| key == 0));
        }
        assert_eq!((shard.len() as u64, shard.lock().wheel.cascaded()), (COUNT - 1, COUNT));
    }
}
