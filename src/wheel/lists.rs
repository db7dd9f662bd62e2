//! The lists of all slots, by place.
//!
//! Invariants
//! 1. The rows ahead take no memory until a slot is spread.
//!
//! Must not know: what a list is.

use std::ops::{Index, IndexMut};

use super::list::List;
use super::place::{AHEAD, AHEADS, Place, SLOTS};

#[derive(Clone)]
pub(super) struct Lists {
    /// Of the levels, and the one of what is due.
    levels: [List; AHEAD * SLOTS],
    ahead: Vec<List>,
}

impl Lists {
    pub(super) const EMPTY: Lists = Lists { levels: [List::EMPTY; AHEAD * SLOTS], ahead: Vec::new() };

    /// Makes the rows ahead, if there are none yet.
    pub(super) fn make_ahead(&mut self) {
        self.ahead.resize(AHEADS * SLOTS, List::EMPTY);
    }

    /// Swaps the lists of the row ahead with this number for those of a level.
    pub(super) fn swap(&mut self, ahead: usize, level: usize) {
        self.ahead[ahead * SLOTS..][..SLOTS].swap_with_slice(&mut self.levels[level * SLOTS..][..SLOTS]);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &List> {
        self.levels.iter().chain(&self.ahead)
    }
}

impl Index<Place> for Lists {
    type Output = List;

    #[inline]
    fn index(&self, place: Place) -> &List {
        self.levels.get(place.0).unwrap_or_else(|| &self.ahead[place.0 - AHEAD * SLOTS])
    }
}

impl IndexMut<Place> for Lists {
    #[inline]
    fn index_mut(&mut self, place: Place) -> &mut List {
        self.levels.get_mut(place.0).unwrap_or_else(|| &mut self.ahead[place.0 - AHEAD * SLOTS])
    }
}
