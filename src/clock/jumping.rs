//! [`Jumping`]: clocks that jump when the machine has slept or when they are set. [`Reading`]: the time on such a
//! clock. [`Instant`]: a point in time on the clock that includes machine sleep.
//!
//! Between two jumps, such a clock runs with the monotonic clock, which the timers use.
//
// Invariants
// 1. While the monotonic clock is the system's, a reading is the system's too.
// 2. While a test controls the monotonic clock, a reading moves only with that clock and by what the test does to it.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime;

use super::Hooks;
use super::instant::{is_the_systems, saturate};
use super::source::system_now;
use crate::util::sync::lock;
use crate::wheel::Tick;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jumping {
    /// Advances while the machine sleeps, if the system has such a clock.
    Boot,
    /// The time of day, which may be set.
    Wall,
}

pub(crate) trait JumpHooks {
    /// How far a test has moved a clock ahead, in nanoseconds.
    #[inline]
    fn ahead(_: Jumping) -> i128 {
        0
    }
}

#[cfg(not(feature = "test-util"))]
impl JumpHooks for Hooks {}

impl Jumping {
    const ALL: [Jumping; 2] = [Jumping::Boot, Jumping::Wall];

    pub(crate) fn now(self) -> Reading {
        self.read(super::now).1
    }

    /// Calls `now`, and returns its tick and the reading just after it.
    pub(crate) fn read(self, now: impl Fn() -> Tick) -> (Tick, Reading) {
        let before = system_now();
        let (tick, system) = (now(), self.system());
        // Another thread may move a held clock past the system's between two readings. It was behind before.
        let runs = before <= tick && is_the_systems(now, system_now);
        let held = Offsets::held(runs);
        let reading = held.map_or(system, |offsets| offsets.of(self) + i128::from(tick.0));
        (tick, Reading(reading.saturating_add(Hooks::ahead(self))))
    }

    fn system(self) -> i128 {
        match self {
            Jumping::Boot => system_boot(),
            Jumping::Wall => SystemTime::now().reading().0,
        }
    }
}

