//! A hierarchical timing wheel: stores values until their deadlines, without a clock, a lock or `async`.
//!
//! Sleep until [`Wheel::next_expiration`], then take out the due entries:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use hairspring::wheel::{Tick, Wheel};
//!
//! let start = Instant::now();
//! let now = || Tick::from(start.elapsed().as_micros() as u64); // a tick is a microsecond
//!
//! let mut wheel = Wheel::new();
//! wheel.insert(Tick::from(2_000), "second");
//! wheel.insert(Tick::from(1_000), "first");
//! let cancelled = wheel.insert(Tick::from(1_500), "cancelled");
//! wheel.remove(cancelled);
//!
//! let mut fired = Vec::new();
//! while let Some(next) = wheel.next_expiration() {
//!     std::thread::sleep(Duration::from_micros((next - now()).into()));
//!     while let Some(value) = wheel.pop(now()) {
//!         fired.push(value);
//!     }
//! }
//! assert_eq!(fired, ["first", "second"]);
//! ```
//!
//! [`Wheel`] is the data structure behind this crate's timers. It takes the time as an argument, so it also works in
//! other runtimes, in simulators and in programs without tokio.
//!
//! # Time
//!
//! Time is counted in [`Tick`]s; you choose their length and origin. Nothing is rounded: an entry is due at exactly its
//! deadline, and every `u64` is a valid deadline. Entries come out in deadline order, and first in, first out within a
//! tick.
//!
//! # Cost
//!
//! - Inserting and removing take tens of nanoseconds at most, regardless of the number of entries and the distance of
//!   the deadline. One insert in 64 may also move up to 128 other entries, if many are due at about the same time.
//! - [`Wheel::step`] does a bounded amount of work per call: it returns one entry, or moves or sorts at most 1,024.
//!   [`Wheel::pop`] repeats that until it can return an entry or nothing more is due.
//! - Time that passes without entries costs nothing, however long.
//! - An empty wheel takes about 7 KB and no heap memory. Memory grows and shrinks with the number of entries, in small
//!   pieces and without copying.
//!
//! The algorithm is scheme 7 of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987).
//
// Level `n` has 64 slots of `64^n` ticks each, and eleven levels cover all of `u64`. To place an entry, write its
// deadline and `elapsed` in base 64: the highest digit in which they differ is the level, and the deadline's digit
// there is the slot. `slots.rs` has an example.
//
// When `elapsed` reaches the start of a slot, the slot becomes *current*. Entries in deadline order are handed out
// directly from there; up to 1,024 that are not are sorted first. A larger slot *cascades*: its entries now agree with
// `elapsed` in one more digit, and each moves to the level of its next differing digit, or is due. Crowded slots are
// spread ahead of time, a few entries at a time (`spread.rs`), which leaves little to do when `elapsed` reaches them.
//
// Invariants
// 1. Unless its slot is current (3), an entry on level `n`, slot `s`, has a deadline later than `elapsed` that agrees
//    with `elapsed` in every digit above `n` and has digit `n` equal to `s`, and `s` is greater than `elapsed`'s digit
//    `n`. Slots never wrap around.
// 2. All entries of one tick are therefore in one list, in insertion order. Current slots (3) and spread slots
//    (`spread.rs`) divide them between lists; all entries of one list are then older than those of the next.
// 3. A slot is *current* while `elapsed` is within its span and it has entries. Digit `n` of `elapsed` names it, so
//    each level has at most one. A current slot is either sorted or cascading. If it is sorted, new entries with
//    deadlines in its span go to a lower level, where a slot may become current in turn; of two entries of one tick,
//    the one on the higher level is the older. Only the innermost current slot cascades, and new entries with deadlines
//    in its span are appended to it.
// 4. The due list holds entries whose deadlines are at or before `elapsed`. `elapsed` never goes back without filing
//    all entries again.
// 5. A bit of `occupied` is set exactly if its slot has an entry, and a bit of `rows_occupied` exactly if its row has
//    one. If a current slot has entries, its level's bit of `entered` is set.
// 6. A bit of `sorted` is set only if the slot's list is in deadline order. Level 0 always is; other levels are if
//    timers of equal length are inserted one after another.
// 7. A [`Wheel::step`] hands out one entry, moves up to 32, or sorts up to 1,024. An insert moves up to 128 others.
//
// Must not know: the rest of the crate.

mod lists;
mod slots;
mod spread;
mod step;
mod store;
#[cfg(test)]
mod tests;
mod tick;

pub use step::Step;
pub use store::Key;

use std::fmt;

use lists::Lists;
use slots::{AHEADS, Place, ROWS};
use spread::SPREAD_INTERVAL;
use store::{Cell, Cells};

pub use tick::{Tick, Ticks};

use crate::util::panics::drop_all;

