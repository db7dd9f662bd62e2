//! A hierarchical timing wheel: pure data, with time as an argument.
//!
//! [`Wheel`] holds values that fall due at a [`Tick`]. It has no clock, no lock, no waker and no `async`, so it serves
//! other runtimes, simulators and programs without tokio as well as it serves this crate. Inserting and removing cost
//! the same few nanoseconds whatever the population and however far away the deadline.
//!
//! Entries come out in the order of their deadlines, and first in, first out within a tick. The scheme is number 7 of G.
//! Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987). The [guide](crate::guide) shows a wheel
//! tick by tick.
//!
//! ```
//! use hairspring::wheel::{Tick, Wheel};
//!
//! let mut wheel = Wheel::new();
//! wheel.insert(Tick(3), "soon");
//! wheel.insert(Tick(130), "later");
//! assert_eq!(wheel.pop(Tick(2)), None);
//! assert_eq!(wheel.pop(Tick(3)), Some("soon"));
//! assert_eq!(wheel.next_expiration(), Some(Tick(130)));
//! assert_eq!(wheel.pop(Tick(1_000)), Some("later"));
//! ```
//
// Level `n` has 64 slots of `64^n` ticks each; eleven levels cover all of `u64`, so no deadline is too far. Write a
// deadline in base 64: the highest digit in which it differs from `elapsed` says the level, and the digit itself the
// slot. When `elapsed` reaches the start of a slot, the slot is handed out from its first entry on, if its entries are
// in the order of their deadlines. Up to 1,024 that are not are sorted first. A larger slot *cascades*: its entries now
// agree with `elapsed` in that digit too, so each moves to the level of its next differing digit, or is due. Crowds are
// moved ahead of time, some at a time, so that little is left to do when time comes to their slot.
//
// Invariants
// 1. An entry on level `n`, slot `s`, has a deadline later than `elapsed`, agrees with it in every digit above `n`, has
//    digit `n` equal to `s`, and `s` is greater than `elapsed`'s digit `n`; unless that slot is current (3). Slots never
//    wrap round.
// 2. Hence all entries of one tick are in one list, in the order in which they came: first in, first out.
// 3. While `elapsed` is in the span of a slot that still has entries, that slot is *current*: digit `n` of `elapsed`
//    names it, so each level has one at most. Its entries are in order, and then what is inserted with a deadline in
//    its span goes to a level below, where a slot may become current in its turn. Of two entries of one tick, the one
//    on the higher level came first. Or the slot cascades, which only the innermost does, and what is inserted goes to
//    its end.
// 4. The list of what is due holds entries whose deadline is at or before `elapsed`. `elapsed` never goes back while
//    there are any.
// 5. A bit of `occupied` is set exactly when its slot has an entry, a bit of `rows_occupied` when its row has one. If a
//    current slot has entries, its level's bit of `entered` is set.
// 6. A bit of `sorted` is set only if the list is in the order of its deadlines. It always is on level 0, and on other
//    levels if timers of one length are inserted one after another.
// 7. A [`Wheel::step`] hands out one entry, moves up to 32, or sorts up to 1,024. An insert moves up to 128 others.
//
// Must not know: anything else of this crate but the tick.

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

pub(crate) use slots::LEVELS;

use std::fmt;

use lists::Lists;
use slots::{AHEADS, Place, ROWS};
use spread::OFTEN;
use store::{Cell, Cells};

pub use tick::{Tick, Ticks};

/// Holds values until their deadline, in slots that make inserting and removing cheap. See the [module](self).
///
/// The wheel never reads a clock: [`step`](Wheel::step) and [`pop`](Wheel::pop) take the time.
///
/// ```
/// use hairspring::wheel::{Tick, Wheel};
///
/// let mut wheel = Wheel::new();
/// let key = wheel.insert(Tick(100), "timeout");
/// assert_eq!(wheel.remove(key), Some("timeout"));
/// assert_eq!(wheel.remove(key), None, "a stale key is refused");
/// ```
#[derive(Clone)]
pub struct Wheel<T> {
    elapsed: Tick,
    /// One bit a row: has it an occupied slot?
    rows_occupied: u32,
    /// One bit a slot, for each row.
    occupied: [u64; ROWS],
    /// One bit a slot: are its entries surely in the order of their deadlines?
    sorted: [u64; ROWS],
    lists: Lists,
    cells: Cells<T>,
    len: usize,
    /// The next entry's generation.
    inserted: u64,
    /// One bit a level: may its current slot have entries?
    entered: u32,
    /// The current slot that cascades, as long as it has entries.
    cascading: Option<Place>,
    /// Memory to sort in, kept from one slot to the next.
    sorter: Vec<u128>,
    /// The slots that are spread ahead, if their row ahead has entries.
    spread: [Place; AHEADS],
    /// At what time entries were spread last, and how many blocks may still be.
    spread_at: Tick,
    spread_left: u32,
    cascaded: u64,
}