#[cfg(any(target_os = "android", target_os = "linux", target_vendor = "apple"))]
fn system_boot() -> i128 {
    use rustix::time::{ClockId, clock_gettime};

    // On Apple's systems this clock advances during sleep, unlike the standard library's.
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

/// The smallest difference that counts as a jump, in nanoseconds. Smaller ones may come from the time between two
/// readings.
const LEAST_JUMP: i128 = 1_000_000;

/// The time on a clock that may jump, in nanoseconds since the machine's start or since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reading(pub(crate) i128);

impl Reading {
    pub(crate) fn after(self, duration: Duration) -> Reading {
        Reading(self.0.saturating_add(nanos_in(duration)))
    }

    pub(crate) fn before(self, duration: Duration) -> Reading {
        Reading(self.0.saturating_sub(nanos_in(duration)))
    }

    pub(crate) fn since(self, earlier: Reading) -> Duration {
        duration_of_nanos(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }

    /// Whether two readings for one tick differ by a jump.
    pub(crate) fn differs_from(self, other: Reading) -> bool {
        self.0.saturating_sub(other.0).saturating_abs() > LEAST_JUMP
    }
}

pub(crate) fn nanos_in(duration: Duration) -> i128 {
    duration.as_nanos().try_into().expect("less than 2^94")
}

pub(crate) fn duration_of_nanos(nanos: u128) -> Duration {
    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    let nanos = u32::try_from(nanos).expect("less than a second");
    u64::try_from(seconds).map_or(Duration::MAX, |seconds| Duration::new(seconds, nanos))
}

/// The public type for points in time on a clock that may jump.
pub trait ClockTime: Copy + Debug + Send + Sync + Unpin + 'static {
    const CLOCK: Jumping;

    /// Saturates at the first and the last value of this type.
    fn of(reading: Reading) -> Self;

    fn reading(self) -> Reading;
}

impl ClockTime for SystemTime {
    const CLOCK: Jumping = Jumping::Wall;

    fn of(reading: Reading) -> SystemTime {
        let epoch = Reading(0);
        let (step, length): (fn(&_, _) -> _, _) = if reading < epoch {
            (SystemTime::checked_sub, epoch.since(reading))
        } else {
            (SystemTime::checked_add, reading.since(epoch))
        };
        step(&UNIX_EPOCH, length).unwrap_or_else(|| saturate(UNIX_EPOCH, step))
    }

    fn reading(self) -> Reading {
        Reading(match self.duration_since(UNIX_EPOCH) {
            Ok(since) => nanos_in(since),
            Err(before) => -nanos_in(before.duration()),
        })
    }
}

/// A point in time on the clock that keeps running while the machine sleeps.
///
/// ```
/// use hairspring::{Duration, boot};
///
/// let start = boot::Instant::now();
/// let deadline = start + Duration::from_secs(1);
/// assert_eq!(deadline - start, Duration::from_secs(1));
/// assert_eq!(start - deadline, Duration::ZERO);
/// ```
///
/// Instants of different clocks do not mix:
///
/// ```compile_fail
/// let elapsed = hairspring::Instant::now() - hairspring::boot::Instant::now();
/// ```
///
/// It neither compares with [`hairspring::Instant`](crate::Instant) nor converts to it, because the two clocks drift
/// apart each time the machine sleeps. To convert a deadline, add the time left, `deadline - boot::Instant::now()`, to
/// the other clock's `now`. The result is right only until the machine next sleeps.
///
/// Differences saturate at zero, and sums at the ends of the type's range, 10^21 years away.
#[doc(alias = "CLOCK_BOOTTIME")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Reading);

impl Instant {
    /// Returns the current time. If a test has paused the current runtime's clock, the result follows that clock. It
    /// does not follow the `ManualClock` of a timer, even if that timer is [installed](crate::timer::Builder::install).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::boot;
    /// let now = boot::Instant::now();
    /// assert!(boot::Instant::now() >= now);
    /// ```
    #[must_use]
    pub fn now() -> Instant {
        Instant(Jumping::Boot.now())
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!((now + Duration::from_secs(2)).duration_since(now), Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        self.0.since(earlier.0)
    }

    /// Returns the time from `earlier` to this instant, or `None` if `earlier` is later.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!(now.checked_duration_since(now + Duration::from_nanos(1)), None);
    /// ```
    #[must_use]
    pub fn checked_duration_since(&self, earlier: Instant) -> Option<Duration> {
        (*self >= earlier).then(|| self.duration_since(earlier))
    }

    /// Returns the time from `earlier` to this instant, or zero if `earlier` is later, like
    /// [`duration_since`](Self::duration_since).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!(now.saturating_duration_since(now + Duration::from_secs(1)), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }

    /// Returns the time since this instant, including machine sleep, or zero if it is in the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// assert_eq!((boot::Instant::now() + Duration::from_secs(60)).elapsed(), Duration::ZERO);
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// Returns this instant plus `duration`, or `None` at the end of the type's range.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!(now.checked_add(Duration::from_secs(1)), Some(now + Duration::from_secs(1)));
    /// ```
    #[must_use]
    pub fn checked_add(&self, duration: Duration) -> Option<Instant> {
        self.0.0.checked_add(nanos_in(duration)).map(|nanos| Instant(Reading(nanos)))
    }

    /// Returns this instant minus `duration`, or `None` at the beginning of the type's range. It may be before the
    /// machine's start.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, boot};
    /// let now = boot::Instant::now();
    /// assert_eq!((now + Duration::from_secs(1)).checked_sub(Duration::from_secs(1)), Some(now));
    /// ```
    #[must_use]
    pub fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.0.checked_sub(nanos_in(duration)).map(|nanos| Instant(Reading(nanos)))
    }
}

impl ClockTime for Instant {
    const CLOCK: Jumping = Jumping::Boot;

    fn of(reading: Reading) -> Instant {
        Instant(reading)
    }

    fn reading(self) -> Reading {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0.after(duration))
    }
}