/// A hierarchical timing wheel: returns values at their deadlines. See the [module](self) for cost and order.
///
/// # Examples
///
/// ```
/// use hairspring::wheel::{Tick, Wheel};
///
/// let mut wheel = Wheel::new();
/// let key = wheel.insert(Tick::from(100), "timeout");
/// assert_eq!(wheel.remove(key), Some("timeout"));
/// assert_eq!(wheel.remove(key), None, "a stale key is refused");
/// ```
#[doc(alias = "HashedWheelTimer")]
#[doc(alias = "TimerWheel")]
#[derive(Clone)]
pub struct Wheel<T> {
    elapsed: Tick,
    /// One bit per row: whether it has an occupied slot.
    rows_occupied: u32,
    /// One bit per slot, for each row.
    occupied: [u64; ROWS],
    /// One bit per slot: whether its list is known to be in deadline order.
    sorted: [u64; ROWS],
    lists: Lists,
    cells: Cells<T>,
    len: usize,
    inserted: u64,
    /// One bit per level: whether its current slot may have entries.
    entered: u32,
    /// The current slot that cascades, until it is empty.
    cascading: Option<Place>,
    sorter: Vec<u128>,
    /// The slots that are being spread; each is valid while its row ahead has entries.
    spread: [Place; AHEADS],
    /// The time of the last spreading, and how many more blocks may be spread at that time.
    spread_at: Tick,
    spread_left: u32,
    cascaded: u64,
}

impl<T> Wheel<T> {
    pub(crate) const MAX_LEN: usize = Cells::<T>::MAX_LEN;

