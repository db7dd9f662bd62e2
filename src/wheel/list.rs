//! A first-in-first-out list of cells, linked by index through the [`Store`].
//!
//! Invariants
//! 1. `head` is `NIL` exactly when `tail` is.
//! 2. The first cell's `prev` and the last cell's `next` are `NIL`; in between, neighbours name each other.
//!
//! Must not know: levels, time, what a cell holds.

use super::store::{NIL, Store};

#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl List {
    pub(super) const EMPTY: List = List { head: NIL, tail: NIL };

    pub(super) fn is_empty(self) -> bool {
        self.head == NIL
    }

    /// Is this entry the first or the last here?
    pub(super) fn ends_with(self, index: u32) -> bool {
        self.head == index || self.tail == index
    }

    /// Closes the gap between two neighbours of this list, where an entry was.
    #[inline]
    pub(super) fn close_gap<T>(&mut self, store: &mut Store<T>, prev: u32, next: u32) {
        match prev {
            NIL => self.head = next,
            prev => store.cell_mut(prev).next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => store.cell_mut(next).prev = prev,
        }
    }

    /// The entries from first to last.
    pub(super) fn iter<T>(self, store: &Store<T>) -> impl Iterator<Item = u32> {
        std::iter::successors((self.head != NIL).then_some(self.head), |&index| {
            let next = store.cell(index).next;
            (next != NIL).then_some(next)
        })
    }

    /// Panics where the links do not agree; returns how many entries there are.
    pub(super) fn check<T>(self, store: &Store<T>) -> usize {
        assert_eq!(self.head == NIL, self.tail == NIL, "a list has both ends or neither");
        let (mut before, mut count) = (NIL, 0);
        for index in self.iter(store) {
            assert_eq!(store.cell(index).prev, before, "entry {index} links back");
            before = index;
            count += 1;
            assert!(count <= store.len(), "a list is a circle");
        }
        assert_eq!(before, self.tail, "the walk ends at the tail");
        count
    }
}