super::add_and_sub_assign!(Instant);

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, duration: Duration) -> Instant {
        Instant(self.0.before(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("boot::Instant").field("nanos", &self.0.0).finish()
    }
}

/// How far each clock is ahead of the monotonic clock's ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offsets([i128; 2]);

/// The offsets of runtimes on which a test controls the monotonic clock, fixed at the first such reading there, until
/// that clock is found to run again. Code outside runtimes has `None`.
static HELD: LazyLock<Mutex<HashMap<Option<runtime::Id>, Offsets>>> = LazyLock::new(Mutex::default);

/// Whether there ever were any.
static ANY_IS_HELD: AtomicBool = AtomicBool::new(false);

impl Offsets {
    /// The system's offsets. They may be too large by the time between two readings.
    pub(crate) fn now() -> Offsets {
        Offsets(Jumping::ALL.map(|clock| {
            let tick = system_now();
            clock.system() - i128::from(tick.0)
        }))
    }

    /// The offsets of the current runtime while its clock is held.
    fn held(runs: bool) -> Option<Offsets> {
        if runs && !ANY_IS_HELD.load(Relaxed) {
            return None;
        }
        let here = runtime::Handle::try_current().ok().map(|runtime| runtime.id());
        let mut held = lock(&HELD);
        if runs {
            held.remove(&here);
            return None;
        }
        ANY_IS_HELD.store(true, Relaxed);
        Some(*held.entry(here).or_insert_with(Offsets::now))
    }

    fn of(self, clock: Jumping) -> i128 {
        self.0[clock as usize]
    }

    pub(crate) fn differ_from(self, earlier: Offsets) -> bool {
        Jumping::ALL.iter().any(|&clock| (self.of(clock) - earlier.of(clock)).abs() > LEAST_JUMP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TESTS_MAY_PAUSE;
    use crate::wheel::Ticks;

    #[test]
    fn a_jump_of_either_clock_is_seen_and_the_time_between_two_readings_is_not() {
        let before @ Offsets([boot, wall]) = Offsets([5_000_000, -7_000_000]);
        assert!(!before.differ_from(before));
        assert!(!Offsets([boot + 900_000, wall - 900_000]).differ_from(before));
        assert!(Offsets([boot + 2_000_000, wall]).differ_from(before), "the machine has slept");
        assert!(Offsets([boot, wall - 2_000_000]).differ_from(before), "it was set back");
    }

    #[test]
    fn a_held_clock_reads_the_same_until_it_is_moved() {
        let shown = Tick(system_now().0 / 2);
        for clock in Jumping::ALL {
            let (tick, first) = clock.read(|| shown);
            assert_eq!((tick, first), clock.read(|| shown));
            assert_eq!(clock.read(|| Tick(shown.0 + 1)).1, first.after(Duration::from_nanos(1)));
        }
    }

    /// A bug that this crate had: if the thread was interrupted while the system's clock passed a paused one, that was
    /// taken for the system's, and a sleep on the wall clock was early.
    #[test]
    fn a_held_clock_reads_the_same_while_the_systems_comes_by() {
        if !TESTS_MAY_PAUSE {
            return;
        }
        for clock in Jumping::ALL.repeat(100) {
            let shown = system_now() + Ticks(20_000);
            let reading = || clock.read(|| shown).1;
            let first = reading();
            while system_now() < shown + Ticks(5_000) {
                assert_eq!(reading(), first);
            }
        }
    }

    /// A bug that this crate had: after a jump, a paused clock started from the offset of the process's first pause.
    #[test]
    fn each_pause_starts_from_the_true_time() {
        let runtimes = [(); 2].map(|()| runtime::Builder::new_current_thread().build().unwrap());
        let before_a_jump = Offsets([0; 2]);
        lock(&HELD).insert(Some(runtimes[0].handle().id()), before_a_jump);
        ANY_IS_HELD.store(true, Relaxed);
        // A clock that stands in the future counts as paused.
        let shown = system_now() + Ticks(1 << 40);
        let paused = || Jumping::Wall.read(|| shown).1;
        let starts_true = || paused().0 - i128::from(shown.0) > i128::from(u32::MAX);
        let [earlier, later] = runtimes.each_ref().map(|runtime| {
            let _entered = runtime.enter();
            starts_true()
        });
        assert!(!earlier && later, "another runtime's pause does not matter");
        let _entered = runtimes[0].enter();
        Jumping::Wall.now();
        assert!(starts_true(), "nor does one that has ended");
    }

    #[test]
    fn readings_and_times_agree_to_the_nanosecond_before_and_after_1970() {
        for seconds in [0, 1, 1 << 33, 1 << 39] {
            // What every system can represent.
            let length = Duration::new(seconds, 100);
            for time in [UNIX_EPOCH + length, UNIX_EPOCH.checked_sub(length).unwrap_or(UNIX_EPOCH)] {
                assert_eq!(SystemTime::of(time.reading()), time);
            }
        }
        assert_eq!((UNIX_EPOCH - Duration::from_nanos(100)).reading(), Reading(-100));
    }

    #[test]
    fn a_reading_beyond_what_the_system_represents_is_its_first_or_last_time() {
        let (first, last) = (SystemTime::of(Reading(i128::MIN)), SystemTime::of(Reading(i128::MAX)));
        assert!(first < UNIX_EPOCH && UNIX_EPOCH < last);
        let second = Duration::from_secs(1);
        assert_eq!((first.checked_sub(second), last.checked_add(second)), (None, None));
    }

    #[test]
    fn readings_saturate() {
        let (first, last) = (Reading(i128::MIN), Reading(i128::MAX));
        assert_eq!(last.after(Duration::MAX), last);
        assert_eq!(first.before(Duration::MAX), first);
        assert_eq!(last.since(first), Duration::MAX);
        assert_eq!(first.since(last), Duration::ZERO);
        let years = Duration::from_secs(u64::MAX);
        assert_eq!(Reading(5).after(years).since(Reading(5)), years);
    }

    #[test]
    fn checked_sums_and_differences_do_not_saturate() {
        let [first, now, last] = [i128::MIN, 0, i128::MAX].map(|nanos| Instant(Reading(nanos)));
        let nano = Duration::from_nanos(1);
        assert_eq!((last.checked_add(nano), first.checked_sub(nano)), (None, None));
        assert_eq!((now.checked_add(nano), now.checked_sub(nano)), (Some(now + nano), Some(now - nano)));
        assert_eq!(now.checked_duration_since(now - nano), Some(nano));
        assert_eq!(now.checked_duration_since(now), Some(Duration::ZERO));
        assert_eq!(now.checked_duration_since(now + nano), None);
        assert_eq!((now - nano).saturating_duration_since(now), Duration::ZERO);
    }
}
