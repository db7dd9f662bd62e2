use super::*;

fn insert<T>(store: &mut Store<T>, value: T) -> Key {
    let index = store.next_index();
    store.insert(index, Tick(1), At::alone(0), value)
}

#[test]
fn a_cell_with_a_waker_is_40_bytes() {
    assert!(size_of::<Cell<std::task::Waker>>() <= 40); // Fewer on systems of 32 bits.
}

#[test]
fn a_stale_key_finds_nothing_even_in_a_reused_cell() {
    let mut store = Store::new();
    let old = insert(&mut store, 'a');
    store.take(old).unwrap();
    let new = insert(&mut store, 'b');
    assert_eq!(old.index, new.index, "the cell is used again");
    assert!(store.get(old).is_none() && store.get_mut(old).is_none());
    assert_eq!(store.get(new).unwrap().value, 'b');
}
