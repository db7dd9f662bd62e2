use slab::Slab;

use super::super::Wheel;
use super::Cell;
use crate::wheel::Tick;

const PAGE: usize = 128;

type Pages = super::Pages<(), PAGE>;

impl<T, const PAGE: usize> super::Pages<T, PAGE> {
    /// Panics if the pages and their bookkeeping disagree.
    pub(in crate::wheel) fn check(&self, len: usize) {
        assert_eq!(len, self.table.iter().map(Slab::len).sum::<usize>(), "each cell is counted");
        assert_eq!(self.open.len(), self.table.len().div_ceil(64), "one bit a page");
        assert!(self.open.iter().take(self.first_open).all(|&word| word == 0), "nothing is open before the first");
        for (number, page) in self.table.iter().enumerate() {
            assert!([0, PAGE].contains(&page.capacity()), "page {number} has room for {}", page.capacity());
            let open = self.open[number / 64] & (1 << (number % 64)) != 0;
            assert!(open == (page.len() < PAGE) || number == self.current, "page {number} is open if it has room");
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
    assert!(pages.table.len() <= 2 && pages.open.len() == 1 && pages.table.capacity() <= 64);
    let numbers = (0..3 * PAGE).map(|_| page_of(insert(&mut pages)));
    assert_eq!(numbers.max(), Some(2));
    check(&pages);
}

#[test]
fn a_copy_has_pages_of_the_same_size() {
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
