//! The wheel's invariants, held against a plain scan of all that is in it.
//!
//! Must not know: more than the rest of the wheel does.

use super::place::AHEAD;
use super::{Tick, Wheel};

impl<T> Wheel<T> {
    /// Holds every invariant of this module against a plain scan of the whole population, and panics if one fails.
    ///
    /// For tests and for hunting a fault: it takes time in proportion to [`len`](Wheel::len).
    ///
    /// # Panics
    /// If the wheel is corrupt, which would be a bug in it.
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
        let (mut count, mut blocks) = (0, 0);
        let mut earliest: Option<Tick> = None;
        for (row, occupied) in self.occupied.iter().enumerate() {
            assert_eq!(*occupied != 0, self.rows_occupied & (1 << row) != 0, "row {row}'s bit");
        }
        for (place, list) in self.lists.iter() {
            let ahead = self.spread_of(place).is_some_and(|n| self.occupied[AHEAD + n] != 0);
            assert_eq!(!list.is_empty() || ahead, self.is_occupied(place), "the bit of {place:?}");
            let here = list.check(&self.store, self.lists.number(place));
            (count, blocks) = (count + here.0, blocks + here.1);
            let mut before = Tick::ZERO;
            for deadline in list.iter(&self.store).map(|index| self.store.cell(index).deadline) {
                assert!(!self.is_sorted(place) || before <= deadline, "{place:?} is out of order");
                before = deadline;
                if let Some(current) = self.current().iter().find(|current| current.place == place) {
                    assert!(deadline <= current.last);
                } else {
                    let first = self.place_of(deadline);
                    let mut path = std::iter::successors(Some(first), |&place| self.ahead_of(place, deadline));
                    assert!(path.any(|way| way == place), "{deadline:?} is in {place:?} at {:?}", self.elapsed);
                }
                earliest = Some(earliest.map_or(deadline, |seen| seen.min(deadline)));
            }
        }
        assert_eq!(count, self.len(), "every entry is in one list");
        self.store.check(blocks);
        assert_eq!(self.spreads, self.spread.iter().flatten().count(), "those that are spread are counted");
        for place in self.spread.iter().flatten() {
            assert!(!self.is_sorted(*place) && self.is_occupied(*place), "{place:?} is spread");
        }
        let last = self.current().iter().map(|current| current.last).max();
        assert_eq!(self.current[0].last, last.unwrap_or(Tick::ZERO), "the outermost ends last");
        for current in self.current() {
            assert!(!self.lists[current.place].is_empty(), "a slot is current as long as it has entries");
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
