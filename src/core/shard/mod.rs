//! [`Shard`]: one lock around one wheel of wakers, and published values that make most uses of the lock unnecessary.
//
// Invariants
// 1. `next` is never later than the wheel's earliest deadline, and changes only under the lock. If `publishes_removals`
//    is set, it also follows removals and postponements.
// 2. Every entry with a deadline up to `fired_through` has been taken out. No entry is inserted with a deadline that
//    the wheel has passed, so entries come out in order.
// 3. Each lock hold takes out or moves a bounded number of entries.
// 4. A waker is never woken, cloned or dropped under the lock: it is user code and may call back.
// 5. A shard serves one timer at a time, named by an epoch, and takes no entries for another. Keys are never used
//    twice, so those of an earlier epoch find nothing.
//
// They hold because all changes are made under the lock, and what is read without it errs on the safe side if it is out
// of date: an early `next` costs a look, an early `fired_through` a lock, and an old epoch finds nothing.

mod lease;

use std::task::Waker;

pub(crate) use self::lease::ShardLease;
use crate::clock::Hooks;
use crate::core::engine::Engine;
use crate::core::epoch::{Epoch, RefCount};
use crate::core::parker::Next;
use crate::core::statistics::{Lateness, Snapshot};
use crate::core::wake_list::WakeList;
use crate::util::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::util::sync::{FairMutex, MutexGuard};
pub(crate) use crate::wheel::Key;
use crate::wheel::{Step, Tick, Ticks, Wheel};

/// The maximum number of wakers taken out per lock hold.
pub(crate) const WAKES: usize = 64;

/// The number of moved entries after which a lock hold ends. The last step may exceed it by a thousand.
const MOVES: u64 = 512;

/// In `Shard::life`: the timer has not ended, so entries may be inserted. Changes only under the lock.
const OPEN: u32 = 1 << 30;

/// In `Shard::life`: besides, no other timer was installed instead.
const DEFAULT: u32 = 1 << 31;

pub(crate) trait FireHooks {
    /// An entry with this deadline fires.
    #[inline]
    fn fires(_shard: usize, _deadline: Tick) {}

    /// The order in which the wakers of entries that fired are woken.
    #[inline]
    fn arrange<T>(_shard: usize, _wakers: &mut [T]) {}
}

#[cfg(not(feature = "test-util"))]
impl FireHooks for Hooks {}

// On its own pair of cache lines, which CPUs fetch together. Registering and cancelling read few of them.
#[repr(C, align(128))]
pub(crate) struct Shard {
    engine: &'static Engine,
    state: FairMutex<ShardState>,
    next: Next,
    fired_through: AtomicU64,
    /// Whether the driver notices removals. Changes only under the lock.
    publishes_removals: AtomicBool,
    resolution: AtomicU64,
    /// The epoch of the current timer, or of the last one, with `OPEN` and `DEFAULT`. Set after `fired_through` was
    /// reset.
    life: AtomicU32,
    /// The users that may still register: all owners of the timer together, and each sleep created through a handle.
    pub(crate) users: RefCount,
}

pub(crate) struct ShardState {
    pub(crate) wheel: Wheel<Waker>,
    lateness: Lateness,
    /// The wheel's counts of inserted and moved entries when the shard was opened.
    inserted_before: u64,
    cascaded_before: u64,
}

/// Why an entry was not inserted.
#[derive(Debug)]
pub(crate) enum InsertError {
    /// The wheel has passed that tick.
    AlreadyDue,
    Closed,
    /// The timer is at capacity, with this many entries.
    AtCapacity(usize),
}

impl Shard {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        Shard {
            state: FairMutex::new(ShardState {
                wheel: Wheel::new(),
                lateness: Lateness::default(),
                inserted_before: 0,
                cascaded_before: 0,
            }),
            next: Next::never(),
            fired_through: AtomicU64::new(0),
            life: AtomicU32::new(0),
            users: RefCount::none(),
            resolution: AtomicU64::new(Ticks::ONE.0),
            publishes_removals: AtomicBool::new(false),
            engine,
        }
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, ShardState> {
        // Nothing panics halfway through a change under this lock.
        self.state.lock()
    }

