//! Spreads crowded slots over the level below, before time reaches them.
//!
//! A slot of level 5 spans a second, one of level 7 more than an hour, and if a wheel's time is far behind, all new
//! entries go to one slot further out. When time reaches a slot with a million entries, all of them have to move before
//! the first can fire. Slots are therefore spread ahead: every 64th insert moves up to four blocks of the next crowded
//! slot of a level, and each [`Wheel::step`] that finds nothing due moves one. The entries go to a row of lists, the
//! *row ahead*, and from there to the level below when time reaches the slot.
//
// Invariants
// 1. The entries in row `AHEAD + n` belong to the slot `spread[n]`, which is on level `LOWEST + n`, or in the row ahead
//    for that level. A slot is spread exactly while that row has entries; it is then occupied and not sorted.
// 2. The entries ahead are older than those in the slot's list. Once that list is empty, new entries go ahead too.

use super::lists::BLOCK;
use super::slots::{AHEAD, AHEADS, LOWEST, Place, SLOTS, digit};
use super::step::MOST_SORTED;
use super::{Tick, Wheel};

/// How many blocks are spread at one point in time; this takes about a tenth of a millisecond.
const AT_A_TIME: u32 = 128;

/// How many blocks are spread by one insert in [`SPREAD_INTERVAL`]: twice as many entries as were inserted in between.
const BLOCKS: u32 = 4;
pub(super) const SPREAD_INTERVAL: u64 = 64;

/// A slot that has more unordered entries than this is spread.
const CROWDED: usize = 256;

impl<T> Wheel<T> {
    fn is_spread(&self, n: usize) -> bool {
        self.rows_occupied & (1 << (AHEAD + n)) != 0
    }

    /// The index of a slot in `spread`, if it is spread.
    #[inline]
    pub(super) fn spread_of(&self, place: Place) -> Option<usize> {
        place.level().checked_sub(LOWEST).filter(|&n| self.is_spread(n) && self.spread[n] == place)
    }

    /// The earliest non-empty list ahead of a slot.
    pub(super) fn first_ahead(&self, place: Place) -> Option<Place> {
        self.spread_of(place).map(|n| self.first_in_row(AHEAD + n))
    }

    fn first_in_row(&self, row: usize) -> Place {
        Place::new(row, self.occupied[row].trailing_zeros() as usize)
    }

    /// The list ahead for entries of this deadline, if the slot is spread.
    pub(super) fn ahead_of(&self, place: Place, deadline: Tick) -> Option<Place> {
        self.spread_of(place).map(|n| place_ahead(n, deadline))
    }

    /// Spreads a block of a crowded slot. Returns `false` if nothing is left to spread at `now`.
    pub(super) fn spread_ahead(&mut self, now: Tick) -> bool {
        if self.len() <= MOST_SORTED {
            return false;
        }
        // Two threads may process the wheel with different clock readings.
        if now > self.spread_at {
            (self.spread_at, self.spread_left) = (now, AT_A_TIME);
        }
        if self.spread_left == 0 {
            return false;
        }
        self.spread_left -= 1;
        self.spread_next()
    }

    /// Spreads some entries during inserts: time may not advance until the first of a burst is due.
    #[cold]
    pub(super) fn spread_some(&mut self) {
        let mut blocks = 0..BLOCKS;
        while self.len() > MOST_SORTED && blocks.next().is_some() && self.spread_next() {}
    }

    fn spread_next(&mut self) -> bool {
        (0..AHEADS).any(|n| {
            if !self.is_spread(n) {
                let Some(place) = self.crowded_slot(n) else { return false };
                self.spread[n] = place;
                self.lists.make_ahead();
            }
            self.spread_block(n)
        })
    }

    /// The next slot of a level, if it is crowded.
    fn crowded_slot(&self, n: usize) -> Option<Place> {
        // If the level has none, the next entries are in a slot of the level above, and ahead if that is spread.
        let is_ahead = || self.is_spread(n + 1) && self.lists.is_empty(self.spread[n + 1]);
        let next = self.next_slot_of(LOWEST + n);
        let next = next.or_else(|| is_ahead().then(|| self.first_in_row(AHEAD + n + 1)));
        next.filter(|&place| !self.is_sorted(place) && self.lists.has_more_than(CROWDED, place))
    }

    /// Moves the first block of a spread slot. Returns `false` if there is none.
    fn spread_block(&mut self, n: usize) -> bool {
        let place = self.spread[n];
        let is_any = !self.lists.is_empty(place);
        if is_any {
            self.move_block(place, |_, deadline| place_ahead(n, deadline));
        }
        is_any
    }

    /// Moves each entry of a slot's first block to the slot that `to` returns.
    pub(super) fn move_block(&mut self, place: Place, to: impl Fn(&Self, Tick) -> Place) {
        let mut entries = [(0, Tick::ZERO); BLOCK];
        let count = self.lists.take_block(&self.cells, place, &mut entries);
        for &(index, deadline) in &entries[..count] {
            self.link(to(self, deadline), index, deadline);
        }
        self.cascaded += count as u64;
    }

    /// Spreads one of the remaining blocks of a slot that time is about to reach, or of a slot ahead that begins at the
    /// same tick. Returns whether there was one.
    pub(super) fn spread_rest(&mut self, place: Place) -> bool {
        let mut next = self.spread_of(place);
        while let Some(n) = next {
            if self.spread_block(n) {
                return true;
            }
            next = self.spread_of(Place::new(AHEAD + n, 0));
        }
        false
    }

