//! Doubly linked lists in one vector, linked by index. A timer can leave its list in constant time, and nobody needs to
//! know which list that is.
//!
//! Each list is a ring through a head: cell `n` is the head of list `n`, and the timers' cells follow the heads. This
//! avoids special cases for empty lists and for the ends of a list.

#[derive(Debug, Default, Clone, Copy)]
struct Cell<T> {
    prev: u32,
    /// In a vacant cell, the next vacant one.
    next: u32,
    value: T,
}

#[derive(Debug)]
pub(super) struct Lists<T, const HEADS: u32> {
    cells: Vec<Cell<T>>,
    /// The first vacant cell; 0, which is always a head, if there is none.
    vacant: u32,
}

impl<T: Default, const HEADS: u32> Default for Lists<T, HEADS> {
    fn default() -> Self {
        let head = |index| Cell { prev: index, next: index, value: T::default() };
        Lists { cells: (0..HEADS).map(head).collect(), vacant: 0 }
    }
}

impl<T: Copy, const HEADS: u32> Lists<T, HEADS> {
    /// Adds a timer before the cell `next`. If that is a head, this is the end of its list.
    pub(super) fn insert_before(&mut self, next: u32, value: T) -> u32 {
        let mut index = self.vacant;
        if index == 0 {
            index = self.cells.len() as u32;
            self.cells.push(Cell { prev: 0, next: 0, value });
        } else {
            let cell = &mut self.cells[index as usize];
            self.vacant = cell.next;
            cell.value = value;
        }
        self.link_before(next, index);
        index
    }

    /// Removes a timer from its list and releases its cell.
    pub(super) fn remove(&mut self, index: u32) -> T {
        self.unlink(index);
        let cell = &mut self.cells[index as usize];
        cell.next = self.vacant;
        self.vacant = index;
        cell.value
    }

    /// Moves a timer to the end of another list.
    pub(super) fn move_to(&mut self, list: u32, index: u32) {
        self.unlink(index);
        self.link_before(list, index);
    }

    /// The timer after this one, or the first one after a head.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        let next = self.cells[index as usize].next;
        (next >= HEADS).then_some(next)
    }

    pub(super) fn get(&mut self, index: u32) -> &mut T {
        &mut self.cells[index as usize].value
    }

    fn link_before(&mut self, next: u32, index: u32) {
        let prev = self.cells[next as usize].prev;
        self.cells[prev as usize].next = index;
        self.cells[next as usize].prev = index;
        let cell = &mut self.cells[index as usize];
        cell.prev = prev;
        cell.next = next;
    }

    fn unlink(&mut self, index: u32) {
        let Cell { prev, next, .. } = self.cells[index as usize];
        self.cells[prev as usize].next = next;
        self.cells[next as usize].prev = prev;
    }
}
