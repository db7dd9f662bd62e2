//! Memory for a wheel's entries: cells that keys name, in pages.
//!
//! A page is a `slab::Slab` of fixed capacity, which avoids copying when the population grows or shrinks.
//
// Invariants
// 1. A generation is used once in the life of a wheel, so a stale [`Key`] matches no later entry.
// 2. An index names page `index / PAGE`, cell `index % PAGE`. The contents of a cell never move.
// 3. A page is allocated at its full size, so it never grows; in a clone of a wheel it has just the size it needs. Its
//    memory is not written before it is used.
// 4. `open` lists every page with room except `current`, once. Other pages that it lists are no longer in the table.
// 5. No page except `current` and the first is both empty and allocated: memory is released as the population shrinks.
// 6. Growing and shrinking touch one page and the page table, never the entries of other pages.
//
// Must not know: levels, slots, time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

use slab::Slab;

use super::Tick;
use super::slots::{At, NIL};

/// How many entries of the page table are released at a time.
const TRIMMED: usize = 1_024;

/// Names one entry of a [`Wheel`](super::Wheel).
///
/// ```
/// use hairspring::wheel::{Tick, Wheel};
/// let mut wheel = Wheel::new();
/// let old = wheel.insert(Tick::from(1), "old");
/// wheel.pop(Tick::from(1));
/// let new = wheel.insert(Tick::from(2), "new");
/// assert!(old != new && wheel.get(old).is_none());
/// assert_eq!(wheel.clone().remove(new), Some("new"));
/// ```
///
/// Once the entry has fired or was removed, its key is stale: every operation refuses it, and it never names a newer
/// entry.
///
/// Use a key only with the wheel that returned it: another wheel may refuse it, or take it for one of its own entries.
/// In a clone of the wheel, it names the copy of its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
// Twelve bytes keep a sleep at 40.
#[repr(C, packed(4))]
pub struct Key {
    generation: u64,
    pub(super) index: u32,
}

