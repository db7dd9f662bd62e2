//! Manual clocks that begin at a tick of the fuzzer's choice, so that a seed says all; and wakers that count.
//!
//! Must not know: what they are for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer};

use crate::random::Random;

/// The last tick that a clock shows. What is to fire at the one after it waits for ever.
pub(crate) const LAST: u64 = u64::MAX - 1;

/// A clock at a tick, and the instant of tick zero.
pub(crate) fn clock_at(start: u64) -> (ManualClock, Instant) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).shards(1).build().expect("good settings");
    // Instants before the first tick are taken for it.
    let origin = timer.sleep_until(clock.now() - Duration::from_secs(100 * 365 * 86_400)).deadline();
    timer.shutdown();
    let now = u64::try_from((clock.now() - origin).as_nanos()).expect("there are 584 years");
    clock.advance(Duration::from_nanos(start - now));
    (clock, origin)
}

/// A tick in this century or the next, most often just before a power of 64 has a multiple. No manual clock can show
/// what has passed: the first is 50 years after tick zero, and 64^10 ns are some 36 years.
pub(crate) fn far_start(random: &mut Random) -> u64 {
    let from = 2_u64 << 60;
    let start = match random.below(8) {
        0 | 1 => from + (random.below(4) << 60),
        2..=6 => from + ((1 + random.below(1 << 30)) << (6 * random.below(6))),
        _ => from + random.up_to_bits(61),
    };
    start - random.up_to_bits(40)
}

/// Somebody who polls.
pub(crate) struct Poller {
    wakes: Arc<Wakes>,
    pub(crate) waker: Waker,
}

struct Wakes(AtomicUsize);

impl Poller {
    pub(crate) fn new() -> Poller {
        let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
        Poller { waker: Waker::from(wakes.clone()), wakes }
    }

    /// How often.
    pub(crate) fn woken(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}
