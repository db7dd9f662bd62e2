use super::*;

#[test]
fn a_cell_with_a_waker_is_40_bytes() {
    assert_eq!(size_of::<Cell<std::task::Waker>>(), 40);
}

#[test]
fn memory_follows_the_population_down() {
    let mut store = Store::new();
    let keys: Vec<Key> = (0..100_000).map(|n| store.insert(Tick(n), NIL, n)).collect();
    assert!(store.capacity() >= 100_000);
    for key in &keys[1_000..] {
        store.take(*key).unwrap();
    }
    store.check();
    assert!(store.capacity() <= 1_000 + 2 * PAGE, "{} cells for 1000 entries", store.capacity());
    for key in &keys[..1_000] {
        store.take(*key).unwrap();
    }
    store.check();
    assert!(store.capacity() <= PAGE);
}

#[test]
fn low_pages_are_filled_first_so_that_high_ones_empty() {
    let mut store = Store::new();
    let mut live: std::collections::VecDeque<Key> = (0..20_000).map(|n| store.insert(Tick(n), NIL, ())).collect();
    // A steady trickle at a tenth of the peak: every page but the lowest empties.
    for _ in 0..18_000 {
        store.take(live.pop_front().unwrap()).unwrap();
    }
    for n in 0..10_000 {
        live.push_back(store.insert(Tick(n), NIL, ()));
        store.take(live.pop_front().unwrap()).unwrap();
    }
    store.check();
    assert!(store.capacity() <= 2_000 + 3 * PAGE, "{} cells for 2000 entries", store.capacity());
}

#[test]
fn a_stale_key_finds_nothing_even_in_a_reused_cell() {
    let mut store = Store::new();
    let old = store.insert(Tick(1), NIL, 'a');
    store.take(old).unwrap();
    let new = store.insert(Tick(2), NIL, 'b');
    assert_eq!(old.index, new.index, "the cell is used again");
    assert!(store.get(old).is_none() && store.get_mut(old).is_none());
    assert_eq!(store.get(new).unwrap().value, 'b');
}

/// `count` pages, all full.
fn full(count: usize) -> (Store<()>, Vec<Key>) {
    let mut store = Store::new();
    let keys = (0..count * PAGE).map(|_| store.insert(Tick(1), NIL, ())).collect();
    (store, keys)
}

fn page_of(key: Key) -> usize {
    key.index as usize / PAGE
}

#[test]
fn the_lowest_page_with_room_takes_what_comes_next() {
    let (mut store, keys) = full(100);
    store.take(keys[70 * PAGE]).unwrap();
    assert_eq!(page_of(store.insert(Tick(1), NIL, ())), 70);
    assert_eq!(page_of(store.insert(Tick(1), NIL, ())), 100);
    store.check();
}

#[test]
fn an_empty_page_is_given_back_where_a_lower_one_has_room_though_it_took_the_last_inserts() {
    let (mut store, keys) = full(4);
    let last = store.insert(Tick(1), NIL, ());
    assert_eq!(page_of(last), 4);
    store.take(keys[0]).unwrap();
    store.take(last).unwrap();
    store.check();
    assert_eq!(store.capacity(), 4 * PAGE);
    assert_eq!(page_of(store.insert(Tick(1), NIL, ())), 0);
}

#[test]
fn the_table_of_pages_shrinks_by_halves_and_grows_again() {
    let (mut store, mut keys) = full(1_024);
    let mut shrink_to = |store: &mut Store<()>, pages: usize| {
        for key in keys.drain(pages * PAGE..).rev() {
            store.take(key).unwrap();
        }
        store.check();
    };
    shrink_to(&mut store, 400);
    assert!(store.pages.capacity() >= 1_024, "not before three quarters are unused");
    shrink_to(&mut store, 250);
    assert!((400..1_024).contains(&store.pages.capacity()), "{}", store.pages.capacity());
    shrink_to(&mut store, 0);
    assert!(store.pages.len() <= 2 && store.open.len() == 1 && store.pages.capacity() <= 64);
    let pages = (0..3 * PAGE).map(|_| page_of(store.insert(Tick(1), NIL, ())));
    assert_eq!(pages.max(), Some(2));
    store.check();
}

#[test]
fn room_that_was_reserved_stays_until_it_is_given_back() {
    const ROOM: usize = 5 * PAGE;
    let mut store = Store::new();
    store.reserve(ROOM - 1);
    assert_eq!(store.capacity(), ROOM);
    let keys: Vec<Key> = (0..2 * ROOM).map(|n| store.insert(Tick(1), NIL, n)).collect();
    for &key in &keys[1..] {
        store.take(key).unwrap();
    }
    assert_eq!(store.capacity(), ROOM);
    store.clear();
    store.check();
    assert!(store.capacity() == ROOM && store.len() == 0 && store.get(keys[0]).is_none());
    let kept = store.insert(Tick(1), NIL, 7);
    store.shrink();
    store.check();
    assert!(store.capacity() == PAGE && store.get(kept).is_some());
    store.take(kept).unwrap();
    store.shrink();
    assert_eq!(store.capacity(), 0);
    assert_eq!(page_of(store.insert(Tick(1), NIL, 8)), 0);
}

#[test]
fn a_page_that_has_just_filled_up_is_not_open_when_the_others_are_given_back() {
    let (mut store, keys) = full(2);
    store.take(keys[0]).unwrap();
    store.shrink();
    store.check();
    store.insert(Tick(1), NIL, ());
    store.shrink();
    store.check();
    assert_eq!(page_of(store.insert(Tick(1), NIL, ())), 2);
}

#[test]
fn much_room_is_reserved_at_once_and_not_written() {
    let mut store = Store::<u64>::new();
    store.reserve(20_000_000);
    assert!(store.capacity() >= 20_000_000 && store.pages.len() == 1, "{} pages", store.pages.len());
    for n in 1..=1_000 {
        store.reserve(20_000_000 + n);
        store.insert(Tick(1), NIL, 0);
    }
    store.check();
    assert_eq!(store.pages.len(), 1_000_usize.div_ceil(PAGE));
    store.clear();
    assert!(store.capacity() >= 20_000_000 && store.pages.len() == 1);
}

#[test]
fn a_copy_has_pages_of_the_same_size() {
    let (mut store, keys) = full(2);
    store.take(keys[7]).unwrap();
    let mut copy = store.clone();
    copy.check();
    assert_eq!(page_of(copy.insert(Tick(1), NIL, ())), 0);
    assert_eq!(page_of(copy.insert(Tick(1), NIL, ())), 2);
    copy.check();
}

#[test]
fn what_was_not_reserved_is_not_kept() {
    let (mut store, _) = full(3);
    store.clear();
    assert_eq!((store.capacity(), store.len()), (0, 0));
    assert_eq!(Store::<()>::new().capacity(), 0);
    assert_eq!(MOST, (1 << 32) - 128);
}
