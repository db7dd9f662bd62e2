//! The crate's own wheel: scheme 7, except that bitmaps make empty slots free, keys detect stale handles, deadlines span
//! all of `u64`, timers of one tick fire in the order of insertion, and work can be interrupted.

use hairspring::wheel::{Key, Step, Ticks, Wheel};

use super::Scheme;

impl Scheme for Wheel<u32> {
    const NAME: &'static str = "8 hairspring's wheel";
    type Handle = Key;

    fn start(&mut self, interval: u32, id: u32) -> Key {
        self.insert(self.elapsed() + Ticks::from(u64::from(interval)), id)
    }

    fn stop(&mut self, handle: Key) {
        self.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        let now = self.elapsed() + Ticks::from(1);
        loop {
            match self.step(now) {
                Step::Fired { value, .. } => fired(value),
                Step::Done => return,
                _ => {}
            }
        }
    }
}
