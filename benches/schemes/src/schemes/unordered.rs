//! Scheme 1: all timers in one list, in no order. A tick counts every one of them down.

use super::Scheme;
use super::lists::Lists;

#[derive(Debug, Default, Clone, Copy)]
struct Timer {
    left: u32,
    id: u32,
}

pub(crate) struct Unordered {
    lists: Lists<Timer>,
}

impl Scheme for Unordered {
    const NAME: &'static str = "1 unordered list";
    const LONGEST: u32 = u32::MAX;
    type Handle = u32;

    fn new() -> Self {
        Unordered { lists: Lists::new(1) }
    }

    fn start(&mut self, interval: u32, id: u32) -> u32 {
        self.lists.push_back(0, Timer { left: interval, id })
    }

    fn stop(&mut self, handle: u32) {
        self.lists.remove(handle);
    }

    fn per_tick(&mut self, fired: &mut impl FnMut(u32)) {
        let mut at = self.lists.first(0);
        while let Some(index) = at {
            at = self.lists.after(index);
            let timer = self.lists.get_mut(index);
            timer.left -= 1;
            if timer.left == 0 {
                fired(self.lists.remove(index).id);
            }
        }
    }
}
