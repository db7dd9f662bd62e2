//! [`Jumping`]: the clocks that jump, because the machine has slept or because somebody has set them.
//!
//! Between two jumps such a clock runs with the monotonic one, which the timers use.
//
// Invariants
// 1. While the monotonic clock is the system's, a reading is the system's too.
// 2. While a test holds the monotonic clock, a reading moves only with that clock and with what the test does to it.

use std::sync::LazyLock;
use std::time::SystemTime;

use super::reading::Reading;
use super::source::system_now;
use crate::seam;
use crate::wheel::Tick;

/// A clock that jumps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jumping {
    /// Goes on while the machine sleeps, if the system has such a clock.
    Boot,
    /// The time of day, which may be set.
    Wall,
}

impl Jumping {
    /// The reading on the current runtime.
    pub(crate) fn now(self) -> Reading {
        self.read(super::now).1
    }

    /// The tick that `now` reads, and the reading just after that.
    pub(crate) fn read(self, now: impl FnOnce() -> Tick) -> (Tick, Reading) {
        let before = system_now();
        let tick = now();
        let system = self.system();
        let is_the_systems = before <= tick && tick <= system_now();
        let reading = if is_the_systems { system } else { held().of(self) + i128::from(tick.0) };
        (tick, Reading(reading.saturating_add(seam::ahead(self))))
    }

    /// The system's reading.
    fn system(self) -> i128 {
        match self {
            Jumping::Boot => system_boot(),
            Jumping::Wall => Reading::of(SystemTime::now()).0,
        }
    }
}

#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
fn system_boot() -> i128 {
    use rustix::time::{ClockId, clock_gettime};

    // On Apple's systems this one goes on, and that of the standard library stands still.
    #[cfg(target_vendor = "apple")]
    let clock = ClockId::Monotonic;
    #[cfg(not(target_vendor = "apple"))]
    let clock = ClockId::Boottime;
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

#[cfg(not(any(target_os = "android", target_os = "linux", target_vendor = "apple")))]
fn system_boot() -> i128 {
    i128::from(system_now().0)
}

/// How far the clocks are ahead of the monotonic clock's ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets {
    boot: i128,
    wall: i128,
}

/// The offsets that apply while a test holds the monotonic clock: those of the first reading then.
fn held() -> &'static Offsets {
    static HELD: LazyLock<Offsets> = LazyLock::new(Offsets::now);
    &HELD
}

impl Offsets {
    /// The difference that counts as a jump. Less may come from the time between two readings.
    const LEAST_JUMP: i128 = 1_000_000;

    /// The system's. They may be too large by the time that passes between two readings.
    pub(crate) fn now() -> Offsets {
        let ahead = |clock: Jumping| {
            let tick = system_now();
            clock.system() - i128::from(tick.0)
        };
        Offsets { boot: ahead(Jumping::Boot), wall: ahead(Jumping::Wall) }
    }

    fn of(self, clock: Jumping) -> i128 {
        match clock {
            Jumping::Boot => self.boot,
            Jumping::Wall => self.wall,
        }
    }

    /// Whether a clock has jumped between `earlier` and these.
    pub(crate) fn differ_from(self, earlier: Offsets) -> bool {
        [Jumping::Boot, Jumping::Wall]
            .into_iter()
            .any(|clock| (self.of(clock) - earlier.of(clock)).abs() > Offsets::LEAST_JUMP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_jump_of_either_clock_is_seen_and_the_time_between_two_readings_is_not() {
        let before = Offsets { boot: 5_000_000, wall: -7_000_000 };
        assert!(!before.differ_from(before));
        assert!(!Offsets { boot: before.boot + 900_000, wall: before.wall - 900_000 }.differ_from(before));
        assert!(Offsets { boot: before.boot + 2_000_000, ..before }.differ_from(before), "the machine has slept");
        assert!(Offsets { wall: before.wall - 2_000_000, ..before }.differ_from(before), "it was set back");
    }

    #[test]
    fn a_held_clock_reads_the_same_until_it_is_moved() {
        let shown = Tick(system_now().0 / 2);
        for clock in [Jumping::Boot, Jumping::Wall] {
            let (tick, first) = clock.read(|| shown);
            assert_eq!((tick, first), clock.read(|| shown));
            assert_eq!(clock.read(|| Tick(shown.0 + 1)).1, first.after(Duration::from_nanos(1)));
        }
    }
}