    #[inline]
    fn resolution(&self) -> Ticks {
        Ticks(self.resolution.load(Ordering::Relaxed))
    }

    #[inline]
    fn expiry(&self, deadline: Tick) -> Tick {
        let resolution = self.resolution();
        if resolution == Ticks::ONE { deadline } else { deadline.next_multiple_of(resolution) }
    }

    /// The expiry of a deadline that is about to be registered.
    #[inline]
    fn expiry_here(&self, deadline: Tick) -> Tick {
        let expiry = self.expiry(deadline);
        if self.publishes_removals() {
            self.engine.catch_up(expiry);
        }
        expiry
    }

    /// Whether the wheel has passed a tick, or the timer's turns have: they step no wheel in which nothing is due.
    #[inline]
    fn is_past(&self, state: &ShardState, tick: Tick) -> bool {
        tick <= state.wheel.elapsed() || tick <= self.engine.reached()
    }

    #[inline]
    fn take_out(&self, state: &mut ShardState, key: Key) -> Option<Waker> {
        let before = if self.engine.capacity.is_limited() { state.wheel.deadline(key) } else { None };
        let waker = state.wheel.remove(key)?;
        self.engine.capacity.give(before.map_or(0, takes_room));
        Some(waker)
    }

    /// Publishes `deadline` if it is the earliest here, unlocks, then passes it on to the driver, which may wait for a
    /// later one.
    #[inline]
    fn publish_earlier(&self, state: MutexGuard<'_, ShardState>, deadline: Tick) {
        // The driver of a paused clock waits for the first deadline itself, of which `next` may fall short.
        let may_be_awaited = self.next.lower_to(deadline) || self.publishes_removals();
        drop(state);
        if may_be_awaited && self.engine.after_insert(deadline) {
            self.publish_removals();
        }
    }

    /// The deadline of an entry that is about to be removed or moved, if that may have to wake the driver.
    #[inline]
    fn noticed(&self, state: &ShardState, key: Key) -> Option<Tick> {
        if self.publishes_removals() { state.wheel.deadline(key) } else { None }
    }

    /// Unlocks after an entry that was due at `noticed` was removed or postponed.
    #[inline]
    fn unlock_later(&self, state: MutexGuard<'_, ShardState>, noticed: Option<Tick>) {
        if let Some(deadline) = noticed {
            self.publish_later(state, deadline);
        }
    }

    #[cold]
    fn publish_later(&self, state: MutexGuard<'_, ShardState>, deadline: Tick) {
        let before = self.next();
        let later = self.publish_next(&state) > before;
        drop(state);
        self.engine.after_removal(if later { before } else { deadline });
    }

    fn publish_next(&self, state: &ShardState) -> Tick {
        self.next.publish(state.wheel.next_expiration())
    }

    #[inline]
    pub(crate) fn publishes_removals(&self) -> bool {
        self.publishes_removals.load(Ordering::Relaxed)
    }

    /// Makes the driver notice removals, until the shard serves another timer.
    pub(crate) fn publish_removals(&self) {
        if !self.publishes_removals() {
            let state = self.lock();
            self.publishes_removals.store(true, Ordering::Relaxed);
            self.publish_next(&state);
        }
    }

    /// The earliest deadline, or `Tick::MAX`. Searches all unordered entries near it.
    pub(crate) fn first_deadline(&self) -> Tick {
        let state = self.lock();
        state.wheel.first().and_then(|key| state.wheel.deadline(key)).unwrap_or(Tick::MAX)
    }

    /// When the shard next has work, or earlier. Takes no lock.
    pub(crate) fn next(&self) -> Tick {
        self.next.get()
    }