impl<T> Wheel<T> {
    /// How many entries there may be.
    pub(crate) const MOST: usize = Cells::<T>::MOST;

    /// An empty wheel at tick 0. It asks for memory when it gets its first entry.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.elapsed(), Tick::ZERO);
    /// wheel.insert(Tick(7), "due at 7");
    /// assert_eq!(wheel.pop(Tick(6)), None);
    /// assert_eq!(wheel.pop(Tick(7)), Some("due at 7"));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Wheel::starting_at(Tick::ZERO)
    }

    /// An empty wheel whose time begins at `elapsed`: what is due at or before that is due at once.
    ///
    /// If ticks are large, as those of a clock since 1970 are, begin at the present one: the further a deadline is ahead
    /// of the wheel's time, the more work its entry makes.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::starting_at(Tick(1 << 36));
    /// wheel.insert(Tick(5), "long past");
    /// assert_eq!(wheel.next_expiration(), Some(Tick(1 << 36)));
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

    /// Counts entries as [inserted](Wheel::inserted) that never were, until the count is `first`, and returns how many
    /// they are. The keys of wheels that count apart differ.
    pub(crate) fn number_from(&mut self, first: u64) -> u64 {
        let skipped = first.checked_sub(self.inserted).expect("a generation is given once");
        self.inserted = first;
        skipped
    }

    /// Sets an empty wheel's time back to tick 0. Keys from before stay stale.
    pub(crate) fn restart(&mut self) {
        assert!(self.is_empty(), "time goes back only if nothing waits");
        (self.elapsed, self.spread_at) = (Tick::ZERO, Tick::ZERO);
    }

    /// The last tick that was processed; it never goes back.
    ///
    /// It reaches the time that [`step`](Wheel::step) is given when that says [`Step::Done`], and may be behind until
    /// then.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(10), 'x');
    /// assert_eq!(wheel.pop(Tick(20)), Some('x'));
    /// assert_eq!(wheel.elapsed(), Tick(10));
    /// assert_eq!(wheel.pop(Tick(20)), None);
    /// assert_eq!(wheel.elapsed(), Tick(20));
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Tick {
        self.elapsed
    }

    /// How many entries are in the wheel: those that were inserted, and not yet handed out or removed.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), 'x');
    /// assert_eq!(wheel.len(), 1);
    /// wheel.remove(key);
    /// assert_eq!(wheel.len(), 0, "nothing of it is left");
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(5), 'x');
    /// assert!(!wheel.is_empty());
    /// wheel.pop(Tick(5));
    /// assert!(wheel.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many entries the memory held now has room for. It grows by room for 128, copies nothing, and shrinks by itself
    /// as the population does.
    #[must_use]
    #[doc(hidden)] // For the fuzzer and the benchmarks.
    pub fn capacity(&self) -> usize {
        self.cells.capacity()
    }

    /// How many entries were inserted since the wheel was made. A [`reset`](Wheel::reset) inserts none.
    #[must_use]
    #[doc(hidden)] // For the fuzzer and the benchmarks.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// How many times an entry was moved since the wheel was made: to a lower level, or to its place in the order of its
    /// slot. The entries of a slot that is in order already are not moved.
    #[must_use]
    #[doc(hidden)] // For the fuzzer and the benchmarks.
    pub fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Puts `value` in, due at `deadline`. A deadline at or before [`elapsed`](Wheel::elapsed) is due at the next step.
    ///
    /// Nothing is rounded, and no deadline is too far. Takes a few nanoseconds, whatever the population.
    ///
    /// # Panics
    /// If the wheel would hold more than 2^32 - 128 entries.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick::MAX, "last");
    /// wheel.insert(Tick(5), "first");
    /// wheel.insert(Tick(5), "second");
    /// let due: Vec<_> = std::iter::from_fn(|| wheel.pop(Tick(5))).collect();
    /// assert_eq!(due, ["first", "second"]);
    /// ```
    #[inline]
    pub fn insert(&mut self, deadline: Tick, value: T) -> Key {
        let index = self.cells.next_index();
        let at = self.push_new(index, deadline);
        let cell = Cell::new(self.inserted, deadline, at, value);
        let key = cell.key(index);
        self.cells.insert(cell);
        self.len += 1;
        self.inserted += 1;
        // One insert in many does some of the work that a crowd makes.
        if self.inserted % OFTEN == 0 {
            self.spread_some();
        }
        key
    }

    /// Takes an entry out before it fires; `None` if `key` is stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(5), 'a');
    /// let key = wheel.insert(Tick(5), 'b');
    /// assert_eq!(wheel.pop(Tick(5)), Some('a'));
    /// assert_eq!(wheel.remove(key), Some('b'), "it is due, and was not handed out yet");
    /// assert_eq!(wheel.pop(Tick(5)), None);
    /// ```
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.take(key).map(|(_, value)| value)
    }

    /// [`remove`](Wheel::remove), with the deadline that the entry had.
    #[inline]
    pub(crate) fn take(&mut self, key: Key) -> Option<(Tick, T)> {
        let cell = self.cells.take_if(key.index, |cell| cell.is(key))?;
        self.len -= 1;
        self.unlink(cell.at);
        Some((cell.deadline, cell.value))
    }

    /// Gives an entry another deadline and keeps its key; `false` if `key` is stale.
    ///
    /// The entry goes behind those that are already at its new tick.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), 'x');
    /// assert!(wheel.reset(key, Tick(9)));
    /// assert_eq!(wheel.pop(Tick(8)), None);
    /// assert_eq!(wheel.pop(Tick(9)), Some('x'));
    /// assert!(!wheel.reset(key, Tick(20)));
    /// ```
    pub fn reset(&mut self, key: Key, deadline: Tick) -> bool {
        self.replace_deadline(key, deadline).is_some()
    }

    /// [`reset`](Wheel::reset), with the deadline that the entry had.
    #[inline]
    pub(crate) fn replace_deadline(&mut self, key: Key, deadline: Tick) -> Option<Tick> {
        let cell = self.cells.get_mut(key.index).filter(|cell| cell.is(key))?;
        let (before, at) = (std::mem::replace(&mut cell.deadline, deadline), cell.at);
        self.unlink(at);
        let at = self.push_new(key.index, deadline);
        self.cells[key.index].at = at;
        Some(before)
    }

    /// The deadline of an entry, as it was given; `None` if `key` is stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::starting_at(Tick(100));
    /// let key = wheel.insert(Tick(5), "overdue");
    /// assert_eq!(wheel.deadline(key), Some(Tick(5)));
    /// wheel.pop(Tick(100));
    /// assert_eq!(wheel.deadline(key), None);
    /// ```
    #[must_use]
    pub fn deadline(&self, key: Key) -> Option<Tick> {
        self.cell(key).map(|cell| cell.deadline)
    }

    /// What was inserted under `key`; `None` if that is stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), "here");
    /// assert_eq!(wheel.get(key), Some(&"here"));
    /// wheel.pop(Tick(5));
    /// assert_eq!(wheel.get(key), None);
    /// ```
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.cell(key).map(|cell| &cell.value)
    }

    fn cell(&self, key: Key) -> Option<&Cell<T>> {
        self.cells.get(key.index).filter(|cell| cell.is(key))
    }

    /// What was inserted under `key`, to change it; `None` if that is stale.
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.cells.get_mut(key.index).filter(|cell| cell.is(key)).map(|cell| &mut cell.value)
    }

    /// Which slots of each of the eleven levels hold entries, from level 0 up: bit `n` stands for slot `n`. What is due and
    /// not handed out yet is in no slot.
    #[must_use]
    #[doc(hidden)] // For the fuzzer and the benchmarks.
    pub fn occupancy(&self) -> &[u64] {
        &self.occupied[..LEVELS]
    }

    /// Drops all entries and gives their memory back. Their keys are stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), 'x');
    /// wheel.clear();
    /// assert!(wheel.is_empty() && wheel.get(key).is_none());
    /// ```
    pub fn clear(&mut self) {
        let fresh = Wheel { elapsed: self.elapsed, inserted: self.inserted, cascaded: self.cascaded, ..Wheel::new() };
        // Whole again before the first value is dropped, which is not our code.
        drop(std::mem::replace(self, fresh));
    }

    /// All entries, in no order.
    #[cfg(feature = "test-util")]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, Tick)> {
        self.cells.iter().map(|(index, cell)| (cell.key(index), cell.deadline))
    }

    /// Hands every entry to `take`, in the order in which they would fire, and leaves the wheel empty at the same time
    /// as before.
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
