//! The population as a whole: the first entry, room for more, and the end of all.
//!
//! Invariants
//! 1. Whatever is done here, keys of entries that are gone stay stale, and `elapsed` stays where it is.
//!
//! Must not know: more than the rest of the wheel does.

use super::lists::Lists;
use super::place::{AHEADS, Current, Place, ROWS};
use super::{Key, Step, Tick, Wheel};

impl<T> Wheel<T> {
    /// The entry that is handed out next; `None` if the wheel is empty.
    ///
    /// Moves nothing. If the slot with the earliest entries has them out of order, this looks at all of them.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// wheel.insert(Tick(90), "later");
    /// let key = wheel.insert(Tick(80), "sooner");
    /// assert_eq!(wheel.first(), Some(key));
    /// ```
    #[must_use]
    pub fn first(&self) -> Option<Key> {
        // Of two entries of one tick the one further out came first, unless it is in a slot that cascades: then
        // it came after those that have moved down. `min_by_key` takes the first it meets.
        let current = || self.current().iter().map(|current| current.place);
        let overdue = self.first_of_current().filter(|&(deadline, ..)| deadline <= self.elapsed);
        let overdue = overdue.map(|(.., index)| (self.elapsed, index));
        let places = self.has_due().then_some(Place::DUE).into_iter();
        let places = places.chain(current().filter(|&place| self.is_sorted(place)));
        let places = places.chain(self.earliest());
        let places = places.chain(current().filter(|&place| !self.is_sorted(place)));
        let firsts = overdue.into_iter().chain(places.filter_map(|place| self.first_of(place)));
        let first = firsts.min_by_key(|&(due, _)| due);
        first.map(|(_, index)| self.store.key_of(index))
    }

    /// The entry of a list that is handed out first, whatever their order there, and when that is.
    fn first_of(&self, place: Place) -> Option<(Tick, u32)> {
        let entries = self.lists[place].iter(&self.store);
        let entries = entries.map(|index| (self.store.cell(index).deadline.max(self.elapsed), index));
        let in_order = place == Place::DUE || self.is_sorted(place);
        let entries = entries.take(if in_order { 1 } else { usize::MAX });
        let ahead = self.first_ahead(place).and_then(|ahead| self.first_of(ahead));
        ahead.into_iter().chain(entries).min_by_key(|&(due, _)| due)
    }

    /// Keeps room for `additional` more entries until [`shrink_to_fit`](Wheel::shrink_to_fit).
    ///
    /// Takes no time and next to no memory, however many they are: memory is asked for as entries come, some at a time,
    /// and from then on it stays. What is taken beyond that is given back as the population shrinks.
    ///
    /// # Panics
    /// If the wheel would have room for more than 2^32 - 128 entries.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::<u64>::new();
    /// wheel.reserve(10_000);
    /// assert!(wheel.capacity() >= 10_000);
    /// ```
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        self.store.reserve(self.len().saturating_add(additional));
    }

    /// Gives memory back that no entry is in, reserved or not. Entries stay where they are.
    ///
    /// ```
    /// let mut wheel = hairspring::wheel::Wheel::<u64>::new();
    /// wheel.reserve(10_000);
    /// wheel.shrink_to_fit();
    /// assert_eq!(wheel.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.store.shrink();
    }

    /// Drops all entries. Their keys are stale; reserved room stays.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// let key = wheel.insert(Tick(5), 'x');
    /// wheel.clear();
    /// assert!(wheel.is_empty() && wheel.get(key).is_none());
    /// ```
    pub fn clear(&mut self) {
        (self.current[0], self.depth) = (Current::NONE, 0);
        (self.spread, self.spreads) = ([None; AHEADS], 0);
        self.rows_occupied = 0;
        self.occupied = [0; ROWS];
        self.sorted = [0; ROWS];
        self.lists = Lists::EMPTY;
        self.store.clear();
    }

    /// All entries, in no order.
    #[cfg(feature = "test-util")]
    pub(crate) fn entries(&self) -> impl Iterator<Item = (Key, Tick)> {
        let indexes = self.lists.iter().flat_map(|(_, list)| list.iter(&self.store));
        indexes.map(|index| (self.store.key_of(index), self.store.cell(index).deadline))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emptied_comes_as_it_would_have_fired_and_no_time_passes() {
        let mut wheel = Wheel::new();
        assert_eq!(wheel.capacity(), 0);
        for tick in [70, 5, 1 << 40, 71, 6] {
            wheel.insert(Tick(tick), tick);
        }
        assert_eq!(wheel.pop(Tick(5)), Some(5));
        let mut given = Vec::new();
        wheel.empty_into(|_, deadline, value| given.push((deadline.0, value)));
        assert_eq!(given, [6, 70, 71, 1 << 40].map(|tick| (tick, tick)));
        assert!(wheel.is_empty() && wheel.elapsed() == Tick(5));
        wheel.check();
    }
}
