//! Scheme 1: one list, not ordered. A tick counts down every timer.
//!
//! Scheme 6: a hashed wheel as in scheme 5, except that slots are not ordered, and each timer holds the number of turns
//! that the wheel still has to make. A start appends to a slot; a tick counts down every timer of one slot.

use super::Scheme;
use super::lists::Lists;

#[derive(Default, Clone, Copy)]
struct Timer {
    turns: u32,
    id: u32,
}

/// Scheme 1 is a wheel with a single slot.
#[derive(Default)]
pub(crate) struct Unsorted<const SLOTS: u32> {
    /// The slot of the current tick.
    now: u32,
    lists: Lists<Timer, SLOTS>,
}

impl<const SLOTS: u32> Scheme for Unsorted<SLOTS> {
    const NAME: &'static str = if SLOTS == 1 { "1 unordered list" } else { "6 hashed, unsorted" };
    type Handle = u32;

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        // The wheel first reaches the slot within one turn, so an interval of exactly one turn needs no further turn.
        let turns = (interval - 1) / SLOTS;
        self.lists.insert_before((self.now + interval % SLOTS) % SLOTS, Timer { turns, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now = (self.now + 1) % SLOTS;
        let mut at = self.lists.after(self.now);
        while let Some(index) = at {
            at = self.lists.after(index);
            let timer = self.lists.get(index);
            if timer.turns == 0 {
                fired(self.lists.remove(index).id);
            } else {
                timer.turns -= 1;
            }
        }
    }
}
