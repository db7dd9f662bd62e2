//! Where an entry is: the slots of the levels, the lists in them, and the bits that say which have entries.
//!
//! Must not know: more than the rest of the wheel does.

use super::block::At;
use super::list::List;
use super::{Tick, Wheel};

/// Bits in a digit: a level has `1 << DIGIT` slots.
const DIGIT: u32 = 6;
pub(super) const SLOTS: usize = 1 << DIGIT;
pub(crate) const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT as usize);
/// The row of lists behind those of the levels. Its first list holds what is due.
const DUE: usize = LEVELS;
/// The lowest level that is spread ahead, into slots of level 3, which span a quarter of a millisecond.
pub(super) const LOWEST: usize = 4;
/// The first of the rows into which slots are spread ahead: one for each of these levels.
pub(super) const AHEAD: usize = DUE + 1;
pub(super) const AHEADS: usize = LEVELS - LOWEST;
pub(super) const ROWS: usize = AHEAD + AHEADS;

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

    /// How many bits of a tick are below this level's digit.
    pub(super) fn below(self) -> u32 {
        DIGIT * u32::try_from(self.row()).expect("there are few rows")
    }
}

/// The digit of a tick that names its slot on a level.
#[inline]
pub(super) fn digit(tick: Tick, level: usize) -> usize {
    // Six bits.
    #[allow(clippy::cast_possible_truncation)]
    let digit = (tick.0 >> (level * DIGIT as usize)) as usize % SLOTS;
    digit
}

/// A slot whose span `elapsed` is in, as long as it has entries: it is handed out, or cascades to the levels below.
#[derive(Debug, Clone, Copy)]
pub(super) struct Current {
    pub(super) place: Place,
    /// The last tick of the slot's span.
    pub(super) last: Tick,
}

impl Current {
    pub(super) const NONE: Current = Current { place: Place(0), last: Tick::ZERO };
}

impl<T> Wheel<T> {
    /// Puts a new entry behind the others of its tick, even if those are in a slot that is current or spread. Returns
    /// where it is in its list.
    #[inline]
    pub(super) fn push_new(&mut self, index: u32, deadline: Tick) -> At {
        let place = self.place_of(deadline);
        if deadline > self.current[0].last && !self.is_only_ahead(place) {
            self.push(place, index, deadline)
        } else {
            self.push_while_current(place, index, deadline)
        }
    }

    /// In the span of a slot that is current, or into one that is spread.
    #[inline(never)]
    fn push_while_current(&mut self, place: Place, index: u32, deadline: Tick) -> At {
        let place = self.end_of_spread(place, deadline);
        let place = self.place_while_current(place, deadline);
        self.push(place, index, deadline)
    }

    fn place_while_current(&self, below: Place, deadline: Tick) -> Place {
        // The innermost whose span it falls in.
        let within = self.current().iter().rev().find(|current| deadline <= current.last);
        let Some(Current { place, .. }) = within else { return below };
        if !self.is_sorted(*place) {
            return *place;
        }
        // What would put the slot out of order goes below it, so that one short timer does not make all of it cascade.
        // So does what may have others of its tick there.
        let in_order = self.lists[*place].latest(&self.store) <= deadline;
        if in_order && self.lists[below].is_empty() { *place } else { below }
    }

    /// The slot of a deadline, if no slot is current.
    #[inline]
    pub(super) fn place_of(&self, deadline: Tick) -> Place {
        if deadline <= self.elapsed {
            return Place::DUE;
        }
        let differ = (deadline.0 ^ self.elapsed.0) | (SLOTS as u64 - 1);
        let level = differ.ilog2() / DIGIT;
        Place(level as usize * SLOTS + digit(deadline, level as usize))
    }

    /// The slot with the earliest entries. Lower levels come first: their entries share `elapsed`'s higher digits.
    pub(super) fn earliest(&self) -> Option<Place> {
        let levels = self.rows_occupied & ((1 << LEVELS) - 1);
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
    pub(super) fn is_occupied(&self, place: Place) -> bool {
        self.occupied[place.row()] & (1 << place.slot()) != 0
    }

    #[inline]
    pub(super) fn is_sorted(&self, place: Place) -> bool {
        self.sorted[place.row()] & (1 << place.slot()) != 0
    }

    /// The first entry of a list that has some, and where it is.
    #[inline]
    pub(super) fn head_of(&self, place: Place) -> (At, u32) {
        let number = self.lists.number(place);
        self.lists[number].first(&self.store, number)
    }

    pub(super) fn has_due(&self) -> bool {
        self.rows_occupied & (1 << DUE) != 0
    }

    pub(super) fn current(&self) -> &[Current] {
        &self.current[..self.depth]
    }

    /// Adds an entry to a list, and returns where it is there.
    #[inline]
    pub(super) fn push(&mut self, place: Place, index: u32, deadline: Tick) -> At {
        let number = self.lists.number(place);
        let list = &mut self.lists[number];
        if list.is_empty() {
            *list = List::of_one(index);
            self.mark(place);
            return At::alone(number);
        }
        let (at, before) = list.push(&mut self.store, index, deadline);
        if before > deadline {
            self.sorted[place.row()] &= !(1 << place.slot());
        }
        at
    }

    /// Puts an entry that is in no list at the end of one.
    pub(super) fn link(&mut self, place: Place, index: u32, deadline: Tick) {
        let at = self.push(place, index, deadline);
        self.store.cell_mut(index).at = at;
    }

    /// Takes an entry out of its list, given what its cell says of it.
    #[inline]
    pub(super) fn unlink(&mut self, at: At) {
        if let Some(number) = at.list_if_alone() {
            self.lists[number] = List::EMPTY;
            self.vacate(self.lists.place(number));
        } else if let Some(number) = self.store.leave_block(at) {
            self.drop_block(number, at.block);
        }
    }

    #[inline(never)]
    fn drop_block(&mut self, number: u32, block: u32) {
        let list = &mut self.lists[number];
        list.drop_block(&mut self.store, block);
        if list.is_empty() {
            self.vacate(self.lists.place(number));
        }
    }

    /// A slot has no more entries.
    #[inline]
    pub(super) fn vacate(&mut self, place: Place) {
        if self.depth | self.spreads > 0 {
            return self.vacate_while_current(place);
        }
        self.mark_empty(place);
    }

    /// While a slot is current or spread.
    #[inline(never)]
    fn vacate_while_current(&mut self, place: Place) {
        // A slot that is spread is not sorted.
        if !self.is_sorted(place) && self.has_entries_ahead(place) {
            return;
        }
        self.mark_empty(place);
        self.end_current(place);
        if self.occupied[place.row()] == 0 {
            self.end_spread(place.row());
        }
    }

    /// A slot has no more entries: if it was current, it no longer is.
    fn end_current(&mut self, place: Place) {
        if let Some(at) = self.current().iter().position(|current| current.place == place) {
            self.current.copy_within(at + 1..self.depth, at);
            self.depth -= 1;
            if self.depth == 0 {
                self.current[0] = Current::NONE;
            }
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
