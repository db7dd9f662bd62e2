//! Scheme 2: all timers in one list, the earliest first. Starting one searches for its place from the front, as in the
//! paper; a tick looks at the first.
//!
//! Scheme 5: a wheel on which intervals may reach round many times. The deadline modulo the number of slots says the
//! slot, whose timers are sorted: starting one searches its slot, a tick looks at the first of one slot.

use super::Scheme;
use super::lists::Lists;

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

/// Scheme 2 is a wheel of a single slot.
pub(crate) struct Sorted<const SLOTS: u32> {
    now: u64,
    lists: Lists<Timer>,
}

impl<const SLOTS: u32> Scheme for Sorted<SLOTS> {
    const NAME: &'static str = if SLOTS == 1 { "2 ordered list" } else { "5 hashed, sorted" };
    type Handle = u32;

    fn new() -> Self {
        Sorted { now: 0, lists: Lists::new(SLOTS) }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        self.lists.insert_sorted((deadline % u64::from(SLOTS)) as u32, Timer { deadline, id }, |timer| {
            timer.deadline > deadline
        })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        let slot = (self.now % u64::from(SLOTS)) as u32;
        while let Some(index) = self.lists.first(slot).filter(|&index| self.lists.get(index).deadline == self.now) {
            fired(self.lists.remove(index).id);
        }
    }
}
