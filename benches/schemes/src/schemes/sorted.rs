//! Scheme 2: one list, ordered by deadline. A start searches from the front, as in the paper; a tick checks the first
//! timer.
//!
//! Scheme 5: a hashed wheel. The slot is the deadline modulo the number of slots, so timers of different turns share it.
//! Each slot is an ordered list. A start searches one slot; a tick checks the first timer of one slot.

use super::Scheme;
use super::lists::Lists;

#[derive(Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

/// Scheme 2 is a wheel with a single slot.
#[derive(Default)]
pub(crate) struct Sorted<const SLOTS: u32> {
    now: u64,
    lists: Lists<Timer, SLOTS>,
}

impl<const SLOTS: u32> Scheme for Sorted<SLOTS> {
    const NAME: &'static str = if SLOTS == 1 { "2 ordered list" } else { "5 hashed, sorted" };
    // A start in the ordered list passes half of all timers.
    const LARGEST: u32 = if SLOTS == 1 { 10_000 } else { u32::MAX };
    type Handle = u32;

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        let slot = (deadline % u64::from(SLOTS)) as u32;
        let mut place = self.lists.after(slot);
        while let Some(index) = place.filter(|&index| self.lists.get(index).deadline <= deadline) {
            place = self.lists.after(index);
        }
        self.lists.insert_before(place.unwrap_or(slot), Timer { deadline, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        let slot = (self.now % u64::from(SLOTS)) as u32;
        while let Some(index) = self.lists.after(slot).filter(|&index| self.lists.get(index).deadline == self.now) {
            fired(self.lists.remove(index).id);
        }
    }
}
