//! Scheme 5: a wheel on which intervals may reach round many times. The deadline modulo the number of slots says the
//! slot, whose timers are sorted: starting one searches its slot, a tick looks at the first of one slot.

use super::lists::Lists;
use super::{SLOTS, Scheme};

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

pub(crate) struct HashedSorted {
    now: u64,
    lists: Lists<Timer>,
}

fn slot_of(deadline: u64) -> u32 {
    (deadline % u64::from(SLOTS)) as u32
}

impl Scheme for HashedSorted {
    const NAME: &'static str = "5 hashed, sorted";
    const LONGEST: u32 = u32::MAX;
    type Handle = u32;

    fn new() -> Self {
        HashedSorted { now: 0, lists: Lists::new(SLOTS) }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        self.lists.insert_sorted(slot_of(deadline), Timer { deadline, id }, |timer| timer.deadline > deadline)
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        let slot = slot_of(self.now);
        while let Some(index) = self.lists.first(slot).filter(|&index| self.lists.get(index).deadline == self.now) {
            fired(self.lists.remove(index).id);
        }
    }
}
