//! [`Inside`]: finds that a closure uses the map whose lock is held around it.
//
// Invariants
// 1. While a thread runs a closure for a map, `INNERMOST` or `OUTER` names that map.
// 2. It then takes no lock of that map, whichever shard it is of: two threads that did this in two shards would wait
//    for each other.

use std::cell::{Cell, RefCell};

thread_local! {
    /// The map that runs a closure on this thread, the innermost if there are several; zero for none.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
    /// The others: a closure may use another map.
    static OUTER: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// This thread runs a closure for a map, until this is dropped.
pub(super) struct Inside {
    outer: usize,
}

/// Checks that this thread may lock a shard of the map.
///
/// # Panics
/// If it runs a closure for this map.
// Three instructions, as long as no closure runs.
#[inline]
pub(super) fn check(map: usize) {
    if INNERMOST.get() != 0 {
        check_all(map);
    }
}

#[cold]
fn check_all(map: usize) {
    let is_inside = map == INNERMOST.get() || OUTER.with_borrow(|others| others.contains(&map));
    assert!(!is_inside, "a closure that a `DeadlineMap` runs used the same map, which is locked meanwhile");
}

impl Inside {
    /// Called under the lock of one of the map's shards.
    #[inline]
    pub(super) fn enter(map: usize) -> Inside {
        let outer = INNERMOST.replace(map);
        if outer != 0 {
            OUTER.with_borrow_mut(|others| others.push(outer));
        }
        Inside { outer }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
        if self.outer != 0 {
            OUTER.with_borrow_mut(Vec::pop);
        }
    }
}
