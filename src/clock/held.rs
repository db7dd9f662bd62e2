//! What a test does when it holds a clock: it shows the time, moves it, and lets it run again.

use super::instant::SHOWN;
use super::jumping::{Jumping, SHIFT};
use super::source::{BEGIN, Course, RUNS, Source, system_now};
use crate::util::sync::atomic::Ordering::SeqCst;
use crate::wheel::Tick;

/// From now on `now` says what the current runtime's clock shows.
pub(crate) fn let_show(now: fn() -> Option<std::time::Instant>) {
    SHOWN.get_or_init(|| now);
}

/// From now on `shift` says how far a test has put a clock ahead on the current runtime, in nanoseconds.
pub(crate) fn let_shift(shift: fn(Jumping) -> i128) {
    SHIFT.get_or_init(|| shift);
}

impl Course {
    /// The course of a clock that shows `now`.
    pub(crate) fn from(now: Tick) -> Course {
        let begin = *BEGIN;
        Course(Tick(now.0.saturating_sub((system_now() - begin).0)))
    }
}

impl Source {
    /// From now on a test shows the time, at first `now`.
    pub(crate) fn begin_to_show(&self, now: Tick) {
        self.shown.store(now.0, SeqCst);
    }

    /// Shows a time, unless it is earlier than the last.
    pub(crate) fn show(&self, now: Tick) {
        self.shown.fetch_max(now.0, SeqCst);
    }

    /// From now on the clock runs on `course`.
    pub(crate) fn run(&self, course: Course) {
        self.course.store(course.0.0, SeqCst);
        self.shown.store(RUNS, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::source::LAST;
    use crate::wheel::Ticks;

    #[test]
    fn a_course_never_goes_back_and_ends_where_time_does() {
        let system = system_now();
        let behind = Tick(system.0 - 1_000_000_000);
        for from in [behind, system, system + Ticks(1), Tick(u64::MAX / 2), Tick(LAST.0 - 1), LAST] {
            let course = Course::from(from);
            let (mut last, before) = (from, system_now());
            for _ in 0..1_000 {
                let now = course.now();
                assert!(last <= now && now <= LAST, "{now:?} after {last:?}, from {from:?}");
                last = now;
            }
            let system = course.system_tick(last);
            assert!(before <= system_now() && system <= system_now(), "{system:?}");
        }
    }
}
