//! Doubly linked lists through indices into one vector, so that a timer can leave its list in constant time without
//! anyone knowing which list it is in.
//!
//! Each list is a ring that starts and ends at a head of its own: list `n` has cell `n` for its head, and the timers'
//! cells come behind the heads. With a ring, linking and unlinking need no case for an empty list or for its ends.

#[derive(Debug, Default, Clone, Copy)]
struct Cell<T> {
    prev: u32,
    /// In a vacant cell, the next vacant one.
    next: u32,
    value: T,
}

#[derive(Debug)]
pub(super) struct Lists<T> {
    cells: Vec<Cell<T>>,
    heads: u32,
    /// The first vacant cell; 0, which is always a head, if there is none.
    vacant: u32,
}

impl<T: Copy + Default> Lists<T> {
    /// That many empty lists.
    pub(super) fn new(lists: u32) -> Self {
        let head = |index| Cell { prev: index, next: index, value: T::default() };
        Lists { cells: (0..lists).map(head).collect(), heads: lists, vacant: 0 }
    }

    /// A new timer at the end of `list`.
    pub(super) fn push_back(&mut self, list: u32, value: T) -> u32 {
        let index = self.insert(value);
        self.link_before(list, index);
        index
    }

    /// A new timer before the first one of `list`, seen from its start, for which `later` holds.
    pub(super) fn insert_sorted(&mut self, list: u32, value: T, later: impl Fn(&T) -> bool) -> u32 {
        let mut at = self.cells[list as usize].next;
        while at != list && !later(&self.cells[at as usize].value) {
            at = self.cells[at as usize].next;
        }
        let index = self.insert(value);
        self.link_before(at, index);
        index
    }

    /// Takes a timer out of its list and gives its cell up.
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

    /// The first timer of a list.
    pub(super) fn first(&self, list: u32) -> Option<u32> {
        self.after(list)
    }

    /// The timer that comes after this one, or after a head.
    pub(super) fn after(&self, index: u32) -> Option<u32> {
        let next = self.cells[index as usize].next;
        (next >= self.heads).then_some(next)
    }

    pub(super) fn get(&self, index: u32) -> &T {
        &self.cells[index as usize].value
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.cells[index as usize].value
    }

    fn insert(&mut self, value: T) -> u32 {
        if self.vacant == 0 {
            self.cells.push(Cell { prev: 0, next: 0, value });
            return self.cells.len() as u32 - 1;
        }
        let index = self.vacant;
        let cell = &mut self.cells[index as usize];
        self.vacant = cell.next;
        cell.value = value;
        index
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
