//! Scheme 7: wheels with coarser and coarser slots, like seconds, minutes, hours and days. A timer starts on the wheel of
//! the highest digit in which its deadline differs from the current time, and moves down when time reaches that digit.
//!
//! This is the plain scheme: every tick visits its slot on the lowest wheel, even if it is empty.

use super::lists::Lists;
use super::{SLOTS, Scheme};

const LEVELS: u32 = 4;
/// Each level has 64 slots, so its digit has six bits.
const DIGIT: u32 = 6;
const LEVEL_SLOTS: u32 = SLOTS / LEVELS;

#[derive(Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

#[derive(Default)]
pub(crate) struct Hierarchical {
    now: u64,
    lists: Lists<Timer, SLOTS>,
}

impl Hierarchical {
    /// The list for a deadline at the current time.
    fn list_of(&self, deadline: u64) -> u32 {
        let differ = (deadline ^ self.now) | u64::from(LEVEL_SLOTS - 1);
        // No interval is longer than a turn of the highest wheel, so a deadline beyond its end can wrap around.
        let level = (differ.ilog2() / DIGIT).min(LEVELS - 1);
        Self::list_on(level, deadline)
    }

    /// The list for `tick` on a level.
    fn list_on(level: u32, tick: u64) -> u32 {
        level * LEVEL_SLOTS + (tick >> (level * DIGIT)) as u32 % LEVEL_SLOTS
    }
}

impl Scheme for Hierarchical {
    const NAME: &'static str = "7 hierarchical";
    const LONGEST: u32 = (1 << (LEVELS * DIGIT)) - 1;
    type Handle = u32;

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        self.lists.insert_before(self.list_of(deadline), Timer { deadline, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        // If the lower digits are all zero, a higher one has advanced. Only the highest digit that advanced can have
        // timers in its new slot: the levels below it are at slot 0, and their timers are in later slots.
        let level = (self.now.trailing_zeros() / DIGIT).min(LEVELS - 1);
        if level > 0 {
            let reached = Self::list_on(level, self.now);
            while let Some(index) = self.lists.after(reached) {
                let deadline = self.lists.get(index).deadline;
                self.lists.move_to(self.list_of(deadline), index);
            }
        }
        let due = Self::list_on(0, self.now);
        while let Some(index) = self.lists.after(due) {
            fired(self.lists.remove(index).id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::compare_with_a_map;

    #[test]
    fn the_highest_wheel_wraps_around() {
        let turn = u64::from(Hierarchical::LONGEST) + 1;
        for before in [1, 63, 64, 65, 4_096, 5_000] {
            compare_with_a_map(Hierarchical { now: turn - before, ..Hierarchical::default() }, before, 20_000);
        }
    }
}
