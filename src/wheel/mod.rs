//! A hierarchical timing wheel: pure data, with time as an argument.
//!
//! [`Wheel`] holds values that fall due at a [`Tick`]. It has no clock, no lock, no waker and no `async`, so it serves
//! other runtimes, simulators and programs without tokio as well as it serves this crate. Inserting and removing cost
//! the same few nanoseconds whatever the population and however far away the deadline.
//!
//! The scheme is number 7 of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels" (SOSP 1987), with levels
//! of 64 slots as in most of its descendants.
//!
//! # How it works
//! Level `n` has 64 slots of `64^n` ticks each; eleven levels cover all of `u64`, so no deadline is too far. Write a
//! deadline in base 64: the highest digit in which it differs from `elapsed` says the level, and the digit itself the
//! slot. When `elapsed` reaches the start of a slot on a level above 0, its entries *cascade*: they now agree with
//! `elapsed` in that digit too, so each moves to the level of its next differing digit, or is due. Where they stand in
//! order already there is no need: the slot is handed out from its first entry on.
//!
//! ```
//! use hairspring::wheel::{Step, Tick, Wheel};
//!
//! let mut wheel = Wheel::new();
//! wheel.insert(Tick(3), "soon"); //    level 0, slot 3
//! wheel.insert(Tick(130), "later"); // 130 = 2 * 64 + 2: level 1, slot 2
//! assert_eq!(wheel.pop(Tick(2)), None);
//! assert_eq!(wheel.pop(Tick(3)), Some("soon"));
//! assert_eq!(wheel.next_expiration(), Some(Tick(130)));
//! assert_eq!(wheel.pop(Tick(1_000)), Some("later"));
//! ```
//!
//! Invariants
//! 1. An entry on level `n`, slot `s`, has a deadline later than `elapsed`, agrees with it in every digit above `n`, has
//!    digit `n` equal to `s`, and `s` is greater than `elapsed`'s digit `n`; unless that slot is current (3). Slots never
//!    wrap round.
//! 2. Hence all entries of one tick stand in one list, in the order they came: first in, first out.
//! 3. While `elapsed` is in the span of a slot that still has entries, that slot is *current*. What is inserted with a
//!    deadline in its span goes to its end while it cascades, and where that keeps it in order; else it goes below, where
//!    the slots may become current in their turn. Of two entries of one tick, the one further out came first.
//! 4. The list of what is due holds entries whose deadline is at or before `elapsed`. `elapsed` never goes back while
//!    there are any.
//! 5. A bit of `occupied` is set exactly when its list has an entry, a bit of `rows_occupied` when its row has one.
//! 6. A bit of `sorted` is set only where the list is in the order of its deadlines: always on level 0, and most often
//!    where timers have the same length. Such a slot is handed out as it stands, without cascading.
//! 7. [`Wheel::step`] touches two entries at most.
//!
//! Must not know: anything else of this crate but the tick.

mod check;
mod list;
mod sort;
mod store;
mod whole;

use std::fmt;

use list::List;
pub(crate) use sort::Sorter;
pub use store::Key;
use store::{NIL, Store};

pub use crate::tick::{Tick, Ticks};

/// Bits in a digit: a level has `1 << DIGIT` slots.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
pub(crate) const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT as usize);
/// The row of lists behind those of the levels. Its first list holds what is due.
const DUE: usize = LEVELS;
const ROWS: usize = LEVELS + 1;

/// How many entries of one slot [`Wheel::next_expiration`] looks at before it answers with the slot's start.
const EXACT: usize = 16;

/// Holds values until their deadline, in slots that make inserting and removing cheap. See the [module](self).
///
/// The wheel never reads a clock: [`step`](Wheel::step) and [`pop`](Wheel::pop) are told the time.
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
    /// Outermost first: each one's span lies within that of the one before it.
    current: [Current; LEVELS],
    depth: usize,
    /// One bit a row: has it an occupied list?
    rows_occupied: u32,
    /// One bit a list, for each row.
    occupied: [u64; ROWS],
    /// One bit a list: do its entries surely stand in the order of their deadlines?
    sorted: [u64; ROWS],
    lists: [List; ROWS * SLOTS],
    store: Store<T>,
    cascaded: u64,
}

/// The slot whose span `elapsed` is in, as long as it has entries: it is handed out, or cascades into the levels below.
#[derive(Debug, Clone, Copy)]
struct Current {
    place: Place,
    /// The last tick of the slot's span.
    last: Tick,
}

