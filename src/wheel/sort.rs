//! Putting a slot in order at one go, in place of having it cascade level by level.
//!
//! A cascade moves each entry once a level, which is as well where most are cancelled before their time. Where very many
//! out of order fall due together it is quicker to sort them. Sorting touches many entries in one step, so it is for
//! owners who hold no lock meanwhile.
//!
//! Invariants
//! 1. A slot is sorted as it becomes current, before any of it has cascaded, so that entries of one tick stay in order.
//!
//! Must not know: more than the rest of the wheel does.

use super::list::List;
use super::place::Place;
use super::store::NIL;
use super::{Step, Tick, Wheel};

/// Bits for an entry's position in its list.
const POSITION: u32 = 14;
/// The most entries that are sorted at one go: larger slots cascade first.
const MOST: usize = 1 << POSITION;

/// Room to sort in, kept from one slot to the next.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    /// Of each entry, its deadline; then what that is after the earliest, with the position in the list behind it.
    ranks: Vec<u64>,
    /// By position.
    entries: Vec<u32>,
}

impl<T> Wheel<T> {
    /// [`step`](Wheel::step), which sorts a slot where it can, and so may touch thousands of entries.
    pub(crate) fn step_sorting(&mut self, now: Tick, sorter: &mut Sorter) -> Step<T> {
        self.advance(now, Some(sorter))
    }

    /// Puts a slot in order that has just become current. One with too many entries cascades, and time moves on to its
    /// first so that they do not go through levels that they all share.
    pub(super) fn sort(&mut self, place: Place, now: Tick, sorter: &mut Sorter) {
        let Sorter { ranks, entries } = sorter;
        ranks.clear();
        entries.clear();
        let (mut first, mut last) = (u64::MAX, 0);
        let mut rest = self.lists[place.0].iter(&self.store);
        for index in rest.by_ref().take(MOST) {
            let deadline = self.store.cell(index).deadline.0;
            (first, last) = (first.min(deadline), last.max(deadline));
            ranks.push(deadline);
            entries.push(index);
        }
        if entries.len() == MOST || (last - first) >> (u64::BITS - POSITION) > 0 {
            let first = rest.map(|index| self.store.cell(index).deadline.0).fold(first, u64::min);
            self.elapsed = Tick(first).min(now);
            return;
        }
        drop(rest);
        for (position, rank) in ranks.iter_mut().enumerate() {
            *rank = (*rank - first) << POSITION | position as u64;
        }
        ranks.sort_unstable();
        let mut in_order = List::EMPTY;
        for rank in ranks {
            // Fourteen bits.
            #[allow(clippy::cast_possible_truncation)]
            let index = entries[*rank as usize % MOST];
            let cell = self.store.cell_mut(index);
            cell.prev = in_order.tail;
            cell.next = NIL;
            match in_order.tail {
                NIL => in_order.head = index,
                before => self.store.cell_mut(before).next = index,
            }
            in_order.tail = index;
        }
        self.lists[place.0] = in_order;
        self.sorted[place.row()] |= 1 << place.slot();
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::tests::all;
    use super::*;

    /// Deadlines in no order with many alike, near and far from where the wheel is.
    fn scattered(count: u64, start: u64, span: u64) -> Wheel<u64> {
        let mut wheel = Wheel::starting_at(Tick(start));
        for n in 0..count {
            wheel.insert(Tick(start + span + n * 7_919 % span), n);
        }
        wheel
    }

    #[test]
    fn sorting_gives_what_cascading_gives() {
        for count in [2, 100, MOST as u64 - 1, MOST as u64, 3 * MOST as u64] {
            for (start, span) in [(0, 50), (1 << 40, 5_000), (5, 1 << 33), (1 << 60, 1 << 52)] {
                let mut wheel = scattered(count, start, span);
                let mut sorter = Sorter::default();
                let mut copy = wheel.clone();
                let given = all(&mut copy, |wheel| wheel.step_sorting(Tick::MAX, &mut sorter));
                // Up to so many nothing is moved level by level.
                assert!(copy.cascaded() == 0 || count >= MOST as u64);
                assert!(given.is_sorted() && given.len() as u64 == count);
                assert_eq!(given, all(&mut wheel, |wheel| wheel.step(Tick::MAX)));
            }
        }
    }

    /// A rank has fifty bits for how far an entry is behind the first.
    #[test]
    fn entries_far_apart_in_one_slot_come_in_order() {
        const SLOT: u64 = 2 << 54;
        for apart in [1, 1 << 13, (1 << 50) - 1, 1 << 50, (1 << 50) + 1, 1 << 51, 1 << 53] {
            for first in [SLOT, SLOT + (1 << 49) - 1] {
                let mut wheel = Wheel::new();
                wheel.insert(Tick(first + apart), 1);
                wheel.insert(Tick(first), 0);
                let mut sorter = Sorter::default();
                let given = all(&mut wheel, |wheel| wheel.step_sorting(Tick::MAX, &mut sorter));
                assert_eq!(given, [(Tick(first), 0), (Tick(first + apart), 1)], "{apart} apart");
                assert_eq!(wheel.cascaded() == 0, apart < 1 << 50, "{apart} apart");
            }
        }
    }

    #[test]
    fn time_goes_no_further_than_it_is() {
        for now in [0, 1 << 34, (1 << 35) - 1, (1 << 35) + 3] {
            let mut wheel = scattered(3 * MOST as u64, 0, 1 << 35);
            let mut sorter = Sorter::default();
            let fired = all(&mut wheel, |wheel| wheel.step_sorting(Tick(now), &mut sorter));
            assert!(fired.iter().all(|&(deadline, _)| deadline <= Tick(now)));
            assert_eq!(wheel.elapsed(), Tick(now));
            wheel.check();
        }
    }
}