    /// Creates an empty wheel whose time starts at tick 0.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.elapsed(), Tick::ZERO);
    /// wheel.insert(Tick::from(7), "due at 7");
    /// assert_eq!(wheel.pop(Tick::from(6)), None);
    /// assert_eq!(wheel.pop(Tick::from(7)), Some("due at 7"));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Wheel::starting_at(Tick::ZERO)
    }

    /// Creates an empty wheel whose time starts at `elapsed`. Entries with deadlines at or before `elapsed` are due
    /// immediately.
    ///
    /// If your ticks are large, such as nanoseconds since 1970, start at the present: the further a deadline lies ahead
    /// of the wheel's time, the more often its entry is moved.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::starting_at(Tick::from(1 << 36));
    /// wheel.insert(Tick::from(5), "long past");
    /// assert_eq!(wheel.next_expiration(), Some(Tick::from(1 << 36)));
    /// ```
    #[must_use]
    pub fn starting_at(elapsed: Tick) -> Self {
        Wheel {
            elapsed,
            rows_occupied: 0,
            occupied: [0; ROWS],
            sorted: [0; ROWS],
            lists: Lists::new(),
            cells: Cells::new(),
            len: 0,
            inserted: 0,
            entered: 0,
            cascading: None,
            sorter: Vec::new(),
            spread: [Place::DUE; AHEADS],
            spread_at: Tick::ZERO,
            spread_left: 0,
            cascaded: 0,
        }
    }

    /// Raises the count of [inserted](Wheel::inserted) entries to `first`, and returns by how many. Wheels that count
    /// from different numbers create different keys.
    pub(crate) fn number_from(&mut self, first: u64) -> u64 {
        let skipped = first.checked_sub(self.inserted).expect("a generation is used once");
        self.inserted = first;
        skipped
    }

    /// Returns the last tick that was processed. It never goes back.
    ///
    /// It lags behind the time given to [`step`](Wheel::step) until that returns [`Step::Done`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::from(10), 'x');
    /// assert_eq!(wheel.pop(Tick::from(20)), Some('x'));
    /// assert_eq!(wheel.elapsed(), Tick::from(10));
    /// assert_eq!(wheel.pop(Tick::from(20)), None);
    /// assert_eq!(wheel.elapsed(), Tick::from(20));
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Tick {
        self.elapsed
    }

    /// Returns the number of entries that were inserted and neither handed out nor removed.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick::from(5), 'x');
    /// assert_eq!(wheel.len(), 1);
    /// wheel.remove(key);
    /// assert_eq!(wheel.len(), 0, "nothing of it is left");
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the wheel has no entries.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::from(5), 'x');
    /// assert!(!wheel.is_empty());
    /// wheel.pop(Tick::from(5));
    /// assert!(wheel.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries were inserted so far. A [`reset`](Wheel::reset) does not count.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// How often entries were moved so far: to a lower level, or into order within their slot. Entries of a slot that
    /// is in order are not moved.
    pub(crate) fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Inserts `value`, due at `deadline`, and returns its key. A deadline at or before [`elapsed`](Wheel::elapsed) is
    /// due at the next step.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::MAX, "last");
    /// wheel.insert(Tick::from(5), "first");
    /// wheel.insert(Tick::from(5), "second");
    /// let due: Vec<_> = std::iter::from_fn(|| wheel.pop(Tick::from(5))).collect();
    /// assert_eq!(due, ["first", "second"]);
    /// ```
    ///
    /// The deadline is not rounded, and may be as far away as [`Tick::MAX`]. See [the module](self#cost) for the cost.
    ///
    /// # Panics
    ///
    /// Panics if the wheel already holds 2^32 - 128 entries.
    #[doc(alias = "schedule")]
    #[inline]
    pub fn insert(&mut self, deadline: Tick, value: T) -> Key {
        let index = self.cells.next_index();
        let at = self.push_new(index, deadline);
        let cell = Cell::new(self.inserted, deadline, at, value);
        let key = cell.key(index);
        self.cells.insert(cell);
        self.len += 1;
        self.inserted += 1;
        // Spreads the work on crowded slots over inserts.
        if self.inserted % SPREAD_INTERVAL == 0 {
            self.spread_some();
        }
        key
    }

    /// Removes an entry and returns its value, or `None` if `key` is stale. Takes tens of nanoseconds at most.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::from(5), 'a');
    /// let key = wheel.insert(Tick::from(5), 'b');
    /// assert_eq!(wheel.pop(Tick::from(5)), Some('a'));
    /// assert_eq!(wheel.remove(key), Some('b'), "it is due, and was not handed out yet");
    /// assert_eq!(wheel.pop(Tick::from(5)), None);
    /// ```
    #[doc(alias = "cancel")]
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.take(key).map(|(_, value)| value)
    }

    /// [`remove`](Wheel::remove) that also returns the deadline.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<(Tick, T)> {
        let cell = self.cells.take_if(key.index, |cell| cell.is(key))?;
        self.len -= 1;
        self.unlink(cell.at);
        Some((cell.deadline, cell.value))
    }

    /// Changes an entry's deadline and keeps its key. Returns `false` if `key` is stale.
    ///
    /// The entry fires after entries that already wait for its new tick.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick::from(5), 'x');
    /// assert!(wheel.reset(key, Tick::from(9)));
    /// assert_eq!(wheel.pop(Tick::from(8)), None);
    /// assert_eq!(wheel.pop(Tick::from(9)), Some('x'));
    /// assert!(!wheel.reset(key, Tick::from(20)));
    /// ```
    #[doc(alias = "reschedule")]
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        self.replace_deadline(key, deadline).is_some()
    }

    /// [`reset`](Wheel::reset) that returns the old deadline.
    #[inline]
    pub(crate) fn replace_deadline(&mut self, key: Key, deadline: Tick) -> Option<Tick> {
        let cell = self.cells.get_mut(key.index).filter(|cell| cell.is(key))?;
        let (before, at) = (std::mem::replace(&mut cell.deadline, deadline), cell.at);
        self.unlink(at);
        let at = self.push_new(key.index, deadline);
        self.cells[key.index].at = at;
        Some(before)
    }

    /// Returns an entry's deadline as it was given, or `None` if `key` is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::starting_at(Tick::from(100));
    /// let key = wheel.insert(Tick::from(5), "overdue");
    /// assert_eq!(wheel.deadline(key), Some(Tick::from(5)));
    /// wheel.pop(Tick::from(100));
    /// assert_eq!(wheel.deadline(key), None);
    /// ```
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.cell(key).map(|cell| cell.deadline)
    }

    /// Returns an entry's value, or `None` if `key` is stale.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick::from(5), "here");
    /// assert_eq!(wheel.get(key), Some(&"here"));
    /// wheel.pop(Tick::from(5));
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.cell(key).map(|cell| &cell.value)
    }

    fn cell(&self, key: Key) -> Option<&Cell<T>> {
        self.cells.get(key.index).filter(|cell| cell.is(key))
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.cells.get_mut(key.index).filter(|cell| cell.is(key)).map(|cell| &mut cell.value)
    }

    /// Drops all entries and releases their memory. Their keys become stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick::from(5), 'x');
    /// wheel.clear();
    /// assert!(wheel.is_empty() && wheel.get(key).is_none());
    /// ```
    ///
    /// If the drops of some values panic, all others are dropped nevertheless. If the wheel itself is dropped, a second
    /// panic aborts the process, as with a `Vec`.
    ///
    /// # Panics
    ///
    /// Panics if the drop of a value does.
    pub fn clear(&mut self) {
        let fresh = Wheel { elapsed: self.elapsed, inserted: self.inserted, cascaded: self.cascaded, ..Wheel::new() };
        // Restore the invariants before dropping the values, which runs user code.
        drop_all(std::mem::replace(self, fresh).cells.table.into_iter().flatten());
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, Tick)> {
        self.cells.iter().map(|(index, cell)| (cell.key(index), cell.deadline))
    }

    /// Empties the wheel into `take`, in deadline order, and leaves its time unchanged.
    pub(crate) fn empty_into(&mut self, mut take: impl FnMut(Key, Tick, T)) {
        let elapsed = self.elapsed;
        loop {
            match self.step(Tick::MAX) {
                Step::Fired { key, deadline, value } => take(key, deadline, value),
                Step::Cascaded => {}
                Step::Done => break,
            }
        }
        self.elapsed = elapsed;
    }
}

impl<T> Default for Wheel<T> {
    fn default() -> Self {
        Wheel::new()
    }
}

impl<T> fmt::Debug for Wheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("elapsed", &self.elapsed)
            .field("len", &self.len())
            .field("next_expiration", &self.next_expiration())
            .finish_non_exhaustive()
    }
}
