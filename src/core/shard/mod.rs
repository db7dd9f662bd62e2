//! One lock around one wheel of wakers, and what the shard publishes so that the lock is rarely needed.
//!
//! Invariants
//! 1. `next` is never later than the wheel's earliest deadline; it changes only under the lock. Of what was taken out or
//!    put off it keeps nothing where `drives_clock` is set.
//! 2. Every entry with a deadline up to `fired_through` has been taken out. None is inserted with a deadline that the
//!    wheel has gone by, so what is taken out comes in order. Neither holds where the parking has become doubtful.
//! 3. At most [`STEPS`] steps of the wheel are made per hold of the lock.
//! 4. A waker is never woken, cloned or dropped under the lock: its code is the user's and may come back in.
//! 5. A shard serves one timer at a time, named by an epoch, and takes no entries for another. Keys of an earlier epoch
//!    are stale.
//!

mod counts;
mod lease;

use std::sync::PoisonError;
use std::task::Waker;

pub(crate) use self::counts::{Counts, Snapshot};
pub(crate) use self::lease::ShardLease;
use crate::core::capacity::Capacity;
use crate::core::lateness::Lateness;
use crate::core::next::Next;
use crate::core::parking::Parking;
use crate::core::pool::Epoch;
use crate::util::catch_panic::catch_panic;
use crate::util::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::util::sync::{Mutex, MutexGuard};
pub(crate) use crate::wheel::Key;
use crate::wheel::Tick;
use crate::wheel::{Step, Wheel};

/// Steps of the wheel, each of which touches two entries at most, before the lock is let go.
const STEPS: usize = 128;

/// Wakers taken out per hold of the lock.
const BATCH: usize = 64;

// A cache line of its own, and the one beside it that processors fetch with it.
#[repr(align(128))]
pub(crate) struct Shard {
    state: Mutex<State>,
    next: Next,
    fired_through: AtomicU64,
    /// The epoch that `fired_through` is of; set after it was set back.
    serves: AtomicU32,
    /// The use whose timer is its runtime's own; the next if another was installed in its place.
    default: AtomicU32,
    /// Deadlines are rounded up to where they have none of these bits.
    fraction: AtomicU64,
    /// Whether a clock jumps to what waits here, as one does that a test has paused. Changes only under the lock.
    // Beside what each cancellation reads.
    drives_clock: AtomicBool,
    parking: &'static Parking,
    capacity: &'static Capacity,
}

pub(super) struct State {
    pub(super) wheel: Wheel<Waker>,
    /// The timer served now, or last where the shard is closed.
    epoch: Epoch,
    open: bool,
    fired: u64,
    lateness: Lateness,
    /// What the wheel had counted when the shard was opened.
    before: Counts,
}

/// Why an entry was not inserted.
#[derive(Debug)]
pub(crate) enum InsertError {
    /// The wheel has gone by that tick.
    AlreadyDue,
    /// The timer has gone.
    Closed,
    /// The timer has as many entries as it may, which is this many.
    Full(usize),
}

/// What has become of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    Waiting,
    Fired,
    /// The timer went away before the entry was due.
    Gone,
}

/// The wakers that one hold of the lock takes out, reused so that turning does not allocate.
#[derive(Debug, Default)]
pub(crate) struct WakeList {
    wakers: Vec<Waker>,
}

