//! Manual clocks that start at a chosen tick.

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer};

use crate::common::{Random, YEAR};

/// The last tick that a clock shows. Timers that are due later wait forever.
pub(crate) const LAST: u64 = u64::MAX - 1;

/// A clock at a tick, and the instant of tick zero.
pub(crate) fn clock_at(start: u64) -> (ManualClock, Instant) {
    let clock = ManualClock::new();
    let timer = Timer::builder().clock(&clock).shards(1).build().expect("good settings");
    // Earlier instants saturate at the first tick.
    let origin = timer.sleep_until(clock.now() - 100 * YEAR).deadline();
    timer.shutdown();
    let now = u64::try_from((clock.now() - origin).as_nanos()).expect("there are 584 years");
    clock.advance(Duration::from_nanos(start - now));
    (clock, origin)
}

/// Two clocks that show the same time, and a timer on each.
pub(crate) fn two_clocks() -> ([ManualClock; 2], [Timer; 2]) {
    let clocks = [ManualClock::new(), ManualClock::new()];
    clocks[0].advance(clocks[1].now() - clocks[0].now());
    let timers = clocks.each_ref().map(|clock| Timer::builder().clock(clock).shards(1).build().expect("good settings"));
    (clocks, timers)
}

/// A random tick, usually shortly before a multiple of a power of 64. It is later than the present, which is 50 years
/// after tick zero and the earliest time that a manual clock shows, by less than `spans` times 36 years (64^10 ns).
pub(crate) fn far_start(random: &mut Random, spans: u64) -> u64 {
    let from = 2_u64 << 60;
    let start = match random.below(8) {
        0 | 1 => from + (random.below(spans) << 60),
        2..=6 => from + ((1 + random.below(1 << 30)) << (6 * random.below(6))),
        _ => from + random.up_to_bits(61),
    };
    start - random.up_to_bits(40)
}

/// A timer on a clock that starts at a random tick, with that tick.
pub(crate) fn far_timer(random: &mut Random) -> (u64, ManualClock, Timer) {
    let start = far_start(random, 4);
    let (clock, _) = clock_at(start);
    let timer = Timer::builder().clock(&clock).build().expect("good settings");
    (start, clock, timer)
}

/// Whether a clock has stopped for the first of some entries, and not for one that is gone or postponed. If there are
/// many, it may stop earlier, because the wheel knows only the slot of the first. If the poller is awake, it may stop
/// later or not at all.
pub(crate) fn in_time(reached: Option<Instant>, first: Option<Instant>, entries: usize, asleep: bool) -> bool {
    let early = entries > 16 && reached.is_some() && reached < first;
    let late = !asleep && reached.is_none_or(|reached| first.is_some_and(|first| first < reached));
    reached == first || early || late
}
