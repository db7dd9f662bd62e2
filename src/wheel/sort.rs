//! Sorts a slot, so that its entries need not cascade level by level.
//!
//! Invariants
//! 1. A slot is sorted as it becomes current, before any of it has cascaded, so that entries of one tick stay in order.
//!
//! Must not know: more than the rest of the wheel does.

use super::Wheel;
use super::place::Place;

/// Bits for an entry's position in its list.
const POSITION: u32 = 10;
/// The most entries that are sorted, in one step: larger slots cascade.
pub(super) const MOST: usize = 1 << POSITION;

/// Memory to sort in, kept from one slot to the next.
#[derive(Debug, Default, Clone)]
pub(super) struct Sorter {
    /// The deadline of each entry. Then the ticks from the earliest deadline to it, and the position in the low bits.
    ranks: Vec<u64>,
    /// By position.
    entries: Vec<u32>,
}

impl<T> Wheel<T> {
    /// Puts a slot in order that has just become current. Returns `false`, and does nothing, if it has too many entries
    /// or they are too far apart.
    pub(super) fn sort(&mut self, place: Place) -> bool {
        let list = self.lists[place];
        if list.count_up_to(&self.store, MOST).is_none() {
            return false;
        }
        let Sorter { ranks, entries } = &mut self.sorter;
        entries.clear();
        entries.extend(list.iter(&self.store));
        ranks.clear();
        ranks.extend(entries.iter().map(|&index| self.store.cell(index).deadline.0));
        let earliest = ranks.iter().copied().min().unwrap_or(0);
        let span = ranks.iter().copied().max().unwrap_or(0) - earliest;
        if span >> (u64::BITS - POSITION) > 0 {
            return false;
        }
        for (position, rank) in ranks.iter_mut().enumerate() {
            *rank = (*rank - earliest) << POSITION | position as u64;
        }
        ranks.sort_unstable();
        // Ten bits.
        #[allow(clippy::cast_possible_truncation)]
        let in_order = ranks.iter().map(|&rank| entries[rank as usize % MOST]);
        list.rearrange(&mut self.store, in_order);
        self.cascaded += entries.len() as u64;
        self.sorted[place.row()] |= 1 << place.slot();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::all;
    use super::*;
    use crate::wheel::Tick;

    /// Deadlines in no order with many alike, near and far from where the wheel is.
    fn scattered(count: u64, start: u64, span: u64) -> Wheel<u64> {
        let mut wheel = Wheel::starting_at(Tick(start));
        for n in 0..count {
            wheel.insert(Tick(start + span + n * 7_919 % span), n);
        }
        wheel
    }

    #[test]
    fn sorting_gives_the_order_of_deadlines_and_within_a_tick_that_of_insertion() {
        for count in [2, 100, MOST as u64 - 1, MOST as u64, MOST as u64 + 1, 40 * MOST as u64] {
            for (start, span) in [(0, 50), (1 << 40, 5_000), (5, 1 << 33), (1 << 60, 1 << 52)] {
                let mut wheel = scattered(count, start, span);
                let mut expected: Vec<_> = (0..count).map(|n| (Tick(start + span + n * 7_919 % span), n)).collect();
                expected.sort_by_key(|&(deadline, _)| deadline);
                assert_eq!(all(&mut wheel, |wheel| wheel.step(Tick::MAX)), expected, "{count} over {span}");
                assert!(count > MOST as u64 || wheel.cascaded() <= count, "none moves level by level");
            }
        }
    }

    /// A rank has 54 bits for how far an entry is behind the first.
    #[test]
    fn entries_far_apart_in_one_slot_come_in_order() {
        const SLOT: u64 = 2 << 60;
        for apart in [1, 1 << 13, (1 << 54) - 1, 1 << 54, (1 << 54) + 1, 1 << 55, 1 << 57] {
            for first in [SLOT, SLOT + (1 << 53) - 1] {
                let mut wheel = Wheel::new();
                wheel.insert(Tick(first + apart), 1);
                wheel.insert(Tick(first), 0);
                let given = all(&mut wheel, |wheel| wheel.step(Tick::MAX));
                assert_eq!(given, [(Tick(first), 0), (Tick(first + apart), 1)], "{apart} apart");
            }
        }
    }
}
