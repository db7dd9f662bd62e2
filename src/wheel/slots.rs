//! Levels and slots: where an entry goes, and which slots have entries.
//
// The slots of each level, with a tick of a nanosecond:
//
// | level | a slot spans | | level | a slot spans |
// |---|---|---|---|---|
// | 0 | 1 ns | | 6 | 69 s |
// | 1 | 64 ns | | 7 | 73 min |
// | 2 | 4.1 us | | 8 | 3.3 days |
// | 3 | 262 us | | 9 | 208 days |
// | 4 | 17 ms | | 10 | 37 years |
// | 5 | 1.07 s | | | |
//
// An example, with `elapsed` at 0:
//
// | deadline | in base 64 | goes to |
// |---|---|---|
// | 3 | 3 | level 0, slot 3 |
// | 70 | 1 6 | level 1, slot 1 |
// | 140, then 130 | 2 12, then 2 2 | level 1, slot 2; sorted at tick 128, as they are out of order |
// | 5,000 | 1 14 8 | level 2, slot 1 |

use super::{Tick, Wheel};

pub(super) const NIL: u32 = u32::MAX;

const DIGIT: u32 = 6;
pub(super) const SLOTS: usize = 1 << DIGIT;
pub(super) const LEVELS: usize = (u64::BITS as usize).div_ceil(DIGIT as usize);
/// The row of lists behind the levels. Its first list is the due list.
const DUE: usize = LEVELS;
/// The lowest level that is spread ahead. Its slots are spread into slots of level 3, which span a quarter of a
/// millisecond.
pub(super) const LOWEST: usize = 4;
/// The first of the rows ahead, into which slots are spread: one row for each level from `LOWEST` up.
pub(super) const AHEAD: usize = DUE + 1;
pub(super) const AHEADS: usize = LEVELS - LOWEST;
pub(super) const ROWS: usize = AHEAD + AHEADS;

/// A slot of a level or of a row ahead, or the due list, as an index into all lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u16);

impl Place {
    pub(super) const DUE: Place = Place::new(DUE, 0);

    #[inline]
    pub(super) const fn new(row: usize, slot: usize) -> Place {
        Place::from_index(row * SLOTS + slot)
    }

    #[inline]
    pub(super) const fn from_index(index: usize) -> Place {
        #[allow(clippy::cast_possible_truncation)]
        let place = Place(index as u16);
        place
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    #[inline]
    pub(super) fn row(self) -> usize {
        self.index() / SLOTS
    }

    #[inline]
    pub(super) fn slot(self) -> usize {
        self.index() % SLOTS
    }

    /// The level of a slot. For a row ahead, the level that its lists will move to.
    #[inline]
    pub(super) fn level(self) -> usize {
        if self.row() < AHEAD { self.row() } else { self.row() - AHEAD + LOWEST - 1 }
    }

    /// How many bits of a tick are below this level's digit.
    #[inline]
    fn below(self) -> u32 {
        DIGIT * u32::try_from(self.level()).expect("there are few levels")
    }
}

/// The position of an entry in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    /// `NIL` if the entry is alone, in no block.
    pub(super) block: u32,
    /// The position in the block, or the slot if the entry is alone.
    pub(super) position: u32,
}

impl At {
    #[inline]
    pub(super) fn alone(place: Place) -> At {
        At { block: NIL, position: place.0.into() }
    }

    #[inline]
    pub(super) fn place_if_alone(self) -> Option<Place> {
        (self.block == NIL).then_some(Place::from_index(self.position as usize))
    }
}

/// The digit of a tick that names its slot on a level.
#[inline]
pub(super) fn digit(tick: Tick, level: usize) -> usize {
    #[allow(clippy::cast_possible_truncation)]
    let digit = (tick.0 >> (level * DIGIT as usize)) as usize % SLOTS;
    digit
}

#[inline]
pub(super) fn bits(mut rest: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (first < u32::BITS).then_some(first as usize)
    })
}

impl<T> Wheel<T> {
    /// The slot of a deadline, ignoring slots that cascade or are spread.
    #[inline]
    pub(super) fn place_of(&self, deadline: Tick) -> Place {
        if deadline <= self.elapsed {
            return Place::DUE;
        }
        let differ = (deadline.0 ^ self.elapsed.0) | (SLOTS as u64 - 1);
        let level = (differ.ilog2() / DIGIT) as usize;
        Place::new(level, digit(deadline, level))
    }

    /// Adds a new entry behind the others of its tick. Returns its position.
    #[inline]
    pub(super) fn push_new(&mut self, index: u32, deadline: Tick) -> At {
        let place = match self.cascading {
            Some(cascading) if deadline <= self.last_of(cascading) => cascading,
            _ => self.place_of(deadline),
        };
        self.push(place, index, deadline)
    }

