//! Scheme 4: a wheel of one slot a tick. No interval may reach round it, so it has as many slots as the longest
//! interval has ticks: that is its price.

use super::Scheme;
use super::lists::Lists;

const SLOTS: u32 = 1 << 16;

pub(crate) struct SimpleWheel {
    /// The slot of the present tick.
    now: u32,
    lists: Lists<u32>,
}

impl Scheme for SimpleWheel {
    const NAME: &'static str = "4 simple wheel";
    const LONGEST: u32 = SLOTS - 1;
    type Handle = u32;

    fn new() -> Self {
        SimpleWheel { now: 0, lists: Lists::new(SLOTS) }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        self.lists.push_back((self.now + interval) % SLOTS, id)
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now = (self.now + 1) % SLOTS;
        while let Some(index) = self.lists.first(self.now) {
            fired(self.lists.remove(index));
        }
    }
}
