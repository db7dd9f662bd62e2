//! The data behind the lock of a shard: a hash table of entries, and the timers that say which is due first.
//!
//! A shard with few entries has no timers: searching it is no slower. A wheel allocates 12 kilobytes for its first
//! entry, and there may be a map per connection.
//
// The invariants are those of `shard.rs`.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::OccupiedEntry;

use crate::clock;
use crate::clock::source::wheels_begin;
use crate::util::sync::{Mutex, MutexGuard, unpoisoned};
use crate::wheel::{Key, Step, Tick, Ticks, Wheel};

/// A shard with more entries than this has a wheel.
const FEW: usize = 16;

const STEPS: usize = 128;

/// The cost of a step that moves entries, in steps: it may move dozens.
const MOVE: usize = 16;

/// A table with room for at least this many entries is shrunk if less than an eighth is used.
const ROOMY: usize = 1024;

pub(super) struct MapState<K, V> {
    pub(super) table: HashTable<Entry<K, V>>,
    /// `Some` once there were more than `FEW` entries.
    pub(super) timers: Deadlines,
    /// Entries that had expired when their keys were inserted again, in that order, for the stream only.
    pub(super) displaced: VecDeque<(K, V)>,
    pub(super) inserted: u64,
    pub(super) expired: u64,
    /// The time of the last operation.
    pub(super) now: Tick,
}

/// The hashes of the entries, by when they may be due.
pub(super) type Deadlines = Option<Box<Wheel<u64>>>;

#[derive(Debug, Clone, Copy)]
pub(super) enum Expiry {
    After(Duration),
    At(Tick),
}

impl Expiry {
    #[inline]
    pub(super) fn tick(self, now: Tick) -> Tick {
        match self {
            Expiry::After(duration) => clock::later(now, duration),
            Expiry::At(tick) => tick,
        }
    }
}

/// An entry that is to be inserted, and the time that the insert has read. `V` is the value or what makes it.
pub(super) struct Insert<K, V> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) value: V,
    pub(super) expires: Expiry,
    pub(super) now: Tick,
}

/// The key of the entry that an operation uses if it is live at `now`.
pub(super) struct Lookup<'a, Q: ?Sized> {
    pub(super) hash: u64,
    pub(super) key: &'a Q,
    pub(super) now: Tick,
}

pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) deadline: Tick,
    /// The end of the entry's lifetime: no deadline is later.
    end: Tick,
    /// The time to live that it was inserted with.
    life: Ticks,
    timer: Timed,
}

/// The timer of an entry, which knows the hash of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timed {
    /// The entry is one of few.
    None {
        hash: u64,
    },
    InWheel(Key),
}

impl Timed {
    #[inline]
    fn hash(self, timers: &Deadlines) -> u64 {
        match (self, timers) {
            (Timed::None { hash }, _) => hash,
            (Timed::InWheel(key), Some(wheel)) => *wheel.get(key).expect("each entry has its timer"),
            (Timed::InWheel(_), None) => unreachable!("it is in the wheel"),
        }
    }
}

impl<K, V> MapState<K, V> {
    pub(super) fn new() -> Self {
        MapState {
            table: HashTable::new(),
            timers: None,
            displaced: VecDeque::new(),
            inserted: 0,
            expired: 0,
            now: Tick::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len() + self.displaced.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.displaced.is_empty()
    }

    /// The tick at which there is work, or an earlier one.
    #[inline]
    pub(super) fn next(&self) -> Option<Tick> {
        match &self.timers {
            _ if !self.displaced.is_empty() => Some(Tick::ZERO),
            Some(wheel) => wheel.next_expiration(),
            None => self.earliest().map(|entry| entry.deadline),
        }
    }

    /// Finds the entry of a key if it is live.
    #[inline]
    pub(super) fn find_live<Q>(
        &mut self,
        Lookup { hash, key, now }: Lookup<'_, Q>,
    ) -> Option<(OccupiedEntry<'_, Entry<K, V>>, &mut Deadlines)>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let found = self.table.find_entry(hash, |entry| entry.key.borrow() == key).ok()?;
        (!found.get().has_expired(now)).then_some((found, &mut self.timers))
    }

    fn earliest(&self) -> Option<&Entry<K, V>> {
        self.table.iter().min_by_key(|entry| entry.deadline)
    }

    /// Inserts an entry whose key is not in the table, and returns its deadline.
    #[inline]
    pub(super) fn insert(&mut self, new: Insert<K, V>, end: Tick) -> Tick {
        let Insert { hash, key, value, expires, now } = new;
        let asked = expires.tick(now);
        let deadline = asked.min(end);
        if self.timers.is_none() && self.table.len() == FEW {
            self.make_wheel(now);
        }
        let MapState { table, timers, .. } = self;
        let timer = match timers {
            Some(wheel) => Timed::InWheel(wheel.insert(deadline, hash)),
            None => Timed::None { hash },
        };
        let life = asked - now;
        table.insert_unique(hash, Entry { key, value, deadline, end, life, timer }, |entry| entry.timer.hash(timers));
        deadline
    }

    #[cold]
    fn make_wheel(&mut self, now: Tick) {
        // Entries that are already due must come out in order, so the wheel starts no later than the first.
        let begin = self.earliest().map_or(Tick::MAX, |entry| entry.deadline).min(wheels_begin(now));
        let mut wheel = Box::new(Wheel::starting_at(begin));
        for entry in &mut self.table {
            entry.timer = Timed::InWheel(wheel.insert(entry.deadline, entry.timer.hash(&None)));
        }
        self.timers = Some(wheel);
    }

    /// The clock shows an earlier time than before: what was due waits again.
    pub(super) fn set_back(&mut self, now: Tick) {
        self.now = now;
        if let Some(wheel) = &mut self.timers {
            wheel.set_back(wheels_begin(now));
        }
    }

    #[inline]
    pub(super) fn shrink(&mut self) {
        if self.table.capacity() >= ROOMY && self.table.len() < self.table.capacity() / 8 {
            self.shrink_table();
        }
    }

    #[cold]
    fn shrink_table(&mut self) {
        let MapState { table, timers, .. } = self;
        table.shrink_to(table.len() * 2, |entry| entry.timer.hash(timers));
    }

    /// Takes out a displaced entry, or else the earliest if it is due at `now`, in at most `STEPS` steps.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<(K, V)> {
        let taken = match self.displaced.pop_front() {
            Some(displaced) => {
                if self.displaced.is_empty() {
                    self.displaced = VecDeque::new();
                }
                Some(displaced)
            }
            None if self.timers.is_none() => self.take_due_of_few(now),
            None => self.take_due_by_wheel(now),
        };
        self.expired += u64::from(taken.is_some());
        taken
    }

