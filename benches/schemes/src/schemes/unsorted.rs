//! Scheme 1: all timers in one list, in no order. A tick counts every one of them down.
//!
//! Scheme 6: as scheme 5, but the timers of a slot are in no order and carry the number of rounds that the wheel has
//! still to make. Starting one is a push; a tick counts down every timer of one slot.

use super::Scheme;
use super::lists::Lists;

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    rounds: u32,
    id: u32,
}

/// Scheme 1 is a wheel of a single slot.
pub(crate) struct Unsorted<const SLOTS: u32> {
    /// The slot of the present tick.
    now: u32,
    lists: Lists<Timer>,
    touched: u64,
}

impl<const SLOTS: u32> Scheme for Unsorted<SLOTS> {
    const NAME: &'static str = if SLOTS == 1 { "1 unordered list" } else { "6 hashed, unsorted" };
    type Handle = u32;

    fn new() -> Self {
        Unsorted { now: 0, lists: Lists::new(SLOTS), touched: 0 }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        // The wheel comes to the slot for the first time within one turn, so an interval of one whole turn waits for
        // no further one.
        let rounds = (interval - 1) / SLOTS;
        self.lists.push_back((self.now + interval % SLOTS) % SLOTS, Timer { rounds, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now = (self.now + 1) % SLOTS;
        let mut at = self.lists.first(self.now);
        while let Some(index) = at {
            at = self.lists.after(index);
            let timer = self.lists.get_mut(index);
            if timer.rounds == 0 {
                fired(self.lists.remove(index).id);
            } else {
                timer.rounds -= 1;
                self.touched += 1;
            }
        }
    }

    fn touched(&self) -> u64 {
        self.touched
    }
}