    /// Called when time reaches a spread slot: moves the lists ahead to the level below. Returns the first slot there
    /// if it has entries, as time has reached it too.
    pub(super) fn unfold(&mut self, n: usize) -> Option<Place> {
        self.mark_empty(self.spread[n]);
        let (ahead, level) = (AHEAD + n, LOWEST + n - 1);
        debug_assert_eq!(self.occupied[level], 0, "lower levels are empty by now");
        for (from, to) in (0..SLOTS).map(|slot| (Place::new(ahead, slot), Place::new(level, slot))) {
            // A slot ahead may itself be spread, with all of its entries further ahead.
            if !self.lists.is_empty(from) {
                self.lists.rename(&mut self.cells, from, to);
            }
        }
        self.occupied.swap(ahead, level);
        self.sorted[level] = self.sorted[ahead];
        self.rows_occupied = self.rows_occupied & !(1 << ahead) | 1 << level;
        if let Some(inner) = n.checked_sub(1).map(|below| &mut self.spread[below]) {
            if inner.row() == ahead {
                *inner = Place::new(level, inner.slot());
            }
        }
        Some(Place::new(level, 0)).filter(|&first| self.is_occupied(first))
    }

    /// Called when a list becomes empty that is in a row ahead or belongs to a slot that may be spread.
    pub(super) fn vacate_spread(&mut self, place: Place) {
        if self.spread_of(place).is_some() {
            return;
        }
        self.mark_empty(place);
        if place.row() >= AHEAD && self.occupied[place.row()] == 0 {
            let slot = self.spread[place.row() - AHEAD];
            if self.lists.is_empty(slot) {
                self.vacate(slot);
            }
        }
    }
}

/// The list ahead for entries of level `LOWEST + n`.
#[inline]
fn place_ahead(n: usize, deadline: Tick) -> Place {
    Place::new(AHEAD + n, digit(deadline, LOWEST + n - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::Step;
    use crate::wheel::tests::drain;

    /// Of each five entries, one is removed immediately, one is removed later, one is reset to its own deadline, and
    /// two stay.
    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn what_was_spread_leaves_its_list_before_and_after_time_comes_to_its_slot() {
        const COUNT: usize = 4_000;
        let deadline = |n: usize| Tick((1 << 40) + (1 << 30) + (n * 7_919 % COUNT) as u64 * 1_500_000);
        let mut wheel = Wheel::starting_at(Tick(1 << 40));
        let keys: Vec<_> = (0..COUNT).map(|n| wheel.insert(deadline(n), n)).collect();
        for n in (0..COUNT).step_by(5) {
            assert_eq!(wheel.remove(keys[n]), Some(n));
        }
        wheel.check();
        assert!((0..AHEADS).any(|n| wheel.is_spread(n)));
        let mut fired = Vec::new();
        let mut fives = (0..COUNT).step_by(5);
        while let Some(next) = wheel.next_expiration() {
            match wheel.step(next) {
                Step::Fired { value, .. } if value % 5 > 1 => fired.push(value),
                _ => {}
            }
            if let Some(n) = fives.next() {
                wheel.remove(keys[n + 1]);
                wheel.reset(keys[n + 2], deadline(n + 2));
                if n % 500 == 0 {
                    wheel.check();
                }
            }
        }
        let mut stayed: Vec<_> = (0..COUNT).filter(|n| n % 5 > 1).collect();
        stayed.sort_by_key(|&n| deadline(n));
        assert_eq!(fired, stayed);
    }

    /// The first slot ahead begins at the same tick, and has entries ahead of its own.
    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn half_spread_slots_that_begin_at_the_same_tick_fire_in_order() {
        const COUNT: u64 = 3_000;
        let mut wheel = Wheel::new();
        let mut deadlines: Vec<_> = (0..COUNT).map(|n| Tick((1 << 30) + n * 7_919 % COUNT)).collect();
        for &deadline in &deadlines {
            wheel.insert(deadline, deadline);
        }
        let fired = drain(&mut wheel, Tick::MAX);
        deadlines.sort();
        assert!(fired == deadlines, "{} of {COUNT} have fired", fired.len());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn a_bounded_number_of_blocks_is_spread_at_one_point_in_time() {
        let mut wheel = Wheel::new();
        wheel.insert(Tick(5 << 24), ());
        for n in 0..10_000 {
            wheel.insert(Tick((6 << 24) + n * 7_919 % 10_000), ());
        }
        assert_eq!(wheel.pop(Tick(5 << 24)), Some(()));
        for now in [5 << 24, (5 << 24) + 1] {
            let spread = (0..10_000).take_while(|_| matches!(wheel.step(Tick(now)), Step::Cascaded)).count();
            assert_eq!(spread, AT_A_TIME as usize, "at {now}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn what_is_ahead_stays_if_the_rest_of_its_slot_is_cancelled() {
        const COUNT: usize = 1_500;
        let mut wheel = Wheel::new();
        for n in 0..COUNT {
            wheel.insert(Tick((1 << 40) + (1 << 31) + (n * 7_919 % COUNT) as u64), n);
        }
        let mut spread = (0..AHEADS).filter(|&n| wheel.is_spread(n)).map(|n| wheel.spread[n]);
        let half = spread.find(|&place| !wheel.lists.is_empty(place)).expect("half of a slot is spread");
        let rest: Vec<_> = wheel.lists.iter(half).collect();
        for (n, index) in rest.iter().enumerate() {
            assert!(wheel.remove(wheel.cells[*index].key(*index)).is_some());
            if n % 20 == 0 {
                wheel.check();
            }
        }
        let fired = std::iter::from_fn(|| wheel.pop(Tick::MAX)).count();
        assert!(fired > 0 && fired + rest.len() == COUNT, "{fired} have fired, and {} were cancelled", rest.len());
    }
}