/// A slot of a level, or the list of what is due, as an index into all lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place(usize);

impl Place {
    const DUE: Place = Place(DUE * SLOTS);

    fn row(self) -> usize {
        self.0 / SLOTS
    }

    fn slot(self) -> usize {
        self.0 % SLOTS
    }

    /// How many bits of a tick stand below this level's digit.
    fn below(self) -> u32 {
        DIGIT * u32::try_from(self.row()).expect("there are few rows")
    }
}

/// What one [`Wheel::step`] did.
///
/// ```
/// use hairspring::wheel::{Step, Tick, Wheel};
///
/// let mut wheel = Wheel::new();
/// wheel.insert(Tick(71), 'b');
/// wheel.insert(Tick(70), 'a');
/// assert_eq!(wheel.step(Tick(70)), Step::Cascaded); // out of order: both move down to level 0
/// assert!(matches!(wheel.step(Tick(70)), Step::Fired { value: 'a', .. }));
/// assert_eq!(wheel.step(Tick(70)), Step::Done);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// An entry fell due and is handed out.
    Fired {
        /// The entry's key, now stale.
        key: Key,
        /// The tick it was inserted for, at or before the time given to `step`.
        deadline: Tick,
        /// What was inserted.
        value: T,
    },
    /// One or two entries moved to a lower level. There may be more to do.
    Cascaded,
    /// Nothing more is due at the time given: `elapsed` has reached it.
    Done,
}

impl<T> Wheel<T> {
    /// An empty wheel at tick 0.
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
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::starting_at(Tick(1 << 36));
    /// wheel.insert(Tick(5), "long past");
    /// assert_eq!(wheel.next_expiration(), Some(Tick(1 << 36)));
    /// ```
    #[must_use]
    pub fn starting_at(elapsed: Tick) -> Self {
        Wheel::with_store(elapsed, Store::new())
    }

    fn with_store(elapsed: Tick, store: Store<T>) -> Self {
        Wheel {
            elapsed,
            current: [Current { place: Place(0), last: Tick::ZERO }; LEVELS],
            depth: 0,
            rows_occupied: 0,
            occupied: [0; ROWS],
            sorted: [0; ROWS],
            lists: [List::EMPTY; ROWS * SLOTS],
            store,
            cascaded: 0,
        }
    }

    /// Sets an empty wheel's time back to tick 0. Keys from before stay stale.
    pub(crate) fn restart(&mut self) {
        assert!(self.is_empty(), "time goes back only where nothing waits");
        self.elapsed = Tick::ZERO;
    }

    /// The last tick that was processed; it never goes back.
    ///
    /// It reaches the time that [`step`](Wheel::step) is given when that says [`Step::Done`], and may be behind it till
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
        self.store.len()
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

