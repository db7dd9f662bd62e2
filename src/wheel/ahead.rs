//! Crowded slots are spread before time comes to them.
//!
//! A slot of level 5 spans a second, one of level 7 more than an hour, and if a wheel's time is far behind, all that
//! comes is in one slot further out. If time came to one with a million entries, all of them would have to move before
//! the first could fire. So the next crowded slot of each level is spread ahead, a block at a time, by every 64th insert
//! and by calls of [`Wheel::step`] that find nothing due. Its entries go to a row of lists for the level below, which
//! takes the place of that level when time comes to the slot.
//!
//! Invariants
//! 1. `spread[n]` names the slot of level `LOWEST + n` that is spread: one on the level itself, or one in the row ahead
//!    of the level above. The entries in row `AHEAD + n` are of that slot.
//! 2. They came before those that are still in the slot's list. Once that is empty, new entries go ahead, too.
//! 3. A slot that is spread is occupied as long as its list or the row has an entry, and not sorted.
//!
//! Must not know: more than the rest of the wheel does.

use super::block::BLOCK;
use super::place::{AHEAD, AHEADS, LOWEST, Place, SLOTS, digit};
use super::sort::MOST;
use super::{Tick, Wheel};

/// How many blocks are spread at any one time: for about a tenth of a millisecond.
const AT_A_TIME: u32 = 128;

/// How many blocks are spread by one insert in [`OFTEN`]: twice as many entries as have come since.
const BLOCKS: u32 = 4;
pub(super) const OFTEN: u64 = 64;

/// How many entries in no order are so many that their slot is spread.
const CROWD: usize = 256;

impl<T> Wheel<T> {
    /// The number of a slot among those that are spread.
    #[inline]
    pub(super) fn spread_of(&self, place: Place) -> Option<usize> {
        if self.spreads == 0 {
            return None;
        }
        level_of(place).checked_sub(LOWEST).filter(|&n| self.spread.get(n) == Some(&Some(place)))
    }

    /// Where entries of this deadline go that are spread from a slot.
    pub(super) fn ahead_of(&self, place: Place, deadline: Tick) -> Option<Place> {
        self.spread_of(place).map(|n| place_ahead(n, deadline))
    }

    /// The earliest list ahead that has entries of a slot.
    pub(super) fn first_ahead(&self, place: Place) -> Option<Place> {
        let row = AHEAD + self.spread_of(place)?;
        let occupied = self.occupied[row];
        (occupied != 0).then(|| Place(row * SLOTS + occupied.trailing_zeros() as usize))
    }

    /// Whether all entries of a slot are ahead.
    #[inline]
    pub(super) fn is_only_ahead(&self, place: Place) -> bool {
        self.spreads > 0 && self.is_occupied(place) && self.lists[place].is_empty()
    }

    /// Where a new entry goes that belongs in this slot.
    pub(super) fn end_of_spread(&self, mut place: Place, deadline: Tick) -> Place {
        while self.is_only_ahead(place) {
            place = place_ahead(level_of(place) - LOWEST, deadline);
        }
        place
    }

    /// Spreads a block of a crowded slot, if some are left to spread at `now`.
    pub(super) fn spread_ahead(&mut self, now: Tick) -> bool {
        if self.len() <= MOST {
            return false;
        }
        // Whoever turns beside another may be at an earlier time.
        if now > self.spread_at {
            (self.spread_at, self.spread_left) = (now, AT_A_TIME);
        }
        if self.spread_left == 0 {
            return false;
        }
        self.spread_left -= 1;
        self.spread_next()
    }

    /// Spreads some of a crowd while it comes, as time may stay where it is until the first of it is due.
    #[cold]
    pub(super) fn spread_some(&mut self) {
        let mut blocks = 0..BLOCKS;
        while self.len() > MOST && blocks.next().is_some() && self.spread_next() {}
    }

    fn spread_next(&mut self) -> bool {
        (0..AHEADS).any(|n| {
            if self.spread[n].is_none() {
                self.spread[n] = self.crowded_slot(n);
                if self.spread[n].is_some() {
                    self.spreads += 1;
                    self.lists.make_ahead();
                }
            }
            self.spread_block(n)
        })
    }

    /// The next slot of a level, if it has so many entries in no order that it is to be spread.
    fn crowded_slot(&self, n: usize) -> Option<Place> {
        let level = LOWEST + n;
        let later = (u64::MAX - 1) << digit(self.elapsed, level);
        let mut row = (level, self.occupied[level] & later);
        if row.1 == 0 {
            // All that is left is in a slot of the level above, and ahead once that is spread.
            let above = self.spread.get(n + 1).copied().flatten().filter(|above| self.lists[*above].is_empty());
            row = above.map(|_| (AHEAD + n + 1, self.occupied[AHEAD + n + 1]))?;
        }
        let place = Place(row.0 * SLOTS + row.1.trailing_zeros() as usize);
        let is_crowded = !self.is_sorted(place) && self.lists[place].count_up_to(&self.store, CROWD).is_none();
        is_crowded.then_some(place)
    }

