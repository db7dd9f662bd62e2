//! This crate's wheel alone: no clock, no lock, no waker.

use std::hint::black_box;
use std::task::Context;
use std::time::Duration;

use hairspring::wheel::{Key, Tick, Wheel};

use crate::rival::Rival;

pub struct BareWheel {
    wheel: Box<Wheel<u64>>,
}

impl Rival for BareWheel {
    const NAME: &str = "floor: bare wheel";
    type Armed = Key;

    fn new() -> Self {
        BareWheel { wheel: Box::default() }
    }

    #[inline]
    fn arm(&mut self, duration: Duration, _cx: &mut Context<'_>) -> Key {
        // Without the 128 bits of `as_nanos`.
        let nanos = duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos());
        self.wheel.insert(Tick(nanos), nanos)
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        black_box(self.wheel.remove(key));
    }
}
