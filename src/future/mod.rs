//! The futures: [`Sleep`], [`Timeout`] and [`Interval`], those that return errors ([`TrySleep`], [`TryTimeout`],
//! [`TryInterval`]), the functions that make them, and the methods of [`Timer`] that do. Those on other clocks are in
//! [`boot`] and [`wall`].

pub mod boot;
mod delay;
mod interval;
mod lazy_sleep;
mod sleep;
mod spans;
mod timeout;
pub mod wall;

use std::future::IntoFuture;
use std::time::Duration;

pub use delay::TrySleep;
pub use interval::{Interval, MissedTickBehavior, TryInterval, interval, interval_at};
pub(crate) use lazy_sleep::LazySleep;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{FutureExt, Timeout, TryTimeout, timeout, timeout_at};

use crate::clock::{self, Instant};
use crate::core::registry;
use crate::seam::TimerKind;
use crate::timer::Timer;

impl Timer {
    /// The same as [`hairspring::sleep`](crate::sleep()), but on this timer, whatever runtime polls it.
    ///
    /// # Panics
    /// When polled before its deadline, if the timer was shut down, or if it is
    /// [full](crate::timer::Builder::capacity) and the sleep has to wait. [`try_sleep`](Timer::try_sleep) returns an
    /// error instead.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// Timer::current().sleep(Duration::from_millis(1)).await;
    /// # }
    /// ```
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::on(registry::shard_of(self.lease), clock::later(self.now_tick(), duration))
    }

    /// The same as [`hairspring::sleep_until`](crate::sleep_until), but on this timer, whatever runtime polls it.
    ///
    /// # Panics
    /// In the same cases as [`sleep`](Timer::sleep).
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
        Sleep::on(registry::shard_of(self.lease), clock::tick_of(deadline))
    }

    /// The same as [`sleep`](Timer::sleep), but with an error instead of a panic if the timer is full or was shut down.
    ///
    /// # Errors
    /// The future resolves to an error if it is polled before its deadline and the timer is
    /// [at capacity](crate::error::Error::is_at_capacity) or was [shut down](crate::error::Error::is_shutdown).
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
    #[track_caller]
    pub fn try_sleep(&self, duration: Duration) -> TrySleep {
        TrySleep::new(self.sleep(duration))
    }

    /// The same as [`sleep_until`](Timer::sleep_until), but with an error instead of a panic if the timer is full or
    /// was shut down.
    ///
    /// # Errors
    /// In the same cases as [`try_sleep`](Timer::try_sleep).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// assert_eq!(timer.try_sleep_until(timer.now() + Duration::from_millis(1)).await, Ok(()));
    /// # }
    /// ```
    #[track_caller]
    pub fn try_sleep_until(&self, deadline: Instant) -> TrySleep {
        TrySleep::new(self.sleep_until(deadline))
    }

    /// The same as [`hairspring::timeout`](crate::timeout()), but on this timer, whatever runtime polls it.
    ///
    /// # Errors
    /// The future resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// # Panics
    /// Polling the future panics in the same cases as [`sleep`](Timer::sleep).
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
        Timeout::new(future.into_future(), self.sleep(duration))
    }

    /// The same as [`hairspring::timeout_at`](crate::timeout_at), but on this timer, whatever runtime polls it.
    ///
    /// # Errors
    /// The future resolves to [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// # Panics
    /// Polling the future panics in the same cases as [`sleep`](Timer::sleep).
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

    /// The same as [`timeout`](Timer::timeout), but with an error instead of a panic if the timer is full or was shut
    /// down. For a deadline rather than a duration, call [`reset_at`](TryTimeout::reset_at).
    ///
    /// # Errors
    /// The future resolves to an outer error if it has to wait and the timer is
    /// [at capacity](crate::error::Error::is_at_capacity) or was [shut down](crate::error::Error::is_shutdown), and to
    /// the inner error [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().capacity(100).build().unwrap();
    /// match timer.try_timeout(Duration::from_secs(1), async { 5 }).await {
    ///     Ok(Ok(answer)) => assert_eq!(answer, 5),
    ///     Ok(Err(_elapsed)) => eprintln!("too late"),
    ///     Err(error) => eprintln!("shedding load: {error}"),
    /// }
    /// # }
    /// ```
    #[track_caller]
    pub fn try_timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> TryTimeout<F::IntoFuture> {
        Timeout::over(future.into_future(), TrySleep::new(self.sleep(duration).of(TimerKind::Timeout)))
    }

    /// The same as [`hairspring::interval`](crate::interval()), but on this timer. The interval keeps the
    /// timer alive.
    ///
    /// # Panics
    /// If `period` is zero. A tick panics in the same cases as [`sleep`](Timer::sleep).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let mut interval = Timer::current().interval(Duration::from_millis(1));
    /// interval.tick().await; // at once
    /// interval.tick().await; // 1 ms later
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn interval(&self, period: Duration) -> Interval {
        self.interval_at(self.now(), period)
    }

    /// The same as [`hairspring::interval_at`](crate::interval_at), but on this timer. The interval keeps the
    /// timer alive.
    ///
    /// # Panics
    /// If `period` is zero. A tick panics in the same cases as [`sleep`](Timer::sleep).
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
        Interval::new(self.sleep_until(start).of(TimerKind::Interval), period, Some(self))
    }

    /// The same as [`interval`](Timer::interval), but ticks are errors instead of panics if the timer is full or was
    /// shut down.
    ///
    /// # Panics
    /// If `period` is zero.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().build().unwrap();
    /// let mut interval = timer.try_interval(Duration::from_secs(60));
    /// assert!(interval.tick().await.is_ok(), "at once");
    /// timer.shutdown();
    /// assert!(interval.tick().await.is_err_and(|error| error.is_shutdown()));
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn try_interval(&self, period: Duration) -> TryInterval {
        Interval::new(TrySleep::new(self.sleep_until(self.now()).of(TimerKind::Interval)), period, Some(self))
    }
}