impl Key {
    /// A key for a collection that is no wheel and numbers its entries itself.
    pub(crate) fn numbered(number: usize) -> Key {
        Key { generation: 0, index: u32::try_from(number).unwrap_or(NIL) }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Cell<T> {
    pub(super) deadline: Tick,
    generation: u64,
    pub(super) at: At,
    pub(super) value: T,
}

impl<T> Cell<T> {
    pub(super) fn new(generation: u64, deadline: Tick, at: At, value: T) -> Self {
        Cell { deadline, generation, at, value }
    }

    #[inline]
    pub(super) fn key(&self, index: u32) -> Key {
        Key { generation: self.generation, index }
    }

    #[inline]
    pub(super) fn is(&self, key: Key) -> bool {
        self.generation == key.generation
    }
}

pub(super) type Cells<T> = Pages<Cell<T>, 128>;

/// Has a capacity of 0 if it is not allocated.
type Page<T> = Slab<T>;

/// Pages of `PAGE` cells each. Small pages take little time under a lock to allocate and to free.
#[derive(Debug, Clone)]
pub(super) struct Pages<T, const PAGE: usize> {
    pub(super) table: Vec<Page<T>>,
    /// The other pages with room, lowest first.
    open: BinaryHeap<Reverse<usize>>,
    /// The page for inserts, until it is full.
    current: usize,
}

impl<T, const PAGE: usize> Pages<T, PAGE> {
    /// The maximum number of cells. The page that would contain `NIL` is not used.
    pub(super) const MAX_LEN: usize = (NIL as usize / PAGE) * PAGE;

    pub(super) fn new() -> Self {
        Pages { table: Vec::new(), open: BinaryHeap::new(), current: 0 }
    }

    /// The index that the next insert will use.
    #[inline]
    pub(super) fn next_index(&mut self) -> u32 {
        let cell = match self.table.get(self.current) {
            Some(page) if page.len() < PAGE => page.vacant_key(),
            _ => self.next_page(),
        };
        // `push_page` keeps every index within `u32`.
        #[allow(clippy::cast_possible_truncation)]
        let index = (self.current * PAGE + cell) as u32;
        index
    }

    /// Inserts a value at [`next_index`](Self::next_index), which must have been called before.
    #[inline]
    pub(super) fn insert(&mut self, value: T) {
        self.table[self.current].insert(value);
    }

    /// Removes the value at `index` if there is one and `is_meant` accepts it.
    #[inline]
    pub(super) fn take_if(&mut self, index: u32, is_meant: impl FnOnce(&T) -> bool) -> Option<T> {
        let (number, cell) = split::<PAGE>(index);
        let page = self.table.get_mut(number)?;
        if !is_meant(page.get(cell)?) {
            return None;
        }
        let taken = page.try_remove(cell)?;
        // The page was full before, or is empty now.
        if page.len() == PAGE - 1 {
            self.mark_open(number);
        } else if page.is_empty() && number > 0 {
            self.release(number);
        }
        Some(taken)
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<&T> {
        let (page, cell) = split::<PAGE>(index);
        self.table.get(page)?.get(cell)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (page, cell) = split::<PAGE>(index);
        self.table.get_mut(page)?.get_mut(cell)
    }

    #[cold]
    fn next_page(&mut self) -> usize {
        let lowest = self.open.pop().filter(|open| open.0 < self.table.len());
        self.current = lowest.map_or_else(|| self.push_page(), |open| open.0);
        let page = &mut self.table[self.current];
        if page.capacity() == 0 {
            *page = Page::with_capacity(PAGE);
        }
        page.vacant_key()
    }

    #[cold]
    fn mark_open(&mut self, page: usize) {
        if page != self.current {
            self.open.push(Reverse(page));
        }
    }

    fn push_page(&mut self) -> usize {
        let page = self.table.len();
        assert!((page + 1) * PAGE <= Self::MAX_LEN, "a wheel holds at most {} entries", Self::MAX_LEN);
        self.table.push(Page::new());
        // Pages still listed were released.
        self.open.clear();
        page
    }

    /// Releases the memory of an empty page, and of the current page if that is empty too. Afterwards the lowest page
    /// with room is current.
    #[cold]
    fn release(&mut self, page: usize) {
        let before = self.current;
        if self.table[before].is_empty() {
            self.open.push(Reverse(before));
            self.next_page();
        }
        for empty in [page, before] {
            // If the current page has changed, both are empty.
            if empty != self.current {
                self.table[empty] = Page::new();
            }
        }
        self.trim();
    }

    /// Drops some released pages at the end of the table, and shrinks the table.
    fn trim(&mut self) {
        let trailing = self.table.iter().rev().take_while(|page| page.capacity() == 0).take(TRIMMED).count();
        let len = self.table.len() - trailing;
        self.table.truncate(len);
        if self.table.capacity() / 4 > len {
            self.table.shrink_to(len * 2);
            self.open.retain(|open| open.0 < len);
            self.open.shrink_to(len * 2);
        }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let of_page = |(number, page): (usize, _)| {
            Slab::iter(page).map(move |(cell, value)| {
                (u32::try_from(number * PAGE + cell).expect("`push_page` keeps every index within `u32`"), value)
            })
        };
        self.table.iter().enumerate().flat_map(of_page)
    }
}

impl<T, const PAGE: usize> Index<u32> for Pages<T, PAGE> {
    type Output = T;

    #[inline]
    fn index(&self, index: u32) -> &T {
        let (page, cell) = split::<PAGE>(index);
        &self.table[page][cell]
    }
}

impl<T, const PAGE: usize> IndexMut<u32> for Pages<T, PAGE> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        let (page, cell) = split::<PAGE>(index);
        &mut self.table[page][cell]
    }
}

#[inline]
fn split<const PAGE: usize>(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::{Cell, Slab};

    const PAGE: usize = 128;

    type Pages = super::Pages<(), PAGE>;

    impl<T, const PAGE: usize> super::Pages<T, PAGE> {
        /// How many entries the allocated memory has room for.
        pub(in crate::wheel) fn capacity(&self) -> usize {
            self.table.iter().map(Slab::capacity).sum()
        }

        pub(in crate::wheel) fn check(&self, len: usize) {
            assert_eq!(len, self.table.iter().map(Slab::len).sum::<usize>(), "each cell is counted");
            for (number, page) in self.table.iter().enumerate() {
                let open = self.open.iter().filter(|open| open.0 == number).count();
                let has_room = page.len() < PAGE && number != self.current;
                assert_eq!(open, usize::from(has_room), "page {number} is open once if it has room");
                assert!(
                    number == 0 || number == self.current || page.capacity() == 0 || !page.is_empty(),
                    "page {number} is empty and holds memory"
                );
            }
        }
    }

    fn insert(pages: &mut Pages) -> u32 {
        let index = pages.next_index();
        pages.insert(());
        index
    }

    fn take(pages: &mut Pages, index: u32) {
        pages.take_if(index, |()| true).unwrap();
    }

    fn check(pages: &Pages) {
        pages.check(pages.iter().count());
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn memory_follows_the_population_down() {
        let mut pages = Pages::new();
        let keys: Vec<u32> = (0..100_000).map(|_| insert(&mut pages)).collect();
        assert!(pages.capacity() >= 100_000);
        for &key in &keys[1_000..] {
            take(&mut pages, key);
        }
        check(&pages);
        assert!(pages.capacity() <= 1_000 + 2 * PAGE, "{} cells for 1000 entries", pages.capacity());
        for &key in &keys[..1_000] {
            take(&mut pages, key);
        }
        check(&pages);
        assert!(pages.capacity() <= PAGE);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn low_pages_are_filled_first_so_that_high_ones_empty() {
        let mut pages = Pages::new();
        let mut live: std::collections::VecDeque<u32> = (0..20_000).map(|_| insert(&mut pages)).collect();
        // A steady trickle at a tenth of the peak empties every page except the lowest.
        for _ in 0..18_000 {
            take(&mut pages, live.pop_front().unwrap());
        }
        for _ in 0..10_000 {
            live.push_back(insert(&mut pages));
            take(&mut pages, live.pop_front().unwrap());
        }
        check(&pages);
        assert!(pages.capacity() <= 2_000 + 3 * PAGE, "{} cells for 2000 entries", pages.capacity());
    }

    fn full(count: usize) -> (Pages, Vec<u32>) {
        let mut pages = Pages::new();
        let keys = (0..count * PAGE).map(|_| insert(&mut pages)).collect();
        assert_eq!(pages.capacity(), count * PAGE, "each was made for all that it has");
        (pages, keys)
    }

    fn page_of(key: u32) -> usize {
        key as usize / PAGE
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn the_lowest_page_with_room_takes_what_comes_next() {
        let (mut pages, keys) = full(100);
        take(&mut pages, keys[70 * PAGE]);
        assert_eq!(page_of(insert(&mut pages)), 70);
        assert_eq!(page_of(insert(&mut pages)), 100);
        check(&pages);
    }

    #[test]
    fn an_empty_page_is_given_back_where_a_lower_one_has_room_though_it_took_the_last_inserts() {
        let (mut pages, keys) = full(4);
        let last = insert(&mut pages);
        assert_eq!(page_of(last), 4);
        take(&mut pages, keys[0]);
        take(&mut pages, last);
        check(&pages);
        assert_eq!(pages.capacity(), 4 * PAGE);
        assert_eq!(page_of(insert(&mut pages)), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes")]
    fn the_table_of_pages_shrinks_by_halves_and_grows_again() {
        let (mut pages, mut keys) = full(1_024);
        let mut shrink_to = |pages: &mut Pages, count: usize| {
            for key in keys.drain(count * PAGE..).rev() {
                take(pages, key);
            }
            check(pages);
        };
        shrink_to(&mut pages, 400);
        assert!(pages.table.capacity() >= 1_024, "not before three quarters are unused");
        shrink_to(&mut pages, 250);
        assert!((400..1_024).contains(&pages.table.capacity()), "{}", pages.table.capacity());
        shrink_to(&mut pages, 0);
        assert!(pages.table.len() <= 2 && pages.open.capacity() <= 64 && pages.table.capacity() <= 64);
        let numbers = (0..3 * PAGE).map(|_| page_of(insert(&mut pages)));
        assert_eq!(numbers.max(), Some(2));
        check(&pages);
    }

    #[test]
    fn a_copy_goes_on_where_the_original_was() {
        let (mut pages, keys) = full(2);
        take(&mut pages, keys[7]);
        let mut copy = pages.clone();
        check(&copy);
        assert_eq!(page_of(insert(&mut copy)), 0);
        assert_eq!(page_of(insert(&mut copy)), 2);
        check(&copy);
    }

    #[test]
    fn there_is_room_for_all_indices_but_those_of_one_page() {
        assert_eq!(Pages::new().capacity(), 0);
        assert_eq!(Pages::MAX_LEN as u64, (1_u64 << 32) - 128);
    }

    #[test]
    fn a_cell_with_a_waker_is_40_bytes() {
        assert!(size_of::<Cell<std::task::Waker>>() <= 40); // Fewer on systems of 32 bits.
    }
}