    /// Moves the first block of a slot that is spread. Returns `false` if there is none.
    fn spread_block(&mut self, n: usize) -> bool {
        let Some(place) = self.spread[n].filter(|place| !self.lists[*place].is_empty()) else { return false };
        let mut entries = [(0, Tick::ZERO); BLOCK];
        let count = self.lists[place].take_block(&mut self.store, &mut entries);
        for &(index, deadline) in &entries[..count] {
            self.link(place_ahead(n, deadline), index, deadline);
        }
        self.cascaded += count as u64;
        true
    }

    /// Before time comes to a slot: spreads what is left of it, and of those in it that begin at the same tick. Returns
    /// whether there was something left.
    pub(super) fn spread_rest(&mut self, place: Place) -> bool {
        let mut next = self.spread_of(place);
        while let Some(n) = next {
            if self.spread_block(n) {
                return true;
            }
            next = self.spread_of(Place((AHEAD + n) * SLOTS));
        }
        false
    }

    /// Time has come to a slot that is spread: the row ahead becomes the level below. Returns the first slot there, if
    /// that has entries: time has come to it, too.
    pub(super) fn unfold(&mut self, n: usize) -> Option<Place> {
        let place = self.spread[n].take().expect("it is spread");
        self.spreads -= 1;
        self.mark_empty(place);
        let (ahead, level) = (AHEAD + n, LOWEST + n - 1);
        debug_assert_eq!(self.occupied[level], 0, "what is on lower levels comes first");
        self.lists.swap(level, ahead);
        self.occupied.swap(ahead, level);
        self.sorted[level] = self.sorted[ahead];
        self.rows_occupied = self.rows_occupied & !(1 << ahead) | 1 << level;
        if let Some(below) = n.checked_sub(1) {
            let inner = self.spread[below].filter(|inner| inner.row() == ahead);
            self.spread[below] = inner.map(|inner| Place(level * SLOTS + inner.slot())).or(self.spread[below]);
        }
        let first = Place(level * SLOTS);
        (self.occupied[level] & 1 != 0).then_some(first)
    }

    /// Whether a slot whose list is empty still has entries ahead. If not it is spread no longer.
    pub(super) fn has_entries_ahead(&mut self, place: Place) -> bool {
        let Some(n) = self.spread_of(place) else { return false };
        let has = self.occupied[AHEAD + n] != 0;
        if !has {
            self.spread[n] = None;
            self.spreads -= 1;
        }
        has
    }

    /// A row ahead has become empty: its slot is spread no longer.
    pub(super) fn end_spread(&mut self, row: usize) {
        let Some(place) = row.checked_sub(AHEAD).and_then(|n| self.spread[n].take()) else { return };
        self.spreads -= 1;
        if self.lists[place].is_empty() {
            self.vacate(place);
        }
    }
}

/// The level of a slot, or the one that it is ahead for.
#[inline]
fn level_of(place: Place) -> usize {
    // A row ahead is for the level below that of the slot that is spread.
    if place.row() > AHEAD { place.row() - AHEAD + LOWEST - 1 } else { place.row() }
}

/// Where entries of this deadline go that are spread from level `LOWEST + n`.
#[inline]
fn place_ahead(n: usize, deadline: Tick) -> Place {
    Place((AHEAD + n) * SLOTS + digit(deadline, LOWEST + n - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::Step;

    /// Of five entries one is taken out at once, one as time goes on, one reset to where it is; the others stay.
    #[test]
    fn what_was_spread_leaves_its_list_before_and_after_time_comes_to_its_slot() {
        const COUNT: usize = 4_000;
        let deadline = |n: usize| Tick((1 << 40) + (1 << 30) + (n * 7_919 % COUNT) as u64 * 1_500_000);
        let mut wheel = Wheel::starting_at(Tick(1 << 40));
        let keys: Vec<_> = (0..COUNT).map(|n| wheel.insert(deadline(n), n)).collect();
        for n in (0..COUNT).step_by(5) {
            assert_eq!(wheel.remove(keys[n]), Some(n));
        }
        wheel.check();
        assert!(wheel.spreads > 0);
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

    #[test]
    fn what_is_ahead_stays_if_the_rest_of_its_slot_is_cancelled() {
        const COUNT: usize = 1_500;
        let mut wheel = Wheel::new();
        for n in 0..COUNT {
            wheel.insert(Tick((1 << 40) + (1 << 31) + (n * 7_919 % COUNT) as u64), n);
        }
        let half = wheel.spread.iter().flatten().find(|&&place| !wheel.lists[place].is_empty());
        let rest: Vec<_> = wheel.lists[*half.expect("half of a slot is spread")].iter(&wheel.store).collect();
        for index in &rest {
            assert!(wheel.remove(wheel.store.key_of(*index)).is_some());
            wheel.check();
        }
        let fired = std::iter::from_fn(|| wheel.pop(Tick::MAX)).count();
        assert!(fired > 0 && fired + rest.len() == COUNT, "{fired} have fired, and {} were cancelled", rest.len());
    }
}
