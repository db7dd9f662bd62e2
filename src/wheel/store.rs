//! Where a wheel's entries live: cells in pages, each a `slab::Slab` of fixed capacity, linked to lists by index.
//!
//! Invariants
//! 1. An index names page `index / PAGE`, cell `index % PAGE`; a cell never moves while it is occupied.
//! 2. A generation is given out once in the life of a store, so a stale [`Key`] matches no later entry.
//! 3. A page never holds more than it was made for, so it is never copied to grow. Its memory is not written before it
//!    is used.
//! 4. `open` has the bit of every page with room, and of no other but `current`. No word before `first_open` has any.
//! 5. No page but `current`, the first and those reserved is both empty and allocated: memory is given back as a
//!    population shrinks.
//! 6. Growing and shrinking touch one page, and so many places in the table of pages at most, never the whole population.
//!
//! Must not know: levels, slots, time.

use slab::Slab;

use crate::wheel::Tick;

/// Cells in a page. Small enough that growing and releasing one is short work under a lock.
const PAGE: usize = 128;

/// How many places of the page table are given back at a time.
const TRIMMED: usize = 1_024;

/// "No entry", where an index is expected.
pub(super) const NIL: u32 = u32::MAX;

/// How many entries fit: all indices but those of the page that `NIL` would be in.
const MOST: usize = (NIL as usize / PAGE) * PAGE;

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
    pub(super) next: u32,
    pub(super) value: T,
}

/// One without memory has a capacity of 0.
type Page<T> = Slab<Cell<T>>;

#[derive(Debug)]
pub(super) struct Store<T> {
    pages: Vec<Page<T>>,
    /// One bit a page: has it room?
    open: Vec<u64>,
    first_open: usize,
    /// The page that takes inserts until it is full.
    current: usize,
    /// How many pages keep their memory although they are empty, once they have it: those reserved, and the first.
    kept: usize,
    reserved: usize,
    /// How many entries were ever inserted: the next one's generation.
    inserted: u64,
    taken: u64,
}

