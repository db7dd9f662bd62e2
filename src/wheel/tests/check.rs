//! Every invariant of the wheel, held against a plain scan of all entries.

use super::super::slots::LEVELS;
use super::super::{Tick, Wheel};

impl<T> Wheel<T> {
    /// Panics if an invariant of the wheel fails. Takes time in proportion to [`len`](Wheel::len).
    pub(crate) fn check(&self) {
        let mut count = 0;
        let mut earliest: Option<Tick> = None;
        for (row, occupied) in self.occupied.iter().enumerate() {
            assert_eq!(*occupied != 0, self.rows_occupied & (1 << row) != 0, "row {row}'s bit");
        }
        for place in self.lists.places() {
            let spread = self.spread_of(place);
            assert_eq!(
                !self.lists.is_empty(place) || spread.is_some(),
                self.is_occupied(place),
                "the bit of {place:?}"
            );
            assert!(spread.is_none() || !self.is_sorted(place), "{place:?} is spread");
            let is_current = place.row() < LEVELS && place == self.current_of(place.row());
            assert!(
                !is_current || !self.is_occupied(place) || self.entered & (1 << place.row()) != 0,
                "{place:?} was not entered"
            );
            assert!(
                !is_current || !self.is_occupied(place) || self.is_sorted(place) || self.cascading == Some(place),
                "{place:?} is in no order"
            );
            let mut before = Tick::ZERO;
            for deadline in self.lists.iter(place).map(|index| self.cells[index].deadline) {
                assert!(!self.is_sorted(place) || before <= deadline, "{place:?} is out of order");
                if is_current {
                    assert!(deadline <= self.last_of(place), "{deadline:?} is behind {place:?}");
                } else {
                    let first = self.place_of(deadline);
                    let mut way = std::iter::successors(Some(first), |&place| self.ahead_of(place, deadline));
                    assert!(way.any(|slot| slot == place), "{deadline:?} is in {place:?} at {:?}", self.elapsed);
                }
                count += 1;
                before = deadline;
                earliest = Some(earliest.map_or(deadline, |seen| seen.min(deadline)));
            }
        }
        assert_eq!(count, self.len, "every entry is in one list");
        self.cells.check(self.len);
        self.lists.check(&self.cells);
        assert!(
            self.cascading.is_none_or(|place| self.is_occupied(place)),
            "a slot cascades as long as it has entries"
        );
        match (self.next_expiration(), earliest) {
            (None, None) => {}
            (Some(next), Some(earliest)) => {
                assert!(next <= earliest.max(self.elapsed), "{next:?} is after {earliest:?}");
            }
            (next, earliest) => panic!("next expiration {next:?}, earliest deadline {earliest:?}"),
        }
    }
}
