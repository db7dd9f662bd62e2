//! Keeps a closure for a map from using that map: its thread holds the lock of a shard.
//
// Invariants
// 1. While a thread runs a closure for a map, `INNERMOST` or `OUTER` names that map, and the thread locks no shard of
//    it: two threads in two shards could wait for each other.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

thread_local! {
    /// The map that runs a closure on this thread, the innermost if there are several; zero for none.
    static INNERMOST: Cell<usize> = const { Cell::new(0) };
    /// The other maps: a closure may use another map. This has no destructor, because those of a thread may use maps.
    /// It is empty by then, and owns no memory.
    static OUTER: RefCell<ManuallyDrop<Vec<usize>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

pub(super) struct Inside {
    outer: usize,
}

/// Whether this thread runs a closure for this map.
// Three instructions if no closure runs.
#[inline]
pub(super) fn is_inside(map: usize) -> bool {
    INNERMOST.get() != 0 && is_any(map)
}

#[cold]
fn is_any(map: usize) -> bool {
    INNERMOST.get() == map || OUTER.with_borrow(|others| others.contains(&map))
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
            OUTER.with_borrow_mut(|others| {
                others.pop();
                if others.is_empty() {
                    **others = Vec::new();
                }
            });
        }
    }
}
