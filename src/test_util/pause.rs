//! [`Pause`]: how a clock is paused.

use std::time::Duration;

use crate::clock::Instant;
use crate::clock::source::one_is_held;
use crate::core::{by_hand, registry};
use crate::test_util::{by_tokio, grace, paused};

/// Pauses the clock of a runtime, with settings. [`pause`](crate::pause()) is the same without any.
///
/// ```
/// use hairspring::test_util::Pause;
/// use hairspring::{Duration, Instant, timeout};
///
/// # #[tokio::main]
/// # async fn main() {
/// Pause::new().grace(Duration::from_secs(5)).begin();
/// let start = Instant::now();
/// // Another process, of which the clock knows nothing.
/// let answer = tokio::process::Command::new("whoami").output();
/// assert!(timeout(Duration::from_secs(60), answer).await.is_ok());
/// assert_eq!(start.elapsed(), Duration::ZERO);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "it pauses nothing until it begins"]
pub struct Pause {
    grace: Duration,
}

impl Pause {
    /// The settings of [`pause`](crate::pause()): no grace.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// hairspring::test_util::Pause::new().begin();
    /// # }
    /// ```
    pub fn new() -> Pause {
        Pause::default()
    }

    /// Sets for how long nothing may run in the runtime, in real time, before the clock moves to the next deadline.
    ///
    /// In that time something may come that the clock cannot foresee: from another process, a server, a thread of your
    /// own. Each move of the clock takes that long, so a test should have few of them. If you can, hold the clock with
    /// [`hold`](crate::test_util::hold()) while you wait, which costs no time and needs no guess.
    ///
    /// On a current-thread runtime only this crate's timers move a clock with a grace. Tokio's own fire when it comes to
    /// the next deadline of this crate after their own.
    ///
    /// ```
    /// # use hairspring::{Duration, sleep, test_util::Pause};
    /// # #[tokio::main]
    /// # async fn main() {
    /// Pause::new().grace(Duration::from_millis(5)).begin();
    /// sleep(Duration::from_secs(60)).await; // takes 5 ms
    /// # }
    /// ```
    pub fn grace(mut self, grace: Duration) -> Pause {
        self.grace = grace;
        self
    }

    /// Pauses the clock of the current runtime. [`resume`](crate::resume()) ends this.
    ///
    /// # Panics
    /// As [`pause`](crate::pause()) does, and with a grace on a current-thread runtime if the system refuses a thread.
    ///
    /// ```should_panic
    /// # use hairspring::test_util::Pause;
    /// # #[tokio::main]
    /// # async fn main() {
    /// Pause::new().begin();
    /// Pause::new().begin(); // time is already frozen
    /// # }
    /// ```
    #[track_caller]
    pub fn begin(self) {
        let Some(runtime) = paused::here() else {
            if self.grace.is_zero() {
                tokio::time::pause();
            } else {
                grace::pause(self.grace);
            }
            // From now on no thread relies on the timer that it remembers, which may be that of a runtime around this.
            one_is_held();
            by_tokio::look_at_the_clock();
            return;
        };
        assert!(paused::pause(&runtime, self.grace), "time is already frozen");
        paused::adopt(runtime.id(), registry::timer_of(&runtime));
        // Registers this thread, if it blocks on the runtime.
        let _ = Instant::now();
        by_hand::wake_free_drivers();
    }
}
