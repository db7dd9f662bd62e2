//! The crate's own wheel: scheme 7 with bitmaps, so that an empty slot costs nothing, keys that refuse a stale handle,
//! all of `u64` for a range, timers of one tick first in first out, and work that can be interrupted.

use hairspring::wheel::{Key, Step, Tick, Ticks, Wheel};

use super::Scheme;

impl Scheme for Wheel<u32> {
    const NAME: &'static str = "8 hairspring's wheel";
    type Handle = Key;

    fn new() -> Self {
        Wheel::new()
    }

    fn start(&mut self, interval: u32, id: u32) -> Key {
        self.insert(self.elapsed() + Ticks(interval.into()), id)
    }

    fn stop(&mut self, handle: Key) {
        self.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        let now = Tick(self.elapsed().0 + 1);
        loop {
            match self.step(now) {
                Step::Fired { value, .. } => fired(value),
                Step::Done => return,
                _ => {}
            }
        }
    }

    fn touched(&self) -> u64 {
        self.cascaded()
    }
}
