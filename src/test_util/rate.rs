//! Clocks that run at a rate of their own.
//
// Invariants
// 1. A clock runs at one rate at a time: a thread ends when the clock gets another.

use std::thread;
use std::time::{Duration, Instant};

use crate::test_util::manual::ManualClock;

/// How often a clock moves, in real time.
const STEP: Duration = Duration::from_millis(1);

impl ManualClock {
    /// Makes the clock run by itself from now on, `rate` times as fast as real time: at 60, an hour passes in a minute.
    /// Zero stops it. It moves about once in a millisecond of real time, and each timer fires while the clock shows that
    /// timer's deadline.
    ///
    /// Give the nodes of a cluster in one process clocks that run at 1.0 and 1.01, and they drift apart. You can still
    /// advance the clock. A [`hold`](Self::hold) stops it as long as it lives. When the last handle is dropped, the clock
    /// stops.
    ///
    /// # Panics
    /// If `rate` is negative or not finite, or if the system refuses a thread for this.
    ///
    /// ```
    /// use hairspring::{Duration, Timer, test_util::ManualClock};
    ///
    /// # #[tokio::main]
    /// # async fn main() {
    /// let clock = ManualClock::new();
    /// clock.rate(360_000.0);
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// let start = clock.now();
    /// timer.sleep(Duration::from_secs(3_600)).await; // takes 10 ms
    /// assert!(clock.now() - start >= Duration::from_secs(3_600));
    /// # }
    /// ```
    pub fn rate(&self, rate: f64) {
        assert!(rate.is_finite() && rate >= 0.0, "the rate of a clock is zero or more, and finite, not {rate}");
        let course = self.next_course();
        if rate == 0.0 {
            return;
        }
        let weak = self.downgrade();
        let run = move || {
            let mut last = Instant::now();
            while let Some(clock) = weak.upgrade().filter(|clock| clock.is_on_course(course)) {
                let passed = last.elapsed();
                last += passed;
                if clock.holds().is_empty() {
                    let passed = passed.as_secs_f64() * rate;
                    clock.advance(Duration::try_from_secs_f64(passed).unwrap_or(Duration::MAX));
                }
                drop(clock);
                thread::sleep(STEP);
            }
        };
        if let Err(error) = thread::Builder::new().name("hairspring-clock".into()).spawn(run) {
            panic!("hairspring could not start the thread that moves its clock: {error}");
        }
    }
}
