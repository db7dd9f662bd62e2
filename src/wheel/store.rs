//! Where a wheel's entries live, and the blocks that list them.
//!
//! Invariants
//! 1. A generation is given out once in the life of a store, so a stale [`Key`] matches no later entry.
//!
//! Must not know: levels, slots, time.

use super::block::{At, Block};
use super::pages::{NIL, Pages};
use crate::wheel::Tick;

/// Names one entry of a [`Wheel`](super::Wheel), for as long as that entry is in it.
///
/// A key of an entry that has fired or was removed is refused by every operation: it never names a newer entry, however
/// often the cell behind it was used again.
///
/// A key means nothing in another wheel, where it may be refused or name whatever is there. In a clone of its wheel it
/// names the copy of its entry.
///
/// ```
/// use hairspring::wheel::{Tick, Wheel};
/// let mut wheel = Wheel::new();
/// let old = wheel.insert(Tick(1), "old");
/// wheel.pop(Tick(1));
/// let new = wheel.insert(Tick(2), "new");
/// assert!(old != new && wheel.get(old).is_none());
/// assert_eq!(wheel.clone().remove(new), Some("new"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Twelve bytes, so that a sleep takes 40.
#[repr(C, packed(4))]
pub struct Key {
    generation: u64,
    pub(super) index: u32,
}

impl Key {
    /// A key for what does a wheel's work and numbers its entries.
    pub(crate) fn numbered(number: usize) -> Key {
        Key { generation: 0, index: u32::try_from(number).unwrap_or(NIL) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cell<T> {
    pub(super) deadline: Tick,
    generation: u64,
    /// Where in its list.
    pub(super) at: At,
    pub(super) value: T,
}

type Cells<T> = Pages<Cell<T>, 128>;
type Blocks = Pages<Block, 4>;

#[derive(Debug, Clone)]
pub(super) struct Store<T> {
    cells: Cells<T>,
    pub(super) blocks: Blocks,
    /// A block that no list has, for the next that needs one.
    spare: u32,
    /// How many entries were ever inserted: the next one's generation.
    inserted: u64,
    taken: u64,
}

impl<T> Store<T> {
    pub(super) fn new() -> Self {
        Store { cells: Cells::new(), blocks: Blocks::new(), spare: NIL, inserted: 0, taken: 0 }
    }

    pub(super) fn len(&self) -> usize {
        // No more than `u32::MAX` of them are in at a time.
        usize::try_from(self.inserted - self.taken).expect("indices are 32 bits")
    }

    pub(super) fn capacity(&self) -> usize {
        self.cells.capacity()
    }

    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Makes `first` the next generation. Those before it count as entries that were inserted and taken out; returns how
    /// many they are.
    pub(super) fn number_from(&mut self, first: u64) -> u64 {
        let skipped = first.checked_sub(self.inserted).expect("a generation is given once");
        self.inserted += skipped;
        self.taken += skipped;
        skipped
    }

    /// The index of the entry that is inserted next.
    #[inline]
    pub(super) fn next_index(&mut self) -> u32 {
        self.cells.next_index()
    }

    /// Puts an entry in at [`next_index`](Self::next_index), which a list names already.
    #[inline]
    pub(super) fn insert(&mut self, index: u32, deadline: Tick, at: At, value: T) -> Key {
        let generation = self.inserted;
        self.cells.insert(Cell { deadline, generation, at, value });
        self.inserted += 1;
        Key { generation, index }
    }

    /// Takes an entry out that a list names; to take it out of that is the caller's part.
    #[inline]
    pub(super) fn take_at(&mut self, index: u32) -> (Key, Cell<T>) {
        let cell = self.cells.take_if(index, |_| true).expect("what a list names is here");
        self.taken += 1;
        (Key { generation: cell.generation, index }, cell)
    }

    /// An entry leaves its block. Returns the number of its list if the block has to
    /// [leave](super::list::List::drop_block) that, as it has no other.
    #[inline]
    pub(super) fn leave_block(&mut self, at: At) -> Option<u32> {
        let block = &mut self.blocks[at.block];
        block.occupied &= !(1 << at.position);
        (block.occupied == 0 && (block.next != NIL || block.prev == NIL)).then_some(block.list)
    }

    /// A block with whatever it had before.
    pub(super) fn new_block(&mut self) -> u32 {
        match std::mem::replace(&mut self.spare, NIL) {
            NIL => {
                let block = self.blocks.next_index();
                self.blocks.insert(Block::EMPTY);
                block
            }
            spare => spare,
        }
    }

    /// One is kept, so that a list that grows and shrinks by one entry does not ask for memory each time.
    pub(super) fn drop_block(&mut self, block: u32) {
        if self.spare == NIL {
            self.spare = block;
        } else {
            self.blocks.take_if(block, |_| true);
        }
    }

    /// Takes an entry out; to take it out of its list is the caller's part. `None` if `key` is stale.
    #[inline]
    pub(super) fn take(&mut self, key: Key) -> Option<Cell<T>> {
        let taken = self.cells.take_if(key.index, |cell| cell.generation == key.generation)?;
        self.taken += 1;
        Some(taken)
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Cell<T>> {
        self.cells.get(key.index).filter(|cell| cell.generation == key.generation)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Cell<T>> {
        self.cells.get_mut(key.index).filter(|cell| cell.generation == key.generation)
    }

    /// The entry that a list names.
    #[inline]
    pub(super) fn cell(&self, index: u32) -> &Cell<T> {
        &self.cells[index]
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, index: u32) -> &mut Cell<T> {
        &mut self.cells[index]
    }

    pub(super) fn key_of(&self, index: u32) -> Key {
        Key { generation: self.cell(index).generation, index }
    }

    /// Keeps room for so many entries in all. A page is asked for when its first entry comes.
    #[track_caller]
    pub(super) fn reserve(&mut self, entries: usize) {
        self.cells.reserve(entries);
    }

    /// Gives the memory of all empty pages back, reserved or not.
    pub(super) fn shrink(&mut self) {
        let spare = std::mem::replace(&mut self.spare, NIL);
        self.blocks.take_if(spare, |_| true);
        self.cells.shrink();
        self.blocks.shrink();
    }

    /// Drops all entries. Their keys are stale, and room that was reserved stays so.
    pub(super) fn clear(&mut self) {
        let fresh = Store {
            cells: self.cells.emptied(),
            blocks: self.blocks.emptied(),
            spare: NIL,
            inserted: self.inserted,
            taken: self.inserted,
        };
        // Whole again before the first value is dropped, which is not our code.
        drop(std::mem::replace(self, fresh));
    }

    /// Panics if the pages and their bookkeeping disagree.
    pub(super) fn check(&self, blocks: usize) {
        self.cells.check(self.len());
        self.blocks.check(blocks + usize::from(self.spare != NIL));
        assert!(self.cells.iter().all(|cell| cell.generation < self.inserted), "generations are given once");
    }
}

#[cfg(test)]
mod tests;
