//! Scheme 4: a wheel with one slot per tick. It needs as many slots as the longest interval has ticks.

use super::Scheme;
use super::lists::Lists;

const SLOTS: u32 = 1 << 16;

#[derive(Default)]
pub(crate) struct SimpleWheel {
    /// The slot of the current tick.
    now: u32,
    lists: Lists<u32, SLOTS>,
}

impl Scheme for SimpleWheel {
    const NAME: &'static str = "4 simple wheel";
    const LONGEST: u32 = SLOTS - 1;
    type Handle = u32;

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        self.lists.insert_before((self.now + interval) % SLOTS, id)
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now = (self.now + 1) % SLOTS;
        while let Some(index) = self.lists.after(self.now) {
            fired(self.lists.remove(index));
        }
    }
}
