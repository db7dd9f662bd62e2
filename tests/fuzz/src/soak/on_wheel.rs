//! The wheel itself, driven as a timer drives it: to the next expiration that it reports, then until it is done.

use hairspring::wheel::{Step, Tick, Wheel};

use super::Rig;

pub(super) struct OnWheel {
    wheel: Wheel<usize>,
}

impl OnWheel {
    pub(super) fn new(start: u64) -> OnWheel {
        OnWheel { wheel: Wheel::starting_at(Tick::from(start)) }
    }
}

impl Rig for OnWheel {
    fn arm(&mut self, timer: usize, deadline: u64) {
        self.wheel.insert(Tick::from(deadline), timer);
    }

    fn now(&self) -> u64 {
        self.wheel.elapsed().into()
    }

    fn advance(&mut self, limit: u64, fired: &mut Vec<(usize, u64)>) {
        loop {
            let now = self.wheel.next_expiration().unwrap_or(Tick::MAX).min(Tick::from(limit));
            loop {
                match self.wheel.step(now) {
                    Step::Fired { value, .. } => fired.push((value, now.into())),
                    Step::Done => break,
                    _ => {}
                }
            }
            if !fired.is_empty() || now == Tick::from(limit) {
                return;
            }
        }
    }
}
