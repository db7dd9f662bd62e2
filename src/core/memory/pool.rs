//! [`Memory`]: an engine and the shards that report to it, which timers reuse, one after the other.
//!
//! A sleep points to its shard without a reference count, which would cost as much as the shard's lock. A memory is
//! therefore never freed.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize as StdAtomicUsize;

use crate::core::engine::Engine;
use crate::core::epoch::RefCount;
use crate::core::shard::Shard;
use crate::util::sync::atomic::{AtomicU64, AtomicUsize};
use crate::util::sync::{Mutex, MutexGuard, keep, per_process, unpoisoned};

pub(super) struct Memory {
    pub(super) engine: &'static Engine,
    pub(super) shards: Vec<Shard>,
    /// How many of the shards the current timer uses.
    pub(super) used: AtomicUsize,
    /// How many threads have a shard.
    pub(super) threads: StdAtomicUsize,
    pub(super) turn_count: AtomicU64,
    pub(super) refs: RefCount,
}

type Free = BTreeMap<usize, Vec<&'static Memory>>;

per_process! {
    /// Unused memory, by number of shards. A forked process does not use its parent's.
    fn free_memory() -> &'static Mutex<Free> = |_| Mutex::new(BTreeMap::new());
}

fn free() -> MutexGuard<'static, Free> {
    unpoisoned(free_memory().lock())
}

/// Takes unused memory with at least so many shards.
pub(super) fn take(shards: usize) -> &'static Memory {
    // Powers of two, to let timers of similar sizes share memory.
    let room = shards.next_power_of_two();
    let free = free().get_mut(&room).and_then(Vec::pop);
    free.unwrap_or_else(|| Memory::new(room))
}

impl Memory {
    pub(super) fn new(shards: usize) -> &'static Memory {
        let engine = Engine::new();
        let memory = keep!(
            Memory,
            Memory {
                engine,
                shards: (0..shards).map(|_| Shard::new(engine)).collect(),
                used: AtomicUsize::new(0),
                threads: StdAtomicUsize::new(0),
                turn_count: AtomicU64::new(0),
                refs: RefCount::none(),
            }
        );
        engine.belongs_to(memory);
        memory
    }

    /// Its last use has ended.
    pub(super) fn give_back(&'static self) {
        free().entry(self.shards.len()).or_default().push(self);
    }
}