impl<T> Store<T> {
    /// A store that asks for its first page when it needs it.
    pub(super) fn new() -> Self {
        Store {
            pages: vec![Page::new()],
            open: vec![1],
            first_open: 0,
            current: 0,
            kept: 1,
            reserved: 0,
            inserted: 0,
            taken: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        // No more than `u32::MAX` of them are in at a time.
        usize::try_from(self.inserted - self.taken).expect("indices are 32 bits")
    }

    /// How many entries were ever inserted.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Cells that are allocated or reserved, occupied or not.
    pub(super) fn capacity(&self) -> usize {
        let beyond = self.pages.iter().skip(self.reserved).filter(|page| page.capacity() > 0);
        (self.reserved + beyond.count()) * PAGE
    }

    /// Puts an entry in, behind `prev`; linking it from there is the caller's part.
    #[inline]
    pub(super) fn insert(&mut self, deadline: Tick, prev: u32, value: T) -> Key {
        let generation = self.inserted;
        let entry = Cell { deadline, generation, prev, next: NIL, value };
        let cell = match self.pages.get_mut(self.current) {
            Some(page) if page.len() < page.capacity() => page.insert(entry),
            _ => self.insert_in_next_page(entry),
        };
        self.inserted += 1;
        // `push_page` keeps every index within `u32`.
        #[allow(clippy::cast_possible_truncation)]
        Key { generation, index: (self.current * PAGE + cell) as u32 }
    }

    /// Takes an entry out; unlinking it from its neighbours is the caller's part. `None` where `key` is stale.
    #[inline]
    pub(super) fn take(&mut self, key: Key) -> Option<Cell<T>> {
        let (number, cell) = split(key.index);
        let page = self.pages.get_mut(number)?;
        if page.get(cell)?.generation != key.generation {
            return None;
        }
        let taken = page.try_remove(cell)?;
        self.taken += 1;
        // The page was full before, or has nothing left.
        if page.len() == PAGE - 1 {
            self.mark_open(number);
        } else if page.is_empty() && number >= self.kept {
            self.release(number);
        }
        Some(taken)
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&Cell<T>> {
        let (page, cell) = split(key.index);
        self.pages.get(page)?.get(cell).filter(|cell| cell.generation == key.generation)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Cell<T>> {
        let (page, cell) = split(key.index);
        self.pages.get_mut(page)?.get_mut(cell).filter(|cell| cell.generation == key.generation)
    }

    /// The entry that a list names.
    #[inline]
    pub(super) fn cell(&self, index: u32) -> &Cell<T> {
        let (page, cell) = split(index);
        &self.pages[page][cell]
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, index: u32) -> &mut Cell<T> {
        let (page, cell) = split(index);
        &mut self.pages[page][cell]
    }

    pub(super) fn key_of(&self, index: u32) -> Key {
        Key { generation: self.cell(index).generation, index }
    }

    // The rare paths are apart so that the compiler keeps the common one short.
    #[cold]
    fn insert_in_next_page(&mut self, entry: Cell<T>) -> usize {
        self.next_page();
        self.pages[self.current].insert(entry)
    }

    fn next_page(&mut self) {
        self.current = self.lowest_open().unwrap_or_else(|| self.push_page());
        let page = &mut self.pages[self.current];
        if page.capacity() == 0 {
            *page = Page::with_capacity(PAGE);
        }
    }

    #[cold]
    fn mark_open(&mut self, page: usize) {
        self.open[page / 64] |= 1 << (page % 64);
        self.first_open = self.first_open.min(page / 64);
    }

    fn lowest_open(&mut self) -> Option<usize> {
        if self.pages[self.current].len() == PAGE {
            self.open[self.current / 64] &= !(1 << (self.current % 64));
        }
        let ahead = self.open[self.first_open..].iter().position(|&word| word != 0);
        self.first_open = ahead.map_or(self.open.len(), |ahead| self.first_open + ahead);
        let word = self.open.get(self.first_open)?;
        Some(self.first_open * 64 + word.trailing_zeros() as usize)
    }

    fn push_page(&mut self) -> usize {
        let page = self.pages.len();
        assert!((page + 1) * PAGE <= MOST, "a wheel holds at most {MOST} entries");
        self.pages.push(Page::new());
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
        if self.pages[before].is_empty() {
            self.next_page();
        }
        for empty in [page, before] {
            if empty != self.current && empty >= self.kept && self.pages[empty].is_empty() {
                self.pages[empty] = Page::new();
            }
        }
        self.trim(TRIMMED);
    }

    /// Drops some released pages at the end, so that the page table shrinks too.
    fn trim(&mut self, most: usize) {
        let trailing = self.pages.iter().rev().take_while(|page| page.capacity() == 0).take(most).count();
        let len = (self.pages.len() - trailing).max(self.current + 1);
        self.pages.truncate(len);
        self.open.truncate(len.div_ceil(64));
        if let Some(last) = self.open.last_mut() {
            *last &= u64::MAX >> (64 * len.div_ceil(64) - len);
        }
        self.first_open = self.first_open.min(self.open.len());
        let table = self.pages.capacity();
        if table > 64 && table / 4 > len.max(self.kept) {
            self.pages.shrink_to(len * 2);
            self.open.shrink_to_fit();
        }
    }

    /// Keeps room for `entries` in all. A page is asked for when its first entry comes.
    #[track_caller]
    pub(super) fn reserve(&mut self, entries: usize) {
        assert!(entries <= MOST, "a wheel holds at most {MOST} entries");
        self.reserved = self.reserved.max(entries.div_ceil(PAGE));
        self.kept = self.reserved.max(1);
        self.pages.reserve(self.reserved.saturating_sub(self.pages.len()));
    }

    /// Gives the memory of all empty pages back, reserved or not.
    pub(super) fn shrink(&mut self) {
        (self.reserved, self.kept) = (0, 1);
        for page in self.pages.iter_mut().filter(|page| page.is_empty()) {
            *page = Page::new();
        }
        self.current = self.lowest_open().unwrap_or(0);
        self.trim(usize::MAX);
        self.pages.shrink_to_fit();
        self.open.shrink_to_fit();
    }

    /// Drops all entries. Their keys are stale, and room that was reserved stays so.
    pub(super) fn clear(&mut self) {
        let Store { kept, reserved, inserted, .. } = *self;
        let fresh = Store { kept, reserved, inserted, taken: inserted, ..Store::new() };
        // Whole again before the first value is dropped, which is not our code.
        drop(std::mem::replace(self, fresh));
    }

    /// Panics where the pages and their bookkeeping disagree.
    pub(super) fn check(&self) {
        assert_eq!(self.len(), self.pages.iter().map(Page::len).sum::<usize>(), "len counts the cells");
        assert_eq!(self.open.len(), self.pages.len().div_ceil(64), "one bit a page");
        assert!(self.open.iter().take(self.first_open).all(|&word| word == 0), "nothing is open before the first");
        for (number, page) in self.pages.iter().enumerate() {
            assert!([0, PAGE].contains(&page.capacity()), "page {number} has room for {}", page.capacity());
            let open = self.open[number / 64] & (1 << (number % 64)) != 0;
            assert!(open == (page.len() < PAGE) || number == self.current, "page {number} is open where it has room");
            assert!(
                number < self.kept || number == self.current || page.capacity() == 0 || !page.is_empty(),
                "page {number} is empty and holds memory"
            );
            assert!(page.iter().all(|(_, cell)| cell.generation < self.inserted), "generations are given once");
        }
    }
}

impl<T: Clone> Clone for Store<T> {
    fn clone(&self) -> Self {
        let pages = self.pages.iter().map(|page| {
            let mut copy = page.clone();
            copy.reserve_exact(page.capacity() - page.len());
            copy
        });
        Store { pages: pages.collect(), open: self.open.clone(), ..*self }
    }
}

/// A page's number, and that of a cell in it.
#[inline]
fn split(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

#[cfg(test)]
mod tests;
