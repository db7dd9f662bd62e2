//! [`Sleep`], [`TrySleep`], [`Timeout`] and [`Interval`], and the functions and the methods of [`Timer`] that create
//! them. [`boot`] and [`wall`] have the same on other clocks.

pub mod boot;
pub(crate) mod delay;
mod interval;
mod lazy_sleep;
pub(crate) mod sleep;
mod spans;
mod timeout;
pub mod wall;

use std::future::IntoFuture;
use std::time::Duration;

pub use delay::{Time, TrySleep};
pub use interval::{Interval, MissedTickBehavior, TryInterval, interval, interval_at};
pub(crate) use lazy_sleep::LazySleep;
pub(crate) use sleep::{ItemKind, limit, sleep_made_at, sleep_on};
pub use sleep::{Sleep, sleep, sleep_until};
pub(crate) use timeout::has_spent_the_budget;
pub use timeout::{Timeout, timeout, timeout_at};

use crate::clock::instant::FAR_FUTURE;
use crate::clock::{self, Instant};
use crate::timer::Timer;
use crate::wheel::Tick;

/// The time on the clock of the given timer, or without one on that of the current runtime.
#[inline]
pub(crate) fn now_on(timer: Option<&Timer>) -> Tick {
    timer.map_or_else(clock::now, Timer::now_tick)
}

impl Timer {
    /// Waits on this timer until `duration` has passed since this call, whatever runtime polls the future. See
    /// [`hairspring::sleep`](crate::sleep()).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// Timer::current().sleep(Duration::from_millis(1)).await;
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// Polling panics if the sleep has to wait and the timer is at [`max_pending`](crate::timer::Builder::max_pending) or was
    /// shut down. [`try_sleep`](Timer::try_sleep) returns an error instead.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.limit(duration.min(FAR_FUTURE))
    }

    /// The sleep of a limit. One of more than 500 years never ends.
    #[track_caller]
    pub(crate) fn limit(&self, duration: Duration) -> Sleep {
        sleep_on(Some(self), clock::later(self.now_tick(), duration))
    }

    /// Waits on this timer until `deadline`, whatever runtime polls the future. See
    /// [`hairspring::sleep_until`](crate::sleep_until).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// timer.sleep_until(timer.now() + Duration::from_millis(1)).await;
    /// # }
    /// ```
    #[track_caller]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        sleep_on(Some(self), clock::tick_of(deadline))
    }

    /// Waits as [`sleep`](Timer::sleep) does, but returns an error instead of panicking. See [`TrySleep`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().build().unwrap();
    /// assert_eq!(timer.try_sleep(Duration::from_millis(1)).await, Ok(()));
    /// timer.shutdown();
    /// assert!(timer.try_sleep(Duration::from_secs(60)).await.unwrap_err().is_shutdown());
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Resolves to an error if the sleep has to wait and the timer is
    /// [full](crate::error::Error::is_at_capacity) or was [shut down](crate::error::Error::is_shutdown).
    #[track_caller]
    pub fn try_sleep(&self, duration: Duration) -> TrySleep {
        TrySleep::over(self.sleep(duration))
    }

    /// Awaits `future` for at most `duration` from now, on this timer, whatever runtime polls it. See
    /// [`hairspring::timeout`](crate::timeout()).
    ///
    /// # Panics
    ///
    /// Polling panics as [`sleep`](Timer::sleep) does. After [`fallible`](Timeout::fallible), it returns an error instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// assert_eq!(Timer::current().timeout(Duration::from_secs(1), async { 5 }).await, Ok(5));
    /// # }
    /// ```
    #[track_caller]
    pub fn timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.limit(duration))
    }

    /// Awaits `future` until `deadline` at the latest, on this timer, whatever runtime polls it. See
    /// [`hairspring::timeout_at`](crate::timeout_at).
    ///
    /// # Panics
    ///
    /// Polling panics as [`sleep`](Timer::sleep) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_millis(1);
    /// assert!(timer.timeout_at(deadline, std::future::pending::<()>()).await.is_err());
    /// # }
    /// ```
    #[track_caller]
    pub fn timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(future.into_future(), self.sleep_until(deadline))
    }

    /// Creates an interval on this timer that ticks immediately and then every `period`. It keeps the timer alive. See
    /// [`hairspring::interval`](crate::interval()).
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero. A tick panics as [`sleep`](Timer::sleep) does.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut interval = Timer::current().interval(Duration::from_millis(1));
    /// interval.tick().await; // immediately
    /// interval.tick().await; // 1 ms later
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// Creates an interval on this timer that ticks at `start` and then every `period`. It keeps the timer alive. See
    /// [`hairspring::interval_at`](crate::interval_at).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let start = timer.now() + Duration::from_millis(2);
    /// assert_eq!(timer.interval_at(start, Duration::from_millis(1)).tick().await, start);
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(start), period, Some(self))
    }
}