    /// Adds an entry to a slot, or to the row ahead if the slot is spread. Returns its position.
    #[inline]
    fn push(&mut self, place: Place, index: u32, deadline: Tick) -> At {
        if self.lists.is_empty(place) {
            return self.push_first(place, index, deadline);
        }
        let (at, before) = self.lists.push(&mut self.cells, place, index, deadline);
        if before > deadline {
            self.sorted[place.row()] &= !(1 << place.slot());
        }
        at
    }

    #[inline]
    fn push_first(&mut self, place: Place, index: u32, deadline: Tick) -> At {
        if self.is_occupied(place) {
            return self.push_ahead(place, index, deadline);
        }
        self.occupied[place.row()] |= 1 << place.slot();
        self.sorted[place.row()] |= 1 << place.slot();
        self.rows_occupied |= 1 << place.row();
        self.lists.push_first(place, index)
    }

    /// For a slot whose entries are all ahead.
    #[inline(never)]
    fn push_ahead(&mut self, place: Place, index: u32, deadline: Tick) -> At {
        let ahead = self.ahead_of(place, deadline).expect("an occupied slot with an empty list is spread");
        self.push(ahead, index, deadline)
    }

    /// Adds an entry that was taken out of another slot.
    pub(super) fn link(&mut self, place: Place, index: u32, deadline: Tick) {
        let at = self.push(place, index, deadline);
        self.cells[index].at = at;
    }

    /// Removes the entry at a position from its slot.
    #[inline]
    pub(super) fn unlink(&mut self, at: At) {
        if let Some(place) = at.place_if_alone() {
            self.lists.clear(place);
            self.vacate(place);
        } else if let Some(place) = self.lists.leave_block(at) {
            self.vacate(place);
        }
    }

    /// Called when the list of a slot has become empty.
    #[inline]
    pub(super) fn vacate(&mut self, place: Place) {
        // A slot that cascades or is spread is not sorted.
        if place.row() >= AHEAD || !self.is_sorted(place) {
            return self.vacate_unsorted(place);
        }
        self.mark_empty(place);
    }

    #[inline(never)]
    fn vacate_unsorted(&mut self, place: Place) {
        if self.cascading == Some(place) {
            self.cascading = None;
        }
        self.vacate_spread(place);
    }

    #[inline]
    pub(super) fn mark_empty(&mut self, place: Place) {
        let row = &mut self.occupied[place.row()];
        *row &= !(1 << place.slot());
        if *row == 0 {
            self.rows_occupied &= !(1 << place.row());
        }
    }

    #[inline]
    pub(super) fn is_occupied(&self, place: Place) -> bool {
        self.occupied[place.row()] & (1 << place.slot()) != 0
    }

    #[inline]
    pub(super) fn is_sorted(&self, place: Place) -> bool {
        self.sorted[place.row()] & (1 << place.slot()) != 0
    }

    #[inline]
    pub(super) fn has_due(&self) -> bool {
        self.rows_occupied & (1 << DUE) != 0
    }

    /// The current slots, innermost first: each is sorted, or the one that cascades.
    #[inline]
    pub(super) fn current(&self) -> impl Iterator<Item = Place> {
        let places = bits(self.entered & self.rows_occupied).map(|level| self.current_of(level));
        places.filter(|&place| self.is_occupied(place))
    }

    pub(super) fn current_of(&self, level: usize) -> Place {
        Place::new(level, digit(self.elapsed, level))
    }

    /// The first occupied slot that begins after `elapsed`. Lower levels come first: their entries share more digits
    /// with `elapsed`.
    #[inline]
    pub(super) fn next_slot(&self) -> Option<Place> {
        bits(self.rows_occupied & ((1 << LEVELS) - 1)).find_map(|level| self.next_slot_of(level))
    }

    #[inline]
    pub(super) fn next_slot_of(&self, level: usize) -> Option<Place> {
        let later = self.occupied[level] & (u64::MAX - 1) << digit(self.elapsed, level);
        (later != 0).then(|| Place::new(level, later.trailing_zeros() as usize))
    }

    #[inline]
    pub(super) fn start_of(&self, place: Place) -> Tick {
        // The highest level has no digits above its own.
        let above = u64::MAX.checked_shl(place.below() + DIGIT).unwrap_or(0);
        Tick(self.elapsed.0 & above | (place.slot() as u64) << place.below())
    }

    pub(super) fn last_of(&self, place: Place) -> Tick {
        Tick(self.start_of(place).0 | ((1 << place.below()) - 1))
    }
}
