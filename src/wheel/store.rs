//! Where a wheel's entries live: a slab in pages, with the links of the wheel's lists in its cells.
//!
//! Invariants
//! 1. An index names page `index / PAGE`, cell `index % PAGE`; a cell never moves while it is occupied.
//! 2. A generation is given out once in the life of a store, so a stale [`Key`] matches no later entry.
//! 3. `open` has the bit of a page set exactly when that page has room.
//! 4. No page but `current` and the first `kept` is both empty and allocated: memory is given back as a population
//!    shrinks. `kept` is 1 unless room was reserved.
//! 5. Growing touches one page, never the whole population.
//!
//! Must not know: levels, slots, time.
//!
//! The slab is our own because the crate of that name takes a cell by move: putting a 40 byte cell in through memory
//! costs 3.5 ns of the wheel's 10, and the wheel is what everything else waits for.

use crate::wheel::Tick;

/// Cells in a page. Small enough that growing and releasing one is short work under a lock.
const PAGE: u32 = 128;

/// "No entry", where an index is expected.
pub(super) const NIL: u32 = u32::MAX;

/// How many entries fit: all indices but those of the page that `NIL` would be in.
const MOST: usize = (NIL - NIL % PAGE) as usize;

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

    /// The number of an entry of that.
    pub(crate) fn number(self) -> usize {
        self.index as usize
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cell<T> {
    pub(super) deadline: Tick,
    generation: u64,
    pub(super) prev: u32,
    /// In a vacant cell, the next vacant one of its page.
    pub(super) next: u32,
    /// `None` in a vacant cell.
    value: Option<T>,
}

/// What was in a cell that has been vacated.
#[derive(Debug)]
pub(super) struct Taken<T> {
    pub(super) deadline: Tick,
    pub(super) prev: u32,
    pub(super) next: u32,
    pub(super) value: T,
}

#[derive(Debug, Clone)]
struct Page<T> {
    /// `None` where the page has no memory: it was given back, or never asked for.
    cells: Option<Box<[Cell<T>; PAGE as usize]>>,
    /// The first vacant cell; `NIL` where there is none.
    vacant: u32,
    /// How many cells are occupied. A page without memory counts as full, so that an insert looks for a page first.
    len: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Store<T> {
    pages: Vec<Page<T>>,
    /// One bit a page: has it room?
    open: Vec<u64>,
    /// The page that takes inserts until it is full.
    current: usize,
    /// How many pages keep their memory although they are empty.
    kept: usize,
    /// How many entries were ever inserted: the next one's generation.
    inserted: u64,
    taken: u64,
}

impl<T> Cell<T> {
    fn is(&self, key: Key) -> bool {
        self.generation == key.generation && self.value.is_some()
    }

    pub(super) fn value(&self) -> Option<&T> {
        self.value.as_ref()
    }

    pub(super) fn value_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }
}

impl<T> Page<T> {
    const RELEASED: Page<T> = Page { cells: None, vacant: NIL, len: PAGE };

    /// A page whose cells are all vacant.
    fn new() -> Page<T> {
        let vacant = |number| Cell {
            deadline: Tick::ZERO,
            generation: 0,
            prev: NIL,
            next: if number + 1 < PAGE { number + 1 } else { NIL },
            value: None,
        };
        let cells: Box<[Cell<T>]> = (0..PAGE).map(vacant).collect();
        Page { cells: cells.try_into().ok(), vacant: 0, len: 0 }
    }

    /// Puts an entry into a vacant cell; the page must have one.
    #[inline]
    fn insert(&mut self, deadline: Tick, generation: u64, prev: u32, value: T) -> u32 {
        let number = self.vacant;
        let cell = self.cell_mut(number);
        let next = std::mem::replace(&mut cell.next, NIL);
        cell.deadline = deadline;
        cell.generation = generation;
        cell.prev = prev;
        cell.value = Some(value);
        self.vacant = next;
        self.len += 1;
        number
    }

    #[inline]
    fn get(&self, number: u32) -> Option<&Cell<T>> {
        Some(&self.cells.as_ref()?[(number % PAGE) as usize])
    }

    #[inline]
    fn get_mut(&mut self, number: u32) -> Option<&mut Cell<T>> {
        Some(&mut self.cells.as_mut()?[(number % PAGE) as usize])
    }

    #[inline]
    fn cell_mut(&mut self, number: u32) -> &mut Cell<T> {
        self.get_mut(number).expect("the page is allocated")
    }

    #[inline]
    fn take(&mut self, number: u32, generation: u64) -> Option<Taken<T>> {
        let vacant = self.vacant;
        let cell = self.get_mut(number)?;
        if cell.generation != generation {
            return None;
        }
        let value = cell.value.take()?;
        let taken = Taken { deadline: cell.deadline, prev: cell.prev, next: cell.next, value };
        cell.next = vacant;
        self.vacant = number;
        self.len -= 1;
        Some(taken)
    }
}

impl<T> Store<T> {
    /// A store that asks for its first page when it needs it.
    pub(super) fn new() -> Self {
        Store { pages: vec![Page::RELEASED], open: vec![1], current: 0, kept: 1, inserted: 0, taken: 0 }
    }

    pub(super) fn len(&self) -> usize {
        // No more than `u32::MAX` of them are in at a time.
        usize::try_from(self.inserted - self.taken).expect("indices are 32 bits")
    }

    /// How many entries were ever inserted.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Cells that are allocated, occupied or not.
    pub(super) fn capacity(&self) -> usize {
        self.pages.iter().filter(|page| page.cells.is_some()).count() * PAGE as usize
    }

    /// Puts an entry in, behind `prev`; linking it from there is the caller's part.
    #[inline]
    pub(super) fn insert(&mut self, deadline: Tick, prev: u32, value: T) -> Key {
        if self.pages[self.current].len == PAGE {
            self.next_page();
        }
        let generation = self.inserted;
        self.inserted += 1;
        let page = &mut self.pages[self.current];
        let number = page.insert(deadline, generation, prev, value);
        if page.len == PAGE {
            self.mark_full();
        }
        // `push_page` keeps every index within `u32`.
        #[allow(clippy::cast_possible_truncation)]
        Key { generation, index: self.current as u32 * PAGE + number }
    }

    /// Takes an entry out; unlinking it from its neighbours is the caller's part. `None` where `key` is stale.
    #[inline]
    pub(super) fn take(&mut self, key: Key) -> Option<Taken<T>> {
        let (number, cell) = split(key.index);
        let page = self.pages.get_mut(number)?;
        let taken = page.take(cell, key.generation)?;
        self.taken += 1;
        // The page was full before, or has nothing left.
        if page.len == PAGE - 1 {
            self.mark_open(number);
        } else if page.len == 0 && number >= self.kept {
            self.release(number);
        }
        Some(taken)
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Cell<T>> {
        let (page, cell) = split(key.index);
        self.pages.get(page)?.get(cell).filter(|cell| cell.is(key))
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Cell<T>> {
        let (page, cell) = split(key.index);
        self.pages.get_mut(page)?.get_mut(cell).filter(|cell| cell.is(key))
    }

    #[inline]
    pub(super) fn cell(&self, index: u32) -> &Cell<T> {
        let (page, cell) = split(index);
        self.pages[page].get(cell).expect("the page is allocated")
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, index: u32) -> &mut Cell<T> {
        let (page, cell) = split(index);
        self.pages[page].cell_mut(cell)
    }

    pub(super) fn key_of(&self, index: u32) -> Key {
        Key { generation: self.cell(index).generation, index }
    }

    // The rare paths stand apart so that the compiler keeps the common one short.
    #[cold]
    fn next_page(&mut self) {
        self.current = self.lowest_open().unwrap_or_else(|| self.push_page());
        let page = &mut self.pages[self.current];
        if page.cells.is_none() {
            *page = Page::new();
        }
    }

    #[cold]
    fn mark_full(&mut self) {
        self.open[self.current / 64] &= !(1 << (self.current % 64));
    }

    #[cold]
    fn mark_open(&mut self, page: usize) {
        self.open[page / 64] |= 1 << (page % 64);
    }

    fn lowest_open(&self) -> Option<usize> {
        let word = self.open.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.open[word].trailing_zeros() as usize)
    }

    fn push_page(&mut self) -> usize {
        let page = self.pages.len();
        assert!((page + 1) * PAGE as usize <= MOST, "a wheel holds at most {MOST} entries");
        self.pages.push(Page::RELEASED);
        if self.open.len() * 64 <= page {
            self.open.push(0);
        }
        self.mark_open(page);
        page
    }

    /// Gives an empty page's memory back, and the current one's where that is empty too. The lowest with room becomes, or
    /// stays, the current, and keeps its memory.
    #[cold]
    fn release(&mut self, page: usize) {
        let before = self.current;
        if self.pages[before].len == 0 {
            self.next_page();
        }
        for empty in [page, before] {
            if empty != self.current && empty >= self.kept && self.pages[empty].len == 0 {
                self.pages[empty] = Page::RELEASED;
            }
        }
        self.trim();
    }

    /// Drops the released pages at the end, so that the page table shrinks too.
    fn trim(&mut self) {
        while self.pages.len() > self.current + 1 && self.pages.last().is_some_and(|page| page.cells.is_none()) {
            self.pages.pop();
            let page = self.pages.len();
            self.open[page / 64] &= !(1 << (page % 64));
        }
        self.open.truncate(self.pages.len().div_ceil(64));
        if self.pages.capacity() > 64 && self.pages.capacity() / 4 > self.pages.len() {
            self.pages.shrink_to(self.pages.len() * 2);
            self.open.shrink_to_fit();
        }
    }

    /// Has room for `entries` in all, and keeps it.
    #[track_caller]
    pub(super) fn reserve(&mut self, entries: usize) {
        assert!(entries <= MOST, "a wheel holds at most {MOST} entries");
        self.kept = self.kept.max(entries.div_ceil(PAGE as usize));
        while self.pages.len() < self.kept {
            self.push_page();
        }
        for page in &mut self.pages[..self.kept] {
            if page.cells.is_none() {
                *page = Page::new();
            }
        }
    }

    /// Gives the memory of all empty pages back, reserved or not.
    pub(super) fn shrink(&mut self) {
        self.kept = 1;
        for page in self.pages.iter_mut().filter(|page| page.len == 0) {
            *page = Page::RELEASED;
        }
        self.current = self.lowest_open().unwrap_or(0);
        self.trim();
        self.pages.shrink_to_fit();
        self.open.shrink_to_fit();
    }

    /// Drops all entries. Their keys are stale, and room that was reserved stays so.
    pub(super) fn clear(&mut self) {
        let fresh = Store { inserted: self.inserted, taken: self.inserted, ..Store::new() };
        let kept = self.kept;
        // Whole again before the first value is dropped, which is not our code.
        let old = std::mem::replace(self, fresh);
        if kept > 1 {
            self.reserve(kept * PAGE as usize);
        }
        drop(old);
    }

    /// Panics where the pages and their bookkeeping disagree.
    pub(super) fn check(&self) {
        let allocated = self.pages.iter().filter(|page| page.cells.is_some());
        assert_eq!(self.len(), allocated.map(|page| page.len as usize).sum::<usize>(), "len counts the cells");
        assert_eq!(self.open.len(), self.pages.len().div_ceil(64), "one bit a page");
        for (number, page) in self.pages.iter().enumerate() {
            let cells: &[Cell<T>] = page.cells.as_ref().map_or(&[], |cells| cells.as_slice());
            let occupied = cells.iter().filter(|cell| cell.value.is_some()).count();
            let counted = if page.cells.is_some() { page.len } else { 0 };
            assert_eq!(counted as usize, occupied, "page {number} counts its cells");
            let vacant = std::iter::successors(cells.get(page.vacant as usize), |cell| {
                assert!(cell.value.is_none(), "page {number} lists an occupied cell as vacant");
                cells.get(cell.next as usize)
            });
            assert_eq!(
                vacant.take(PAGE as usize + 1).count(),
                cells.len() - occupied,
                "page {number} lists what is vacant"
            );
            let open = self.open[number / 64] & (1 << (number % 64)) != 0;
            assert_eq!(open, counted < PAGE, "page {number} is marked open where it has room");
            assert!(
                number < self.kept || number == self.current || counted > 0 || page.cells.is_none(),
                "page {number} is empty and holds memory"
            );
            assert!(
                cells.iter().all(|cell| cell.value.is_none() || cell.generation < self.inserted),
                "generations are given once"
            );
        }
    }
}

/// A page's number, and that of a cell in it.
#[inline]
fn split(index: u32) -> (usize, u32) {
    ((index / PAGE) as usize, index % PAGE)
}

#[cfg(test)]
mod tests;