    /// How many entries the memory held now has room for. It shrinks by itself as the population does.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let keys: Vec<_> = (0..10_000).map(|n| wheel.insert(Tick(n), n)).collect();
    /// assert!(wheel.capacity() >= 10_000);
    /// for key in keys {
    ///     wheel.remove(key);
    /// }
    /// assert!(wheel.capacity() < 1_000, "it was given back");
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.store.capacity()
    }

    /// How many entries were inserted since the wheel was made. A [`reset`](Wheel::reset) inserts none.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(1), 'a');
    /// wheel.pop(Tick(1));
    /// wheel.insert(Tick(2), 'b');
    /// assert_eq!((wheel.inserted(), wheel.len()), (2, 1));
    /// ```
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.store.inserted()
    }

    /// How many times an entry moved down a level since the wheel was made.
    ///
    /// Only what stands out of order in its slot is moved.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// for tick in [70, 75, 140, 135] {
    ///     wheel.insert(Tick(tick), tick);
    /// }
    /// while wheel.pop(Tick(200)).is_some() {}
    /// assert_eq!(wheel.cascaded(), 2, "140 and 135 are in one slot, and not in order");
    /// ```
    #[must_use]
    pub fn cascaded(&self) -> u64 {
        self.cascaded
    }

    /// Puts `value` in, due at `deadline`. A deadline at or before [`elapsed`](Wheel::elapsed) is due at the next step.
    ///
    /// Nothing is rounded, and no deadline is too far. Takes a few nanoseconds, whatever the population.
    ///
    /// # Panics
    /// Where the wheel would hold more than 2^32 - 128 entries.
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
        let place = self.place_for_insert(deadline);
        let prev = self.lists[place.0].tail;
        let key = self.store.insert(deadline, prev, value);
        self.extend(place, prev, key.index, deadline);
        key
    }

    /// Takes an entry out before it fires; `None` where `key` is stale.
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
        let cell = self.store.take(key)?;
        self.unlink(key.index, cell.deadline, cell.prev, cell.next);
        Some((cell.deadline, cell.value))
    }

    /// Gives an entry another deadline and keeps its key; `false` where `key` is stale.
    ///
    /// The entry goes behind those that already stand at its new tick.
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
        let Some(cell) = self.store.get_mut(key) else { return false };
        let (before, prev, next) = (std::mem::replace(&mut cell.deadline, deadline), cell.prev, cell.next);
        self.unlink(key.index, before, prev, next);
        self.link(self.place_for_insert(deadline), key.index, deadline);
        true
    }

    /// The deadline of an entry, as it was given; `None` where `key` is stale.
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
        self.store.get(key).map(|cell| cell.deadline)
    }

    /// What was inserted under `key`; `None` where it is stale.
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
        self.store.get(key)?.value()
    }

    /// What was inserted under `key`, to change it; `None` where it is stale.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), 1);
    /// *wheel.get_mut(key).unwrap() += 1;
    /// assert_eq!(wheel.pop(Tick(5)), Some(2));
    /// ```
    #[must_use]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.store.get_mut(key)?.value_mut()
    }

    /// When [`step`](Wheel::step) next has work: never later than the earliest deadline, and often exactly it.
    ///
    /// It is exact where the slot with the earliest entries has few of them, or has them in order, and the start of that
    /// slot otherwise. Where something is due already it may be [`elapsed`](Wheel::elapsed). `None` where the wheel is
    /// empty.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// assert_eq!(wheel.next_expiration(), None);
    /// wheel.insert(Tick(1_000), 'x');
    /// assert_eq!(wheel.next_expiration(), Some(Tick(1_000)), "till then there is nothing to do");
    /// ```
    #[must_use]
    pub fn next_expiration(&self) -> Option<Tick> {
        if self.has_due() {
            return Some(self.elapsed);
        }
        let earliest = self.earliest()?;
        let next = self.first_in(earliest).unwrap_or_else(|| self.start_of(earliest));
        let current = self.current().iter().map(|current| self.first_in(current.place).unwrap_or(self.elapsed));
        Some(current.fold(next, Tick::min).max(self.elapsed))
    }

    /// The earliest deadline in a slot, where it can be told at little cost.
    fn first_in(&self, place: Place) -> Option<Tick> {
        if self.is_sorted(place) {
            return Some(self.first_deadline(place));
        }
        let mut entries = self.lists[place.0].iter(&self.store);
        let first = entries.by_ref().take(EXACT).map(|index| self.store.cell(index).deadline).min();
        first.filter(|_| entries.next().is_none())
    }

    /// Does one bounded piece of the work that is due at `now`: hands out one entry, or moves up to two down a level.
    ///
    /// Call it until it says [`Step::Done`], and stop in between as often as you like. Entries come in the order of
    /// their deadlines, and first in first out within a tick. A `now` before [`elapsed`](Wheel::elapsed) fires only what
    /// was overdue already.
    ///
    /// ```
    /// use hairspring::wheel::{Step, Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(90), 'b');
    /// wheel.insert(Tick(80), 'a');
    /// let mut fired = Vec::new();
    /// loop {
    ///     match wheel.step(Tick(100)) {
    ///         Step::Fired { deadline, value, .. } => fired.push((deadline, value)),
    ///         Step::Done => break,
    ///         _ => {} // it has cascaded: here a lock could be let go
    ///     }
    /// }
    /// assert_eq!(fired, [(Tick(80), 'a'), (Tick(90), 'b')]);
    /// ```
    pub fn step(&mut self, now: Tick) -> Step<T> {
        self.advance(now, None)
    }

    #[inline]
    fn advance(&mut self, now: Tick, mut sorter: Option<&mut Sorter>) -> Step<T> {
        loop {
            let first = self.first_of_current();
            if let Some((_, place)) = first.filter(|&(deadline, _)| deadline <= self.elapsed) {
                return self.fire_first(place);
            }
            if self.has_due() {
                return self.fire_first(Place::DUE);
            }
            let innermost = self.current().last().map(|current| current.place);
            if let Some(place) = innermost.filter(|&place| !self.is_sorted(place)) {
                self.cascade_some(place);
                return Step::Cascaded;
            }
            // What stands below the slots that are current may come before their first.
            let below =
                self.earliest().filter(|&place| innermost.is_none_or(|innermost| place.row() < innermost.row()));
            let below = below.map(|place| (self.start_of(place), place)).filter(|&(start, _)| start <= now);
            match (first, below) {
                (_, Some((start, place))) if first.is_none_or(|(deadline, _)| start <= deadline) => {
                    self.elapsed = start;
                    self.current[self.depth] = Current { place, last: self.last_of(place) };
                    self.depth += 1;
                    if let Some(sorter) = sorter.as_mut().filter(|_| !self.is_sorted(place)) {
                        self.sort(place, now, sorter);
                    }
                }
                (Some((deadline, place)), _) if deadline <= now => {
                    self.elapsed = deadline;
                    return self.fire_first(place);
                }
                _ => break,
            }
        }
        self.elapsed = self.elapsed.max(now);
        Step::Done
    }

    /// The earliest entry of the current slots that are in order. Of two with one deadline the outer was armed before.
    #[inline]
    fn first_of_current(&self) -> Option<(Tick, Place)> {
        let sorted = self.current().iter().map(|current| current.place).filter(|&place| self.is_sorted(place));
        sorted.map(|place| (self.first_deadline(place), place)).min_by_key(|&(deadline, _)| deadline)
    }

    /// Hands out the next entry due at `now`, doing as much cascading as that takes; `None` where no more is due.
    ///
    /// [`step`](Wheel::step) does a bounded piece of that work at a time.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(900), "later");
    /// wheel.insert(Tick(100), "sooner");
    /// assert_eq!(wheel.pop(Tick(900)), Some("sooner"));
    /// assert_eq!(wheel.pop(Tick(900)), Some("later"));
    /// assert_eq!(wheel.pop(Tick(900)), None);
    /// ```
    pub fn pop(&mut self, now: Tick) -> Option<T> {
        loop {
            match self.step(now) {
                Step::Fired { value, .. } => return Some(value),
                Step::Cascaded => {}
                Step::Done => return None,
            }
        }
    }

    /// Which slots of each of the eleven levels hold entries, from level 0 up: bit `n` stands for slot `n`.
    ///
    /// What is due and not handed out yet is in no slot.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(3), 'a');
    /// wheel.insert(Tick(2 * 64 + 5), 'b');
    /// assert_eq!(wheel.occupancy()[..2], [1 << 3, 1 << 2]);
    /// ```
    #[must_use]
    pub fn occupancy(&self) -> &[u64] {
        &self.occupied[..LEVELS]
    }

    #[inline]
    fn is_sorted(&self, place: Place) -> bool {
        self.sorted[place.row()] & (1 << place.slot()) != 0
    }

    #[inline]
    fn first_deadline(&self, place: Place) -> Tick {
        self.store.cell(self.lists[place.0].head).deadline
    }

    fn has_due(&self) -> bool {
        self.rows_occupied & (1 << DUE) != 0
    }

    fn fire_first(&mut self, place: Place) -> Step<T> {
        let index = self.lists[place.0].head;
        let key = self.store.key_of(index);
        let cell = self.store.take(key).expect("a linked cell is occupied");
        self.close_gap(place, cell.prev, cell.next);
        Step::Fired { key, deadline: cell.deadline, value: cell.value }
    }

    /// Moves two entries, so that a cascade ends even where each step is followed by an insert into its slot.
    fn cascade_some(&mut self, place: Place) {
        for _ in 0..2 {
            if !self.lists[place.0].is_empty() {
                self.cascade_one(place);
            }
        }
    }

    fn current(&self) -> &[Current] {
        &self.current[..self.depth]
    }

    fn cascade_one(&mut self, place: Place) {
        let index = self.lists[place.0].head;
        let cell = self.store.cell(index);
        let (deadline, next) = (cell.deadline, cell.next);
        self.close_gap(place, NIL, next);
        self.link(self.place_of(deadline), index, deadline);
        self.cascaded += 1;
    }

    /// Puts an entry that is in no list at the end of one.
    fn link(&mut self, place: Place, index: u32, deadline: Tick) {
        let prev = self.lists[place.0].tail;
        let cell = self.store.cell_mut(index);
        cell.prev = prev;
        cell.next = NIL;
        self.extend(place, prev, index, deadline);
    }

    /// Makes an entry the last of a list, whose cell names the last so far as `prev` and no `next`.
    #[inline]
    fn extend(&mut self, place: Place, prev: u32, index: u32, deadline: Tick) {
        let list = &mut self.lists[place.0];
        list.tail = index;
        if prev == NIL {
            list.head = index;
            self.mark(place);
        } else {
            let before = self.store.cell_mut(prev);
            before.next = index;
            if before.deadline > deadline {
                self.sorted[place.row()] &= !(1 << place.slot());
            }
        }
    }

    /// Takes an entry out of its list, given what its cell says of it.
    #[inline]
    fn unlink(&mut self, index: u32, deadline: Tick, prev: u32, next: u32) {
        // Only a list's ends need to be told; an entry in the middle is taken out of any list alike.
        let current = self.current().iter().find(|current| self.lists[current.place.0].ends_with(index));
        let place = current.map_or_else(|| self.place_of(deadline), |current| current.place);
        self.close_gap(place, prev, next);
    }

    #[inline]
    fn close_gap(&mut self, place: Place, prev: u32, next: u32) {
        self.lists[place.0].close_gap(&mut self.store, prev, next);
        if prev == NIL && next == NIL {
            self.mark_empty(place);
            if self.depth > 0 {
                self.end_current(place);
            }
        }
    }

    /// A slot has no more entries: where it was a current one, it is not any longer.
    fn end_current(&mut self, place: Place) {
        if let Some(at) = self.current().iter().position(|current| current.place == place) {
            self.current.copy_within(at + 1..self.depth, at);
            self.depth -= 1;
        }
    }

    /// Marks a list as having an entry.
    #[inline]
    fn mark(&mut self, place: Place) {
        self.occupied[place.row()] |= 1 << place.slot();
        self.sorted[place.row()] |= 1 << place.slot();
        self.rows_occupied |= 1 << place.row();
    }

    #[inline]
    fn mark_empty(&mut self, place: Place) {
        let row = &mut self.occupied[place.row()];
        *row &= !(1 << place.slot());
        if *row == 0 {
            self.rows_occupied &= !(1 << place.row());
        }
    }

    /// Where a new entry goes: behind the others of its tick, also where those stand in a slot that is current.
    #[inline]
    fn place_for_insert(&self, deadline: Tick) -> Place {
        if self.depth > 0 { self.place_while_current(deadline) } else { self.place_of(deadline) }
    }

    fn place_while_current(&self, deadline: Tick) -> Place {
        // The innermost whose span it falls in.
        let within = self.current().iter().rev().find(|current| deadline <= current.last);
        let Some(Current { place, .. }) = within else { return self.place_of(deadline) };
        if !self.is_sorted(*place) {
            return *place;
        }
        // What would put a slot out of order goes below it, so that one short timer does not have all of it cascade; and
        // so does what may have others of its tick there.
        let below = self.place_of(deadline);
        let in_order = self.store.cell(self.lists[place.0].tail).deadline <= deadline;
        if in_order && self.lists[below.0].is_empty() { *place } else { below }
    }

    /// Where an entry belongs as things stand.
    #[inline]
    fn place_of(&self, deadline: Tick) -> Place {
        if deadline <= self.elapsed {
            return Place::DUE;
        }
        let differ = (deadline.0 ^ self.elapsed.0) | (SLOTS as u64 - 1);
        let level = differ.ilog2() / DIGIT;
        // Six bits.
        #[allow(clippy::cast_possible_truncation)]
        let slot = (deadline.0 >> (level * DIGIT)) as usize % SLOTS;
        Place(level as usize * SLOTS + slot)
    }

    /// The slot with the earliest entries. Lower levels come first: their entries share `elapsed`'s higher digits.
    fn earliest(&self) -> Option<Place> {
        let levels = self.rows_occupied & !(1 << DUE);
        if levels == 0 {
            return None;
        }
        let level = levels.trailing_zeros() as usize;
        Some(Place(level * SLOTS + self.occupied[level].trailing_zeros() as usize))
    }

    fn start_of(&self, place: Place) -> Tick {
        let above = place.below() + DIGIT;
        let shared = self.elapsed.0.checked_shr(above).map_or(0, |digits| digits << above);
        Tick(shared | ((place.slot() as u64) << place.below()))
    }

    fn last_of(&self, place: Place) -> Tick {
        Tick(self.start_of(place).0 | ((1 << place.below()) - 1))
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
