//! Where a wheel's entries live: each in a cell, which its key names, and the cells in pages of memory.
//!
//! A page is a `slab::Slab` of fixed capacity, so what grows and shrinks is never copied.
//
// Invariants
// 1. A generation is given out once in the life of a wheel, so a stale [`Key`] matches no later entry.
// 2. An index names page `index / PAGE`, cell `index % PAGE`. What is in a cell never moves.
// 3. A page is made for all that it ever holds, so it is never copied to grow, except in a clone of its wheel, where it
//    has just what it needs. Its memory is not written before it is used.
// 4. `open` has every page with room but `current`, once, and else only pages that are not in the table any more.
// 5. No page but `current` and the first is both empty and allocated: memory is given back as a population shrinks.
// 6. Growing and shrinking touch one page, and so many places in the table of pages at most, never the whole population.
//
// Must not know: levels, slots, time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::{Index, IndexMut};

use slab::Slab;

use super::Tick;
use super::slots::{At, NIL};

/// How many places of the page table are given back at a time.
const TRIMMED: usize = 1_024;

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
    /// The place of the entry: a number that no other entry of its wheel has.
    #[inline]
    pub(crate) fn place(self) -> u32 {
        self.index
    }

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

impl<T> Cell<T> {
    pub(super) fn new(generation: u64, deadline: Tick, at: At, value: T) -> Self {
        Cell { deadline, generation, at, value }
    }

    /// The key of the entry, which is in the cell at `index`.
    #[inline]
    pub(super) fn key(&self, index: u32) -> Key {
        Key { generation: self.generation, index }
    }

    /// Whether the entry is the one that a key names.
    #[inline]
    pub(super) fn is(&self, key: Key) -> bool {
        self.generation == key.generation
    }
}

pub(super) type Cells<T> = Pages<Cell<T>, 128>;

/// One without memory has a capacity of 0.
type Page<T> = Slab<T>;

/// Pages of `PAGE` cells each. A small page is short work under a lock when it comes and when it goes.
#[derive(Debug, Clone)]
pub(super) struct Pages<T, const PAGE: usize> {
    table: Vec<Page<T>>,
    /// The other pages with room, the lowest first.
    open: BinaryHeap<Reverse<usize>>,
    /// The page that takes inserts until it is full.
    current: usize,
}

impl<T, const PAGE: usize> Pages<T, PAGE> {
    /// How many cells there may be: all indices but those of the page that `NIL` would be in.
    pub(super) const MOST: usize = (NIL as usize / PAGE) * PAGE;

    pub(super) fn new() -> Self {
        Pages { table: Vec::new(), open: BinaryHeap::new(), current: 0 }
    }

    pub(super) fn capacity(&self) -> usize {
        self.table.iter().map(Slab::capacity).sum()
    }

    /// The index of what is inserted next.
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

    /// Puts a value in, at [`next_index`](Self::next_index), which has to be asked for before.
    #[inline]
    pub(super) fn insert(&mut self, value: T) {
        self.table[self.current].insert(value);
    }

    /// Takes out what is at `index`, if there is something and it is the one that is meant.
    #[inline]
    pub(super) fn take_if(&mut self, index: u32, is_meant: impl FnOnce(&T) -> bool) -> Option<T> {
        let (number, cell) = split::<PAGE>(index);
        let page = self.table.get_mut(number)?;
        if !is_meant(page.get(cell)?) {
            return None;
        }
        let taken = page.try_remove(cell)?;
        // The page was full before, or has nothing left.
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

    // The rare paths are apart so that the compiler keeps the common one short.
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
        assert!((page + 1) * PAGE <= Self::MOST, "a wheel holds at most {} entries", Self::MOST);
        self.table.push(Page::new());
        // Those that are left were given back.
        self.open.clear();
        page
    }

    /// Gives an empty page's memory back, and the current one's if that is empty too. The lowest with room becomes, or
    /// stays, the current, and keeps its memory.
    #[cold]
    fn release(&mut self, page: usize) {
        let before = self.current;
        if self.table[before].is_empty() {
            self.open.push(Reverse(before));
            self.next_page();
        }
        for empty in [page, before] {
            if empty != self.current && empty > 0 && self.table[empty].is_empty() {
                self.table[empty] = Page::new();
            }
        }
        self.trim();
    }

    /// Drops some released pages at the end, so that the page table shrinks too.
    fn trim(&mut self) {
        let trailing = self.table.iter().rev().take_while(|page| page.capacity() == 0).take(TRIMMED).count();
        let len = (self.table.len() - trailing).max(self.current + 1);
        self.table.truncate(len);
        let table = self.table.capacity();
        if table > 64 && table / 4 > len {
            self.table.shrink_to(len * 2);
            self.open.retain(|open| open.0 < len);
            self.open.shrink_to(len * 2);
        }
    }

    /// What is here, with its index.
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

/// A page's number, and that of a cell in it.
#[inline]
fn split<const PAGE: usize>(index: u32) -> (usize, usize) {
    (index as usize / PAGE, index as usize % PAGE)
}

#[cfg(test)]
mod tests {
    use super::super::Wheel;
    use super::{Cell, Slab, Tick};

    const PAGE: usize = 128;

    type Pages = super::Pages<(), PAGE>;

    impl<T, const PAGE: usize> super::Pages<T, PAGE> {
        /// Panics if the pages and their bookkeeping disagree.
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
    fn low_pages_are_filled_first_so_that_high_ones_empty() {
        let mut pages = Pages::new();
        let mut live: std::collections::VecDeque<u32> = (0..20_000).map(|_| insert(&mut pages)).collect();
        // A steady trickle at a tenth of the peak: every page but the lowest empties.
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

    /// `count` pages, all full.
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
        assert_eq!(Pages::MOST as u64, (1_u64 << 32) - 128);
    }

    #[test]
    fn a_cell_with_a_waker_is_40_bytes() {
        assert!(size_of::<Cell<std::task::Waker>>() <= 40); // Fewer on systems of 32 bits.
    }

    #[test]
    fn a_stale_key_finds_nothing_even_in_a_reused_cell() {
        let mut wheel = Wheel::new();
        let old = wheel.insert(Tick(1), 'a');
        wheel.remove(old).unwrap();
        let new = wheel.insert(Tick(1), 'b');
        assert_eq!({ old.index }, { new.index }, "the cell is used again");
        assert!(wheel.get(old).is_none() && wheel.get_mut(old).is_none());
        assert_eq!(wheel.get(new), Some(&'b'));
    }
}
