//! Scheme 3: a balanced tree, here the standard library's `BTreeMap`. The key is the deadline and a serial number that
//! distinguishes timers with the same deadline. (A binary heap would need an index to remove a timer from its middle.)

use std::collections::BTreeMap;

use super::Scheme;

#[derive(Default)]
pub(crate) struct Tree {
    now: u64,
    started: u64,
    timers: BTreeMap<(u64, u64), u32>,
}

impl Scheme for Tree {
    const NAME: &'static str = "3 tree";
    type Handle = (u64, u64);

    fn start(&mut self, interval: u32, id: u32) -> (u64, u64) {
        self.started += 1;
        let key = (self.now + u64::from(interval), self.started);
        self.timers.insert(key, id);
        key
    }

    fn stop(&mut self, handle: (u64, u64)) {
        self.timers.remove(&handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        self.now += 1;
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 == self.now) {
            fired(first.remove());
        }
    }
}
