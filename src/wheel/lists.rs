//! The lists of all slots, by place.
//!
//! Invariants
//! 1. The rows ahead take no memory until a slot is spread.
//! 2. A list keeps its number when its row and another are swapped.
//!
//! Must not know: what a list is.

use std::ops::{Index, IndexMut};

use super::list::List;
use super::place::{AHEAD, AHEADS, LOWEST, Place, SLOTS};

#[derive(Clone)]
pub(super) struct Lists {
    /// Of the levels, and the one of what is due: the first by number.
    levels: [List; AHEAD * SLOTS],
    /// The others.
    ahead: Option<Box<[List]>>,
    /// One bit a row: is it swapped with the one ahead of it, or with the one that it is ahead of?
    swapped: u32,
}

const SPREAD: &str = "only what is spread is ahead";

/// How far a row ahead is from the level that it is swapped with.
const APART: usize = (AHEAD + 1 - LOWEST) * SLOTS;

impl Lists {
    pub(super) const EMPTY: Lists = Lists { levels: [List::EMPTY; AHEAD * SLOTS], ahead: None, swapped: 0 };

    /// Makes the rows ahead, if there are none yet.
    pub(super) fn make_ahead(&mut self) {
        self.ahead.get_or_insert_with(|| [List::EMPTY; AHEADS * SLOTS].into());
    }

    /// Swaps the row of a level and the one ahead for that level.
    pub(super) fn swap(&mut self, level: usize, ahead: usize) {
        debug_assert_eq!((ahead - level) * SLOTS, APART);
        self.swapped ^= 1 << level | 1 << ahead;
    }

    /// The number of the list at a place.
    #[inline]
    pub(super) fn number(&self, place: Place) -> u32 {
        // There are few.
        #[allow(clippy::cast_possible_truncation)]
        let number = self.other(place).0 as u32;
        number
    }

    /// The place of the list with a number.
    #[inline]
    pub(super) fn place(&self, number: u32) -> Place {
        self.other(Place(number as usize))
    }

    /// A place with its row swapped, if that is swapped at present.
    #[inline]
    fn other(&self, place: Place) -> Place {
        // Until there is a crowd, none is.
        if self.swapped == 0 { place } else { self.other_of_some(place) }
    }

    fn other_of_some(&self, place: Place) -> Place {
        if self.swapped & (1 << place.row()) == 0 {
            place
        } else if place.row() < AHEAD {
            Place(place.0 + APART)
        } else {
            Place(place.0 - APART)
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &List)> {
        let ahead = self.ahead.as_ref().map_or(0, |ahead| ahead.len());
        let places = (0..self.levels.len() + ahead).map(Place);
        places.map(|place| (place, &self[place]))
    }
}

/// By number.
impl Index<u32> for Lists {
    type Output = List;

    #[inline]
    fn index(&self, number: u32) -> &List {
        let number = number as usize;
        match number.checked_sub(AHEAD * SLOTS) {
            None => &self.levels[number],
            Some(ahead) => &self.ahead.as_ref().expect(SPREAD)[ahead],
        }
    }
}

impl IndexMut<u32> for Lists {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut List {
        let number = number as usize;
        match number.checked_sub(AHEAD * SLOTS) {
            None => &mut self.levels[number],
            Some(ahead) => &mut self.ahead.as_mut().expect(SPREAD)[ahead],
        }
    }
}

impl Index<Place> for Lists {
    type Output = List;

    #[inline]
    fn index(&self, place: Place) -> &List {
        &self[self.number(place)]
    }
}

impl IndexMut<Place> for Lists {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut List {
        let number = self.number(place);
        &mut self[number]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_its_number_while_its_row_goes_to_and_fro() {
        let mut lists = Lists::EMPTY;
        lists.make_ahead();
        let (level, ahead) = (Place(LOWEST * SLOTS + 7), Place((AHEAD + 1) * SLOTS + 7));
        let numbers = [level, ahead].map(|place| lists.number(place));
        lists[level] = List::of_one(1);
        lists[ahead] = List::of_one(2);
        for places in [[ahead, level], [level, ahead]] {
            lists.swap(LOWEST, AHEAD + 1);
            assert_eq!(numbers.map(|number| lists.place(number)), places);
            assert_eq!(places.map(|place| lists.number(place)), numbers);
            let entries = places.map(|place| format!("{:?}", lists[place]));
            assert_eq!(entries, [1, 2].map(|index| format!("{:?}", List::of_one(index))));
        }
    }
}
