//! The wheel's invariants, held against a plain scan of all that is in it.
//!
//! Must not know: more than the rest of the wheel does.

use super::place::Place;
use super::{Tick, Wheel};

impl<T> Wheel<T> {
    /// Holds every invariant of this module against a plain scan of the whole population, and panics where one fails.
    ///
    /// For tests and for hunting a fault: it takes time in proportion to [`len`](Wheel::len).
    ///
    /// # Panics
    /// Where the wheel is corrupt, which would be a bug in it.
    ///
    /// ```
    /// use hairspring::wheel::{Tick, Wheel};
    /// let mut wheel = Wheel::new();
    /// for tick in [3, 1_000, 7, 1_000_000] {
    ///     wheel.insert(Tick(tick), ());
    ///     wheel.check();
    /// }
    /// ```
    pub fn check(&self) {
        self.store.check();
        let mut count = 0;
        let mut earliest: Option<Tick> = None;
        for (row, occupied) in self.occupied.iter().enumerate() {
            assert_eq!(*occupied != 0, self.rows_occupied & (1 << row) != 0, "row {row}'s bit");
        }
        for (index, list) in self.lists.iter().enumerate() {
            let place = Place(index);
            let marked = self.occupied[place.row()] & (1 << place.slot()) != 0;
            assert_eq!(!list.is_empty(), marked, "the bit of {place:?}");
            count += list.check(&self.store);
            let mut before = Tick::ZERO;
            for deadline in list.iter(&self.store).map(|index| self.store.cell(index).deadline) {
                assert!(!self.is_sorted(place) || before <= deadline, "{place:?} is out of order");
                before = deadline;
                match self.current().iter().find(|current| current.place == place) {
                    Some(current) => assert!(deadline <= current.last),
                    None => assert_eq!(self.place_of(deadline), place, "{deadline:?} at {:?}", self.elapsed),
                }
                earliest = Some(earliest.map_or(deadline, |seen| seen.min(deadline)));
            }
        }
        assert_eq!(count, self.len(), "every entry stands in one list");
        for current in self.current() {
            assert!(!self.lists[current.place.0].is_empty(), "a slot is current as long as it has entries");
        }
        match (self.next_expiration(), earliest) {
            (None, None) => {}
            (Some(next), Some(earliest)) => {
                assert!(next <= earliest.max(self.elapsed), "{next:?} is after {earliest:?}");
            }
            (next, earliest) => panic!("next expiration {next:?}, earliest deadline {earliest:?}"),
        }
    }
}
