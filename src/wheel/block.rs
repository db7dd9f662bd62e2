//! Blocks: some entries of a list side by side, by index.
//!
//! Must not know: levels, time, what an entry is.

use super::Tick;
use super::pages::NIL;

/// How many entries a block has room for.
pub(super) const BLOCK: usize = u32::BITS as usize;

#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) prev: u32,
    pub(super) next: u32,
    /// The deadline of the entry that came last.
    pub(super) latest: Tick,
    /// The number of the list that it belongs to.
    pub(super) list: u32,
    /// One bit a position: is there an entry?
    pub(super) occupied: u32,
    pub(super) entries: [u32; BLOCK],
}

/// Where an entry is in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    /// `NIL` if it is the only one, in no block.
    pub(super) block: u32,
    /// In the block. The number of the list if it is in none.
    pub(super) position: u32,
}

impl At {
    pub(super) fn alone(list: u32) -> At {
        At { block: NIL, position: list }
    }

    /// The number of its list, if it is the only one there.
    #[inline]
    pub(super) fn list_if_alone(self) -> Option<u32> {
        (self.block == NIL).then_some(self.position)
    }
}

impl Block {
    pub(super) const EMPTY: Block =
        Block { prev: NIL, next: NIL, latest: Tick::ZERO, list: NIL, occupied: 0, entries: [NIL; BLOCK] };

    /// The position behind the last entry.
    #[inline]
    pub(super) fn end(&self) -> u32 {
        u32::BITS - self.occupied.leading_zeros()
    }

    /// The first entry, and its position.
    #[inline]
    pub(super) fn first(&self) -> (u32, u32) {
        let position = self.occupied.trailing_zeros();
        (position, self.entries[position as usize % BLOCK])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let positions = std::iter::successors(Some(self.occupied), |rest| Some(rest & rest.wrapping_sub(1)));
        let positions = positions.take_while(|&rest| rest != 0).map(u32::trailing_zeros);
        positions.map(|position| self.entries[position as usize % BLOCK])
    }
}