    #[cold]
    fn take_due_of_few(&mut self, now: Tick) -> Option<(K, V)> {
        let Entry { deadline, timer, .. } = *self.earliest()?;
        if deadline > now {
            return None;
        }
        let found = self.table.find_entry(timer.hash(&None), |entry| entry.deadline == deadline);
        let (entry, _) = found.ok()?.remove();
        Some((entry.key, entry.value))
    }

    #[inline]
    fn take_due_by_wheel(&mut self, now: Tick) -> Option<(K, V)> {
        let MapState { table, timers: Some(wheel), .. } = self else { return None };
        let mut steps = 0;
        while steps < STEPS {
            steps += 1;
            match wheel.step(now) {
                Step::Fired { key, deadline, value: hash } => {
                    let found = table.find_entry(hash, |entry| entry.timer == Timed::InWheel(key));
                    let Ok(mut found) = found else { unreachable!("each timer belongs to an entry") };
                    let entry = found.get_mut();
                    if entry.deadline == deadline {
                        let (entry, _) = found.remove();
                        return Some((entry.key, entry.value));
                    }
                    // It was touched. It goes back even if it is already due again, to come out in order.
                    entry.timer = Timed::InWheel(wheel.insert(entry.deadline, hash));
                }
                Step::Cascaded => steps += MOVE - 1,
                Step::Done => break,
            }
        }
        None
    }
}

impl<K, V> Entry<K, V> {
    #[inline]
    pub(super) fn has_expired(&self, now: Tick) -> bool {
        self.deadline <= now
    }

    #[inline]
    pub(super) fn remaining(&self, now: Tick) -> Duration {
        clock::duration_of(self.deadline - now)
    }

    /// Sets the deadline, at most to the end of the lifetime; the timer follows as invariant 2 says. Returns the
    /// deadline if it is earlier than the shard knew.
    #[inline]
    pub(super) fn move_to(&mut self, deadline: Tick, timers: &mut Deadlines, is_exact: bool) -> Option<Tick> {
        let deadline = deadline.min(self.end);
        let is_earlier = deadline < self.deadline;
        self.deadline = deadline;
        ((is_earlier || is_exact) && self.move_timer(timers, is_exact)).then_some(deadline)
    }

    /// The deadline that gives it its own time to live again.
    #[inline]
    pub(super) fn renewed(&self, now: Tick) -> Tick {
        now + self.life
    }

    /// Begins a new lifetime at `now`, which lasts until `end`. Otherwise does the same as [`move_to`](Entry::move_to).
    #[inline]
    pub(super) fn restart(
        &mut self,
        deadline: Tick,
        now: Tick,
        end: Tick,
        timers: &mut Deadlines,
        is_exact: bool,
    ) -> Option<Tick> {
        (self.end, self.life) = (end, deadline - now);
        self.move_to(deadline, timers, is_exact)
    }

    /// Moves the timer to the deadline if the timer is later, or if it must be exact. Returns whether it was later.
    #[inline(never)]
    pub(super) fn move_timer(&self, timers: &mut Deadlines, is_exact: bool) -> bool {
        let (Timed::InWheel(key), Some(wheel)) = (self.timer, timers) else { return true };
        let is_later = wheel.deadline(key).is_some_and(|timer| self.deadline < timer);
        if is_later || is_exact {
            wheel.reset(key, self.deadline);
        }
        is_later
    }

    #[inline]
    pub(super) fn remove_timer(&self, timers: &mut Deadlines) {
        if let (Timed::InWheel(key), Some(wheel)) = (self.timer, timers) {
            wheel.remove(key);
        }
    }
}

/// `None` if the shard never had an entry.
pub(super) type Made<K, V> = OnceLock<Box<LockedState<K, V>>>;

// Two cache lines, because CPUs prefetch them in pairs.
#[repr(align(128))]
pub(super) struct LockedState<K, V>(pub(super) Mutex<MapState<K, V>>);

impl<K, V> LockedState<K, V> {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, MapState<K, V>> {
        // User code may have panicked, but only while the shard was consistent.
        unpoisoned(self.0.lock())
    }
}
