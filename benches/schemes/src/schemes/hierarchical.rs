//! Scheme 7: wheels of coarser and coarser slots, as days, hours, minutes and seconds. A timer begins on the wheel of
//! the highest digit in which its deadline differs from the present, and moves down when that digit is reached.
//!
//! This is the plain scheme: every tick visits its slot of the lowest wheel, empty or not.

use super::lists::Lists;
use super::{SLOTS, Scheme};

pub(crate) const LEVELS: u32 = 4;
/// Each level has 64 slots, so a level's digit has six bits.
const DIGIT: u32 = 6;
const LEVEL_SLOTS: u32 = 1 << DIGIT;
const _: () = assert!(LEVELS * LEVEL_SLOTS == SLOTS);

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

pub(crate) struct Hierarchical {
    now: u64,
    lists: Lists<Timer>,
    touched: u64,
}

impl Hierarchical {
    /// The list in which a deadline belongs, as seen from now.
    fn list_of(&self, deadline: u64) -> u32 {
        let differ = (deadline ^ self.now) | u64::from(LEVEL_SLOTS - 1);
        // A deadline beyond the end of the highest wheel wraps round it: no interval is longer than one of its turns.
        let level = (differ.ilog2() / DIGIT).min(LEVELS - 1);
        Self::list_on(level, deadline)
    }

    /// The list of `tick` on a level.
    fn list_on(level: u32, tick: u64) -> u32 {
        level * LEVEL_SLOTS + (tick >> (level * DIGIT)) as u32 % LEVEL_SLOTS
    }
}

impl Scheme for Hierarchical {
    const NAME: &'static str = "7 hierarchical";
    const LONGEST: u32 = (1 << (LEVELS * DIGIT)) - 1;
    type Handle = u32;

    fn new() -> Self {
        Hierarchical { now: 0, lists: Lists::new(SLOTS), touched: 0 }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        self.lists.push_back(self.list_of(deadline), Timer { deadline, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        // Where the lower digits are all zero, a higher one has moved on. Only the highest such one can have timers in
        // its new slot: those of the levels below it lie, by their digit, behind the slot 0 that has just come.
        let level = (self.now.trailing_zeros() / DIGIT).min(LEVELS - 1);
        if level > 0 {
            let reached = Self::list_on(level, self.now);
            while let Some(index) = self.lists.first(reached) {
                let to = self.list_of(self.lists.get(index).deadline);
                self.lists.move_to(to, index);
                self.touched += 1;
            }
        }
        let due = Self::list_on(0, self.now);
        while let Some(index) = self.lists.first(due) {
            fired(self.lists.remove(index).id);
        }
    }

    fn touched(&self) -> u64 {
        self.touched
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    #[test]
    fn the_highest_wheel_wraps_round() {
        let turn = u64::from(Hierarchical::LONGEST) + 1;
        for before in [1, 63, 64, 65, 4_096, 5_000] {
            model::hold(Hierarchical { now: turn - before, ..Hierarchical::new() }, before, 20_000);
        }
    }
}
