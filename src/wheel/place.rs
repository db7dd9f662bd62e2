//! Where an entry stands: the slots of the levels, the lists in them, and the bits that tell which have entries.
//!
//! Must not know: more than the rest of the wheel does.

use super::store::NIL;
use super::{Tick, Wheel};

/// Bits in a digit: a level has `1 << DIGIT` slots.
const DIGIT: u32 = 6;
pub(super) const SLOTS: usize = 1 << DIGIT;
pub(crate) const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT as usize);
/// The row of lists behind those of the levels. Its first list holds what is due.
const DUE: usize = LEVELS;
pub(super) const ROWS: usize = LEVELS + 1;

/// A slot of a level, or the list of what is due, as an index into all lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(pub(super) usize);

impl Place {
    pub(super) const DUE: Place = Place(DUE * SLOTS);

    pub(super) fn row(self) -> usize {
        self.0 / SLOTS
    }

    pub(super) fn slot(self) -> usize {
        self.0 % SLOTS
    }

    /// How many bits of a tick stand below this level's digit.
    pub(super) fn below(self) -> u32 {
        DIGIT * u32::try_from(self.row()).expect("there are few rows")
    }
}

/// The slot whose span `elapsed` is in, as long as it has entries: it is handed out, or cascades into the levels below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Current {
    pub(super) place: Place,
    /// The last tick of the slot's span.
    pub(super) last: Tick,
}

impl<T> Wheel<T> {
    /// Where a new entry goes: behind the others of its tick, also where those stand in a slot that is current.
    #[inline]
    pub(super) fn place_for_insert(&self, deadline: Tick) -> Place {
        if self.depth > 0 { self.place_while_current(deadline) } else { self.place_of(deadline) }
    }

    pub(super) fn place_while_current(&self, deadline: Tick) -> Place {
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
    pub(super) fn place_of(&self, deadline: Tick) -> Place {
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
    pub(super) fn earliest(&self) -> Option<Place> {
        let levels = self.rows_occupied & !(1 << DUE);
        if levels == 0 {
            return None;
        }
        let level = levels.trailing_zeros() as usize;
        Some(Place(level * SLOTS + self.occupied[level].trailing_zeros() as usize))
    }

    pub(super) fn start_of(&self, place: Place) -> Tick {
        let above = place.below() + DIGIT;
        let shared = self.elapsed.0.checked_shr(above).map_or(0, |digits| digits << above);
        Tick(shared | ((place.slot() as u64) << place.below()))
    }

    pub(super) fn last_of(&self, place: Place) -> Tick {
        Tick(self.start_of(place).0 | ((1 << place.below()) - 1))
    }

    #[inline]
    pub(super) fn is_sorted(&self, place: Place) -> bool {
        self.sorted[place.row()] & (1 << place.slot()) != 0
    }

    #[inline]
    pub(super) fn first_deadline(&self, place: Place) -> Tick {
        self.store.cell(self.lists[place.0].head).deadline
    }

    pub(super) fn has_due(&self) -> bool {
        self.rows_occupied & (1 << DUE) != 0
    }

    pub(super) fn current(&self) -> &[Current] {
        &self.current[..self.depth]
    }

    /// Puts an entry that is in no list at the end of one.
    pub(super) fn link(&mut self, place: Place, index: u32, deadline: Tick) {
        let prev = self.lists[place.0].tail;
        let cell = self.store.cell_mut(index);
        cell.prev = prev;
        cell.next = NIL;
        self.extend(place, prev, index, deadline);
    }

    /// Makes an entry the last of a list, whose cell names the last so far as `prev` and no `next`.
    #[inline]
    pub(super) fn extend(&mut self, place: Place, prev: u32, index: u32, deadline: Tick) {
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
    pub(super) fn unlink(&mut self, index: u32, deadline: Tick, prev: u32, next: u32) {
        // Only a list's ends need to be told; an entry in the middle is taken out of any list alike.
        let current = self.current().iter().find(|current| self.lists[current.place.0].ends_with(index));
        let place = current.map_or_else(|| self.place_of(deadline), |current| current.place);
        self.close_gap(place, prev, next);
    }

    #[inline]
    pub(super) fn close_gap(&mut self, place: Place, prev: u32, next: u32) {
        self.lists[place.0].close_gap(&mut self.store, prev, next);
        if prev == NIL && next == NIL {
            self.mark_empty(place);
            if self.depth > 0 {
                self.end_current(place);
            }
        }
    }

    /// A slot has no more entries: where it was a current one, it is not any longer.
    pub(super) fn end_current(&mut self, place: Place) {
        if let Some(at) = self.current().iter().position(|current| current.place == place) {
            self.current.copy_within(at + 1..self.depth, at);
            self.depth -= 1;
        }
    }

    /// Marks a list as having an entry.
    #[inline]
    pub(super) fn mark(&mut self, place: Place) {
        self.occupied[place.row()] |= 1 << place.slot();
        self.sorted[place.row()] |= 1 << place.slot();
        self.rows_occupied |= 1 << place.row();
    }

    #[inline]
    pub(super) fn mark_empty(&mut self, place: Place) {
        let row = &mut self.occupied[place.row()];
        *row &= !(1 << place.slot());
        if *row == 0 {
            self.rows_occupied &= !(1 << place.row());
        }
    }
}
