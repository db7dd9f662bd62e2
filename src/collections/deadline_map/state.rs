//! What the lock of a shard guards: a hash table of entries and the timers that they wait for.
//
// The invariants are those of `shard.rs`.

use std::collections::VecDeque;

use hashbrown::HashTable;

use super::timers::Timers;
use crate::clock::source::wheels_begin;
use crate::wheel::{self, Step, Tick, Wheel};

/// Steps of the wheel per hold of the lock.
const STEPS: usize = 128;

/// What a step that moves entries counts for, as it may move some dozens.
const MOVE: usize = 16;

/// A table with at least this much room that is less than an eighth full frees memory.
const ROOMY: usize = 1024;

pub(super) struct State<K, V> {
    pub(super) table: HashTable<Entry<K, V>>,
    pub(super) timers: Timers,
    /// Entries that had expired when their keys were inserted anew, in that order. They are there for the stream only.
    pub(super) displaced: VecDeque<(K, V)>,
    pub(super) counts: Counts,
}

/// What a shard has done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) inserted: u64,
    pub(super) expired: u64,
}

pub(super) struct Entry<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) deadline: Tick,
    pub(super) timer: wheel::Key,
}

impl<K, V> State<K, V> {
    pub(super) fn new() -> Self {
        State {
            table: HashTable::new(),
            timers: Timers::starting_at(wheels_begin()),
            displaced: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len() + self.displaced.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.displaced.is_empty()
    }

    /// When there is work here, or earlier.
    #[inline]
    pub(super) fn next(&self) -> Option<Tick> {
        if self.displaced.is_empty() { self.timers.next_expiration() } else { Some(Tick::ZERO) }
    }

    /// Frees memory after an entry was taken out.
    #[inline]
    pub(super) fn shrink(&mut self) {
        if self.table.capacity() >= ROOMY && self.table.len() < self.table.capacity() / 8 {
            self.shrink_table();
        }
    }

    #[cold]
    fn shrink_table(&mut self) {
        let State { table, timers, .. } = self;
        table.shrink_to(table.len() * 2, |entry| timers.hash_of(entry.timer));
    }

    /// Takes out an entry that was displaced, or else the earliest if it is due at `now`, in at most `STEPS` steps.
    pub(super) fn take_due(&mut self, now: Tick) -> Option<(K, V)> {
        let State { table, timers, displaced, counts } = self;
        if let Some(taken) = displaced.pop_front() {
            if displaced.is_empty() {
                *displaced = VecDeque::new();
            }
            counts.expired += 1;
            return Some(taken);
        }
        let mut steps = 0;
        while steps < STEPS {
            steps += 1;
            match timers.step(now) {
                Step::Fired { key: timer, deadline, value: hash } => {
                    let found = table.find_entry(hash, |entry| entry.timer == timer);
                    let Ok(mut found) = found else { unreachable!("each of the timers is of an entry") };
                    let entry = found.get_mut();
                    if entry.deadline == deadline {
                        let (entry, _) = found.remove();
                        counts.expired += 1;
                        return Some((entry.key, entry.value));
                    }
                    // It was touched. Even if it is due all the same, it goes back, to come out in order.
                    entry.timer = timers.insert(entry.deadline, hash).expect("one has just gone");
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

    /// Gives this another deadline, which its timer follows `at_once` or as invariant 2 says. Returns whether the timer
    /// was set earlier for that.
    #[inline]
    pub(super) fn move_to(&mut self, deadline: Tick, timers: &mut Timers, at_once: bool) -> bool {
        if at_once {
            timers.reset(self.timer, deadline);
        }
        let earlier = deadline < self.deadline && timers.bring_forward(self.timer, deadline);
        self.deadline = deadline;
        earlier
    }
}

/// Registers an entry if there is no wheel; makes one if there are too many entries for the row.
#[inline(never)]
pub(super) fn register_one_of_few<K, V>(
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
