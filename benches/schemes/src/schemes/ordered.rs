//! Scheme 2: all timers in one list, the earliest first. Starting one searches for its place from the front, as in the
//! paper; a tick looks at the first.

use super::Scheme;
use super::lists::Lists;

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    deadline: u64,
    id: u32,
}

pub(crate) struct Ordered {
    now: u64,
    lists: Lists<Timer>,
}

impl Scheme for Ordered {
    const NAME: &'static str = "2 ordered list";
    const LONGEST: u32 = u32::MAX;
    type Handle = u32;

    fn new() -> Self {
        Ordered { now: 0, lists: Lists::new(1) }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        let deadline = self.now + u64::from(interval);
        self.lists.insert_sorted(0, Timer { deadline, id }, |timer| timer.deadline > deadline)
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        while let Some(index) = self.lists.first(0).filter(|&index| self.lists.get(index).deadline == self.now) {
            fired(self.lists.remove(index).id);
        }
    }
}
