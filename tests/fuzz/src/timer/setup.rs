//! What a timer is built with, each that follows another like the first.
//!
//! Must not know: the model.

use std::fmt;

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Timer};

use crate::random::Random;

#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    /// In nanoseconds; 1 for none.
    resolution: u64,
    /// How many sleeps may wait, if that is limited.
    pub(super) capacity: Option<usize>,
}

impl Setup {
    pub(super) fn random(random: &mut Random, slots: usize) -> Setup {
        let resolution = random.pick(&[1, 1, 1, 1_000, 1_024, 700_000, 1_000_000, 1 << 29, 1_000_000_000]);
        // Few as often as many, and fewer than slots, so that some sleep is one too many.
        let bits = u64::from(slots.ilog2());
        let capacity = random.one_in(2).then(|| usize::try_from(random.up_to_bits(bits)).expect("few").max(1));
        Setup { resolution, capacity }
    }

    pub(super) fn build(self, clock: &ManualClock) -> Timer {
        // All of a timer on a manual clock is in one shard.
        let mut builder = Timer::builder().clock(clock).shards(1);
        if self.resolution > 1 {
            builder = builder.resolution(Duration::from_nanos(self.resolution));
        }
        if let Some(capacity) = self.capacity {
            builder = builder.capacity(capacity);
        }
        builder.build().expect("good settings")
    }

    /// The multiple of the resolution that a deadline falls to: at it or after; never if there is none.
    pub(super) fn expiry(self, deadline: u64) -> u64 {
        deadline.checked_next_multiple_of(self.resolution).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { resolution, capacity } = self;
        write!(f, "resolution of {resolution} ns, a capacity of {capacity:?}")
    }
}
