//! How a shard runs closures on its values.
//
// Invariants
// 1. A closure runs under the lock, while the shard is whole. If it panics, its entry stays, and what was taken out
//    before is out.
// 2. No closure sees an entry whose deadline has passed.

use std::borrow::Borrow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::inside::Inside;
use super::shard::{Shard, Term, Waits};
use super::state::{Entry, State};
use crate::wheel::Tick;

impl<K, V> Shard<'_, K, V> {
    /// Runs `code` on the value of an entry that has not expired at `now`, then gives the entry another deadline if
    /// there is a `term`.
    pub(super) fn visit<Q, R>(
        &self,
        waits: &impl Waits,
        hash: u64,
        key: &Q,
        now: Tick,
        term: Option<Term>,
        code: impl FnOnce(&mut V) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let mut guard = self.lock()?;
        let State { table, timers, .. } = &mut *guard;
        let entry = table.find_mut(hash, |entry| entry.key.borrow() == key)?;
        if entry.has_expired(now) {
            return None;
        }
        let result = {
            let _inside = Inside::enter(self.map());
            code(&mut entry.value)
        };
        let Some(term) = term else { return Some(result) };
        let deadline = term.end(timers);
        let registered = entry.move_to(deadline, timers, self.drives_clock());
        self.unlock(guard, registered.then_some(deadline), waits);
        Some(result)
    }

    /// Runs `code` on each entry that has not expired at `now`.
    pub(super) fn visit_all(&self, now: Tick, mut code: impl FnMut(&K, &V)) {
        let Some(guard) = self.lock() else { return };
        let _inside = Inside::enter(self.map());
        guard.table.iter().filter(|entry| !entry.has_expired(now)).for_each(|entry| code(&entry.key, &entry.value));
    }

    /// Takes out the entries that have not expired at `now` and for which `keep` returns `false`. They are dropped
    /// outside the lock, even if it panics.
    pub(super) fn retain(&self, waits: &impl Waits, now: Tick, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let Some(mut guard) = self.lock() else { return };
        let State { table, timers, .. } = &mut *guard;
        let mut taken = Vec::new();
        let kept = catch_unwind(AssertUnwindSafe(|| {
            let _inside = Inside::enter(self.map());
            let goes = |entry: &mut Entry<K, V>| !entry.has_expired(now) && !keep(&entry.key, &mut entry.value);
            for entry in table.extract_if(goes) {
                timers.remove(entry.timer);
                taken.push(entry);
            }
        }));
        self.unlock_without(guard, taken.len(), waits);
        // Before the panic goes on: a drop that panics, too, would abort.
        drop(taken);
        if let Err(payload) = kept {
            resume_unwind(payload);
        }
    }
}