    /// Fires some of the entries due at `at`, and returns how many. More are due if `next` is not after that.
    pub(crate) fn fire(&self, at: Tick, now: Tick, wakes: &mut WakeList) -> usize {
        self.state.give_way();
        let mut state = self.lock();
        if self.life.load(Ordering::Relaxed) & OPEN == 0 {
            // `close` has moved the wheel to the last tick, and wakes the rest.
            self.next.publish(None);
            return 0;
        }
        let (address, before) = (self.address(), wakes.wakers.len());
        let ShardState { wheel, lateness, .. } = &mut *state;
        let through = take_due(wheel, at, &mut wakes.wakers, |deadline| {
            lateness.record(now - deadline);
            Hooks::fires(address, deadline);
        });
        Hooks::arrange(address, &mut wakes.wakers[before..]);
        let taken = wakes.wakers.len() - before;
        self.engine.capacity.give(taken);
        if through.is_none() {
            self.publish_next(&state);
        }
        self.fired_through.fetch_max(through.unwrap_or(at).0, Ordering::Release);
        drop(state);
        wakes.wake_all();
        taken
    }

    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Wheel<Waker>) -> T) -> T {
        read(&self.lock().wheel)
    }

    pub(crate) fn open(&self, epoch: Epoch, resolution: Ticks, begin: Tick) {
        let mut state = self.lock();
        self.resolution.store(resolution.0, Ordering::Relaxed);
        self.publishes_removals.store(false, Ordering::Relaxed);
        state.wheel.set_back(begin);
        state.wheel.skip_to(begin);
        state.lateness = Lateness::default();
        (state.inserted_before, state.cascaded_before) = (state.wheel.inserted(), state.wheel.cascaded());
        self.next.publish(None);
        self.fired_through.store(0, Ordering::Release);
        self.users.begin(epoch);
        self.life.store(epoch.0 | OPEN | DEFAULT, Ordering::SeqCst);
    }

    /// Another timer than the one with this epoch was installed.
    pub(crate) fn replace(&self, epoch: Epoch) {
        let (default, replaced) = (epoch.0 | OPEN | DEFAULT, epoch.0 | OPEN);
        let _ = self.life.compare_exchange(default, replaced, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether the timer with this epoch has users, or entries wait.
    pub(crate) fn is_used(&self, epoch: Epoch) -> bool {
        self.users.are_any(epoch) || !self.lock().wheel.is_empty()
    }

    pub(crate) fn add_to(&self, sum: &mut Snapshot) {
        let state = self.lock();
        sum.registered += state.wheel.inserted() - state.inserted_before;
        sum.cascaded += state.wheel.cascaded() - state.cascaded_before;
        sum.pending += state.wheel.len() as u64;
        sum.lateness.add(&state.lateness);
    }

    /// Refuses further entries, wakes the remaining ones, and returns their number.
    pub(crate) fn close(&self) -> usize {
        let mut wakes = WakeList::default();
        let mut pending = 0;
        let state = self.lock();
        self.life.fetch_and(!(OPEN | DEFAULT), Ordering::SeqCst);
        // What has fired is over, even if a turn was interrupted among entries of one tick.
        self.fired_through.fetch_max(state.wheel.elapsed().0, Ordering::Release);
        drop(state);
        loop {
            let mut state = self.lock();
            // There is no work here any more, and no entry counts as waiting.
            self.next.publish(None);
            // Stepping to the last tick empties the wheel, which this timer no longer uses.
            let mut room = 0;
            let rest = take_due(&mut state.wheel, Tick::MAX, &mut wakes.wakers, |due| room += takes_room(due));
            self.engine.capacity.give(room);
            drop(state);
            pending += wakes.wake_all();
            if rest.is_none() {
                return pending;
            }
        }
    }
}

/// How much of a timer's capacity an entry takes: none if it only says that there is no limit.
fn takes_room(deadline: Tick) -> usize {
    usize::from(deadline < Tick::MAX)
}

/// Takes out some wakers that are due at `now`, and passes their deadlines to `record`. Returns `None` if nothing due
/// is left, otherwise the tick through which all were taken out.
fn take_due(
    wheel: &mut Wheel<Waker>,
    now: Tick,
    wakers: &mut Vec<Waker>,
    mut record: impl FnMut(Tick),
) -> Option<Tick> {
    let mut through = Tick::ZERO;
    let before = wheel.cascaded();
    while wakers.len() < WAKES && wheel.cascaded() - before < MOVES {
        match wheel.step(now) {
            Step::Fired { value, deadline, .. } => {
                // Entries come out in deadline order, and others with this deadline may be left.
                through = Tick(deadline.0.saturating_sub(1));
                record(deadline);
                wakers.push(value);
            }
            Step::Cascaded => {}
            Step::Done => return None,
        }
    }
    Some(through)
}

#[cfg(test)]
mod tests;
