//! [`Hold`]: keeps a clock from advancing by itself.

use std::panic::Location;

use tokio::runtime::Handle;

use crate::test_util::idle::{Claim, Claimed, Watch};
use crate::test_util::manual::ManualClock;
use crate::test_util::remove;

/// Keeps a clock from advancing by itself while it lives. Returned by [`ManualClock::hold`] and
/// [`test_util::hold`](crate::test_util::hold()).
///
/// # Examples
///
/// ```
/// use hairspring::{Duration, Timer, test_util::ManualClock};
///
/// # #[tokio::main]
/// # async fn main() {
/// let clock = ManualClock::new();
/// clock.auto_advance();
/// let timer = Timer::builder().clock(&clock).build().unwrap();
/// let (start, hold) = (clock.now(), clock.hold());
/// let sleep = tokio::spawn(timer.sleep(Duration::from_secs(60)));
/// hairspring::sleep(Duration::from_millis(5)).await; // in real time
/// assert_eq!(clock.now(), start);
/// drop(hold);
/// sleep.await.unwrap();
/// assert_eq!(clock.now() - start, Duration::from_secs(60));
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the clock is held only as long as this lives"]
pub struct Hold(Holds);

#[derive(Debug)]
#[allow(dead_code)] // The latter holds as long as it exists.
enum Holds {
    Manual(ManualClock, &'static Location<'static>),
    Tokios(Claimed),
}

impl ManualClock {
    /// Keeps the clock from advancing by itself until the returned [`Hold`] is dropped. You can still advance it by
    /// hand.
    ///
    /// Use this for work that the clock [cannot see](crate::test_util#what-holds-a-paused-clock): one of your threads,
    /// or another process.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::test_util::ManualClock;
    /// let clock = ManualClock::new();
    /// let hold = clock.hold();
    /// std::thread::spawn(move || {
    ///     // ... work that takes time, and then
    ///     drop(hold);
    /// });
    /// ```
    #[track_caller]
    pub fn hold(&self) -> Hold {
        self.state().holds.push(Location::caller());
        Hold(Holds::Manual(self.clone(), Location::caller()))
    }
}

impl Hold {
    /// Holds the clock of a current-thread runtime, which is tokio's.
    #[track_caller]
    pub(crate) fn of_tokio(runtime: &Handle) -> Hold {
        Hold(Holds::Tokios(Watch::of(runtime).claim(Claim::Hold)))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Holds::Manual(clock, place) = &self.0 {
            let mut state = clock.state();
            remove(&mut state.holds, place);
            state.released += 1;
        }
    }
}
