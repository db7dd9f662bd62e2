//! Manual clocks, some of which start at a chosen tick, and polls within a task.

use hairspring::test_util::ManualClock;
use hairspring::{Duration, Instant, Timer};
use tokio::runtime::Runtime;
use tokio::task::yield_now;

use crate::common::{Random, YEAR, panicked_with, spend_the_budget};

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

/// What a poll within a task returns, unless it panics. The task's budget may be spent before.
pub(crate) fn polled_in_task<T>(runtime: &Runtime, is_spent: bool, poll: impl FnOnce() -> T) -> Option<T> {
    runtime.block_on(async {
        if is_spent {
            spend_the_budget();
        }
        let polled = panicked_with(poll).ok();
        // A task without budget is woken later.
        yield_now().await;
        polled
    })
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

/// A clock that starts at a random tick, and a timer on it, which may have a resolution.
pub(crate) struct Far {
    pub(crate) clock: ManualClock,
    pub(crate) timer: Timer,
    pub(crate) start: u64,
    origin: Instant,
    /// In nanoseconds, and 1 if there is none.
    pub(crate) resolution: u64,
}

impl Far {
    pub(crate) fn new(random: &mut Random) -> Far {
        let (start, resolution) = (far_start(random, 4), random.pick(&[1, 1, 1, 1_000, 700_000, 1_000_000_000]));
        let (clock, origin) = clock_at(start);
        let builder = Timer::builder().clock(&clock);
        let limited = || builder.clone().resolution(Duration::from_nanos(resolution));
        let timer = if resolution > 1 { limited() } else { builder.clone() }.build().expect("good settings");
        Far { clock, timer, start, origin, resolution }
    }

    /// When a task that waits for this instant is woken.
    pub(crate) fn wakes_at(&self, instant: Instant) -> Instant {
        let nanos = u64::try_from((instant - self.origin).as_nanos()).expect("there are 584 years");
        self.origin + Duration::from_nanos(nanos.next_multiple_of(self.resolution))
    }
}

/// Whether a clock has stopped for the first of some entries, and not for one that is gone or postponed. If there are
/// many, it may stop earlier, because the wheel knows only the slot of the first. If the poller is awake, it may stop
/// later or not at all, or for an entry that came out when it was due, before the multiple of the resolution.
pub(crate) fn in_time(
    far: &Far,
    before: Instant,
    reached: Option<Instant>,
    first: Option<Instant>,
    entries: usize,
    asleep: bool,
) -> bool {
    let is_multiple = reached.is_none_or(|reached| reached == before || reached == far.wakes_at(reached));
    let early = entries > 16 && reached.is_some() && reached < first;
    let late = !asleep && reached.is_none_or(|reached| first.is_some_and(|first| first < reached));
    let came_out = !asleep && far.resolution > 1 && reached.is_some_and(|reached| reached == far.wakes_at(before));
    is_multiple && (reached == first || early || late || came_out)
}
