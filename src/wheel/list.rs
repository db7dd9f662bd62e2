//! The entries of one slot, first in, first out, by index.
//!
//! A list of one names its entry itself. A longer one has its indices side by side in blocks, so that the processor can
//! fetch many entries from memory at once. If each entry named the next, it would wait for one after the other: 150 ns
//! each among a million, in place of 6.
//!
//! Invariants
//! 1. A list is empty if `tail` is `NIL`. It has a single entry, `tail`, if only `head` is `NIL`. Else both are blocks.
//! 2. Neighbouring blocks name each other, and each has an entry. Only the last may have none, if there are others, so
//!    that a list that goes on growing and shrinking by one entry keeps its blocks.
//! 3. Within a block entries are in order. One that is taken out leaves a gap, unless it is the last.
//! 4. Each entry knows where it is in its list: [`At`]. It knows the number of the list if it is alone there, and its
//!    block does otherwise.
//!
//! Must not know: levels, time.

use super::Tick;
use super::block::{At, BLOCK, Block};
use super::pages::NIL;
use super::store::Store;

#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NIL, tail: NIL };

    pub(super) fn of_one(index: u32) -> List {
        List { head: NIL, tail: index }
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.tail == NIL
    }

    /// The first entry, and where it is. `list` is the list's number.
    #[inline]
    pub(super) fn first<T>(self, store: &Store<T>, list: u32) -> (At, u32) {
        if self.head == NIL {
            return (At::alone(list), self.tail);
        }
        let (position, index) = store.blocks[self.head].first();
        (At { block: self.head, position }, index)
    }

    /// The deadline of the entry that came last, even if it has left.
    pub(super) fn latest<T>(self, store: &Store<T>) -> Tick {
        if self.head == NIL { store.cell(self.tail).deadline } else { store.blocks[self.tail].latest }
    }

    /// Adds an entry to a list that has some. Returns where, and the deadline of the one before it, which may have left.
    #[inline]
    pub(super) fn push<T>(&mut self, store: &mut Store<T>, index: u32, deadline: Tick) -> (At, Tick) {
        if self.head != NIL {
            let block = &mut store.blocks[self.tail];
            let position = block.end();
            if (position as usize) < BLOCK {
                block.entries[position as usize % BLOCK] = index;
                block.occupied |= 1 << position;
                let before = std::mem::replace(&mut block.latest, deadline);
                return (At { block: self.tail, position }, before);
            }
        }
        self.push_to_next_block(store, index, deadline)
    }

    #[cold]
    fn push_to_next_block<T>(&mut self, store: &mut Store<T>, index: u32, deadline: Tick) -> (At, Tick) {
        let block = store.new_block();
        if self.head == NIL {
            let alone = store.cell_mut(self.tail);
            let list = std::mem::replace(&mut alone.at, At { block, position: 0 }).position;
            let latest = alone.deadline;
            let first = &mut store.blocks[block];
            (first.prev, first.next, first.latest, first.list) = (NIL, NIL, latest, list);
            (first.entries[0], first.occupied) = (self.tail, 1);
            *self = List { head: block, tail: block };
            return self.push(store, index, deadline);
        }
        let before = &mut store.blocks[self.tail];
        before.next = block;
        let (latest, list) = (before.latest, before.list);
        let added = &mut store.blocks[block];
        (added.prev, added.next, added.latest, added.list) = (self.tail, NIL, deadline, list);
        (added.entries[0], added.occupied) = (index, 1);
        self.tail = block;
        (At { block, position: 0 }, latest)
    }

    /// Takes the first block out, or the only entry. Returns how many entries there were, and puts their indices and
    /// deadlines into `entries`.
    pub(super) fn take_block<T>(&mut self, store: &mut Store<T>, entries: &mut [(u32, Tick); BLOCK]) -> usize {
        if self.head == NIL {
            entries[0] = (self.tail, store.cell(self.tail).deadline);
            *self = List::EMPTY;
            return 1;
        }
        let mut count = 0;
        for (entry, index) in entries.iter_mut().zip(store.blocks[self.head].iter()) {
            *entry = (index, store.cell(index).deadline);
            count += 1;
        }
        self.drop_block(store, self.head);
        count
    }

    /// Puts the entries, all of those that are here, in another order.
    pub(super) fn rearrange<T>(self, store: &mut Store<T>, mut entries: impl Iterator<Item = u32>) {
        let (mut number, mut latest) = (self.head, Tick::ZERO);
        while number != NIL {
            let mut rest = store.blocks[number].occupied;
            while rest != 0 {
                let position = rest.trailing_zeros();
                rest &= rest - 1;
                let index = entries.next().expect("as many as there are");
                store.blocks[number].entries[position as usize % BLOCK] = index;
                let cell = store.cell_mut(index);
                cell.at = At { block: number, position };
                latest = cell.deadline;
            }
            let block = &mut store.blocks[number];
            block.latest = latest;
            number = block.next;
        }
    }

    /// Takes out a block that has no entries left.
    pub(super) fn drop_block<T>(&mut self, store: &mut Store<T>, number: u32) {
        let Block { prev, next, .. } = store.blocks[number];
        store.drop_block(number);
        match prev {
            NIL => self.head = next,
            prev => store.blocks[prev].next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => store.blocks[next].prev = prev,
        }
        if prev == NIL && next != NIL && store.blocks[next].occupied == 0 {
            self.drop_block(store, next);
        }
    }

    fn blocks<T>(self, store: &Store<T>) -> impl Iterator<Item = &Block> {
        let some = |block| if block == NIL { None } else { Some(&store.blocks[block]) };
        std::iter::successors(some(self.head), move |block| some(block.next))
    }

    /// How many entries there are, if not more than `most`. Looks at the blocks, not at the entries.
    pub(super) fn count_up_to<T>(self, store: &Store<T>, most: usize) -> Option<usize> {
        if self.head == NIL {
            return Some(usize::from(!self.is_empty()));
        }
        let mut count = 0;
        for block in self.blocks(store) {
            count += block.occupied.count_ones() as usize;
            if count > most {
                return None;
            }
        }
        Some(count)
    }

    /// The entries from first to last.
    pub(super) fn iter<T>(self, store: &Store<T>) -> impl Iterator<Item = u32> {
        let alone = (self.head == NIL && self.tail != NIL).then_some(self.tail);
        alone.into_iter().chain(self.blocks(store).flat_map(Block::iter))
    }

    /// Panics if the links do not agree; returns how many entries and how many blocks there are. `list` is the list's
    /// number.
    pub(super) fn check<T>(self, store: &Store<T>, list: u32) -> (usize, usize) {
        if self.head == NIL {
            let count = usize::from(!self.is_empty());
            assert!(count == 0 || store.cell(self.tail).at == At::alone(list), "entry {} is alone", self.tail);
            return (count, 0);
        }
        let (mut before, mut block, mut entries, mut blocks) = (NIL, self.head, 0, 0);
        while block != NIL {
            let Block { prev, next, occupied, .. } = store.blocks[block];
            assert_eq!(prev, before, "block {block} links back");
            assert_eq!(store.blocks[block].list, list, "block {block} knows its list");
            assert!(occupied != 0 || next == NIL && prev != NIL, "block {block} has entries");
            for (position, &index) in (0..).zip(&store.blocks[block].entries) {
                if occupied & (1 << position) != 0 {
                    assert_eq!(store.cell(index).at, At { block, position }, "entry {index} knows where it is");
                    entries += 1;
                }
            }
            (before, block) = (block, next);
            blocks += 1;
            assert!(blocks <= store.len() + 1, "a list is a circle");
        }
        assert_eq!(before, self.tail, "the walk ends at the tail");
        (entries, blocks)
    }
}