impl Shard {
    pub(crate) fn new(parking: &'static Parking, capacity: &'static Capacity) -> Self {
        Shard {
            state: Mutex::new(State {
                wheel: Wheel::new(),
                epoch: Epoch(0),
                open: false,
                fired: 0,
                lateness: Lateness::new(),
                before: Counts::default(),
            }),
            next: Next::never(),
            fired_through: AtomicU64::new(0),
            serves: AtomicU32::new(0),
            default: AtomicU32::new(0),
            fraction: AtomicU64::new(0),
            drives_clock: AtomicBool::new(false),
            parking,
            capacity,
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code but our own runs under this lock; a panic of it would leave the wheel as `Wheel::check` finds it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether everything of a timer with a deadline has certainly been fired, so that it is in the past.
    #[inline]
    pub(crate) fn has_fired(&self, epoch: Epoch, deadline: Tick) -> bool {
        // `fired_through` first: a value that a later timer has stored brings that timer's `serves` with it, which the
        // second load then finds.
        self.expiry(deadline).0 <= self.fired_through.load(Ordering::Acquire)
            && self.serves(epoch)
            && !self.parking.unconfirmed.is_any()
    }

    /// Whether an entry is still here, neither fired nor given up with its timer. Locks only where what is published does
    /// not tell.
    pub(crate) fn holds(&self, epoch: Epoch, key: Key, deadline: Tick) -> bool {
        let expiry = self.expiry(deadline).0;
        // What was taken out is of the tick after `fired_through` at the latest, and `next` is not beyond what is left.
        let surely = expiry.saturating_sub(1) > self.fired_through.load(Ordering::Acquire)
            && expiry >= self.next().0
            && self.serves(epoch)
            && !self.parking.unconfirmed.is_any();
        surely || self.lock().wheel.get(key).is_some()
    }

    /// The tick at which a deadline fires: itself, or the next multiple of the resolution; the last tick where there is
    /// none left.
    #[inline]
    fn expiry(&self, deadline: Tick) -> Tick {
        let fraction = self.fraction.load(Ordering::Relaxed);
        deadline.0.checked_add(fraction).map_or(Tick::MAX, |sum| Tick(sum & !fraction))
    }

    /// Whether the wheel has gone by a tick.
    #[inline]
    fn is_past(&self, state: &State, tick: Tick) -> bool {
        tick <= state.wheel.elapsed() && !self.parking.unconfirmed.is_any()
    }

    /// Whether this serves a timer.
    #[inline]
    fn serves(&self, epoch: Epoch) -> bool {
        self.serves.load(Ordering::Acquire) == epoch.0
    }

    #[inline]
    pub(crate) fn insert(&self, epoch: Epoch, deadline: Tick, waker: Waker) -> Result<Key, InsertError> {
        let deadline = self.expiry(deadline);
        let mut state = self.lock();
        let admitted = if !state.serves(epoch) {
            Err(InsertError::Closed)
        } else if self.is_past(&state, deadline) {
            Err(InsertError::AlreadyDue)
        } else {
            self.capacity.take().map_err(InsertError::Full)
        };
        if let Err(refused) = admitted {
            drop(state);
            drop(waker);
            return Err(refused);
        }
        let key = state.wheel.insert(deadline, waker);
        self.publish_earlier(state, deadline);
        Ok(key)
    }

    #[inline]
    pub(crate) fn remove(&self, key: Key) {
        let mut state = self.lock();
        let waker = self.take_out(&mut state, key);
        self.unlock_later(state);
        drop(waker);
    }

    #[inline]
    fn take_out(&self, state: &mut State, key: Key) -> Option<Waker> {
        let waker = state.wheel.remove(key)?;
        self.capacity.give(1);
        Some(waker)
    }

    /// Moves an entry, and says whether it waits there. One whose new deadline is in the past is woken at once.
    pub(crate) fn reset(&self, key: Key, deadline: Tick) -> bool {
        let deadline = self.expiry(deadline);
        let mut state = self.lock();
        if self.is_past(&state, deadline) {
            let waker = self.take_out(&mut state, key);
            self.unlock_later(state);
            if let Some(waker) = waker {
                // A panic would leave the sleep as it was, and it has no entry any more.
                catch_panic(|| waker.wake());
            }
            return false;
        }
        let waits = state.wheel.reset(key, deadline);
        if waits && deadline < self.next() {
            self.publish_earlier(state, deadline);
        } else {
            self.unlock_later(state);
        }
        waits
    }

    /// Lets go of the lock, then tells the driver where `deadline` is the earliest here.
    #[inline]
    fn publish_earlier(&self, state: MutexGuard<'_, State>, deadline: Tick) {
        let is_earliest = self.next.registered(deadline);
        drop(state);
        if is_earliest && self.parking.registered(deadline) {
            self.drive_clock();
        }
    }

    /// Lets go of the lock where an entry was taken out or put off. No clock may then jump to where it was.
    #[inline]
    fn unlock_later(&self, state: MutexGuard<'_, State>) {
        if self.drives_clock() {
            self.publish_later(state);
        }
    }

    #[cold]
    fn publish_later(&self, state: MutexGuard<'_, State>) {
        let before = self.next();
        let later = self.look(&state) > before;
        drop(state);
        if later {
            self.parking.put_off(before);
        }
    }

    /// Publishes when the wheel has work, as it is now.
    fn look(&self, state: &State) -> Tick {
        self.next.publish(state.wheel.next_expiration())
    }

    /// Whether a clock jumps to what waits here.
    #[inline]
    pub(crate) fn drives_clock(&self) -> bool {
        self.drives_clock.load(Ordering::Relaxed)
    }

    /// From now on, and until another timer is served, a clock jumps to what waits here.
    pub(crate) fn drive_clock(&self) {
        let state = self.lock();
        self.drives_clock.store(true, Ordering::Relaxed);
        self.look(&state);
    }

    /// Makes `waker` the one that an entry wakes.
    pub(crate) fn set_waker(&self, epoch: Epoch, key: Key, waker: &Waker) -> EntryState {
        match self.swap_waker(epoch, key, waker, None) {
            Ok(fate) => fate,
            Err(()) => self.swap_waker(epoch, key, waker, Some(waker.clone())).unwrap_or(EntryState::Waiting),
        }
    }

    /// `Err` where the entry has another waker and no clone to put in its place was given.
    fn swap_waker(&self, epoch: Epoch, key: Key, waker: &Waker, clone: Option<Waker>) -> Result<EntryState, ()> {
        let mut state = self.lock();
        let Some(current) = state.wheel.get_mut(key) else {
            let fate = if state.serves(epoch) { EntryState::Fired } else { EntryState::Gone };
            drop(state);
            drop(clone);
            return Ok(fate);
        };
        if current.will_wake(waker) {
            drop(state);
            drop(clone);
            return Ok(EntryState::Waiting);
        }
        let Some(clone) = clone else { return Err(()) };
        let before = std::mem::replace(current, clone);
        drop(state);
        drop(before);
        Ok(EntryState::Waiting)
    }

    /// When there is work here; never too late. Reads no lock.
    pub(crate) fn next(&self) -> Tick {
        self.next.get()
    }

    /// Wakes some of what is due at `now`, and returns how many. There is more as long as `next` is not after `now`.
    pub(crate) fn fire(&self, now: Tick, wakes: &mut WakeList) -> usize {
        let mut state = self.lock();
        if !state.open {
            // What is left belongs to whoever closes the shard, who has moved the wheel beyond any time.
            self.next.publish(None);
            return 0;
        }
        let State { wheel, lateness, .. } = &mut *state;
        wheel.skip_to(self.next().min(now));
        let taken = take_due(wheel, now, &mut wakes.wakers, |deadline| lateness.record(now - deadline));
        self.capacity.give(wakes.wakers.len());
        match taken {
            Progress::All => {
                self.look(&state);
                self.fired_through.fetch_max(now.0, Ordering::Release);
            }
            // They come in the order of their deadlines; others of this very tick may be left.
            Progress::Through(last) => {
                self.fired_through.fetch_max(last.0.saturating_sub(1), Ordering::Release);
            }
        }
        state.fired += wakes.wakers.len() as u64;
        drop(state);
        wakes.wake_all()
    }

    pub(crate) fn was_opened_for(&self, epoch: Epoch) -> bool {
        self.lock().epoch == epoch
    }

    /// What was done for a timer and is held for it; nothing where the shard serves another by now.
    pub(crate) fn add_to(&self, sum: &mut Snapshot, epoch: Epoch) {
        let state = self.lock();
        if state.epoch != epoch {
            return;
        }
        let counts = state.count();
        sum.counts.registered += counts.registered - state.before.registered;
        sum.counts.cascaded += counts.cascaded - state.before.cascaded;
        sum.counts.fired += counts.fired;
        sum.counts.pending += counts.pending;
        sum.lateness.add(&state.lateness);
        for (sum, slots) in sum.occupancy.iter_mut().zip(state.wheel.occupancy()) {
            *sum |= slots;
        }
    }

    /// Takes entries for a timer from now on.
    pub(crate) fn open(&self, epoch: Epoch, grain: u32) {
        let mut state = self.lock();
        self.fraction.store((1 << grain) - 1, Ordering::Relaxed);
        self.drives_clock.store(false, Ordering::Relaxed);
        state.wheel.restart();
        (state.epoch, state.open) = (epoch, true);
        state.fired = 0;
        state.lateness = Lateness::new();
        state.before = state.count();
        self.next.publish(None);
        self.fired_through.store(0, Ordering::Release);
        self.serves.store(epoch.0, Ordering::Release);
        self.default.store(epoch.0, Ordering::SeqCst);
    }

    /// Another timer was installed in the place of this one's, or it has ended.
    pub(crate) fn replace(&self, epoch: Epoch) {
        // If this serves another by now, that stays.
        let _ = self.default.compare_exchange(epoch.0, epoch.next().0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether a timer is its runtime's still. One that was never a runtime's is as long as it lives.
    #[inline]
    pub(crate) fn is_default(&self, epoch: Epoch) -> bool {
        self.default.load(Ordering::SeqCst) == epoch.0
    }

    /// Takes no more entries and wakes those it has, so that they are polled and see that their timer has gone. Returns
    /// how many there were.
    pub(crate) fn close(&self) -> usize {
        let mut wakes = WakeList::default();
        let mut pending = 0;
        loop {
            let mut state = self.lock();
            state.open = false;
            // There is no work here any more, and nothing is to be taken to wait.
            self.next.publish(None);
            // Handing out everything up to the last tick empties the wheel; it is not used for time any more.
            let taken = take_due(&mut state.wheel, Tick::MAX, &mut wakes.wakers, |_| ());
            self.capacity.give(wakes.wakers.len());
            drop(state);
            pending += wakes.wake_all();
            if let Progress::All = taken {
                return pending;
            }
        }
    }
}

/// How far a hold of the lock got.
enum Progress {
    /// Nothing due is left.
    All,
    /// Up to this deadline.
    Through(Tick),
}

/// Takes some wakers out that are due at `now`, and tells of the deadline of each.
fn take_due(wheel: &mut Wheel<Waker>, now: Tick, wakers: &mut Vec<Waker>, mut tell: impl FnMut(Tick)) -> Progress {
    let mut through = Tick::ZERO;
    for _ in 0..STEPS {
        match wheel.step(now) {
            Step::Fired { value, deadline, .. } => {
                through = deadline;
                tell(deadline);
                wakers.push(value);
                if wakers.len() == BATCH {
                    break;
                }
            }
            Step::Cascaded => {}
            Step::Done => return Progress::All,
        }
    }
    Progress::Through(through)
}

impl State {
    fn serves(&self, epoch: Epoch) -> bool {
        self.open && self.epoch == epoch
    }

    fn count(&self) -> Counts {
        Counts {
            registered: self.wheel.inserted(),
            fired: self.fired,
            pending: self.wheel.len() as u64,
            cascaded: self.wheel.cascaded(),
        }
    }
}

impl WakeList {
    fn wake_all(&mut self) -> usize {
        let count = self.wakers.len();
        for waker in self.wakers.drain(..) {
            catch_panic(|| waker.wake());
        }
        count
    }
}

#[cfg(test)]
mod tests;
