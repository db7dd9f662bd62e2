//! Futures on a timer of the caller's choice: what [`Timer`] makes.

use std::future::IntoFuture;
use std::time::Duration;

use crate::clock::{self, Instant};
use crate::core::registry;
use crate::future::{Interval, Sleep, Timeout, TrySleep};
use crate::timer::Timer;

impl Timer {
    /// As [`hairspring::sleep`](crate::sleep()), on this timer, whatever runtime polls it.
    ///
    /// # Panics
    /// When polled before its deadline on a timer that was shut down, and when it has to wait on one that is
    /// [full](Builder::capacity). [`try_sleep`](Timer::try_sleep) does not.
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

    /// As [`hairspring::sleep_until`](crate::sleep_until), on this timer, whatever runtime polls it.
    ///
    /// # Panics
    /// As [`sleep`](Timer::sleep).
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

    /// As [`sleep`](Timer::sleep), with an error in place of the panic where the timer is full or was shut down.
    ///
    /// # Errors
    /// The future gives one that [`is_at_capacity`](Error::is_at_capacity) or [`is_shutdown`](Error::is_shutdown),
    /// where it is polled before its deadline.
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

    /// As [`sleep_until`](Timer::sleep_until), with an error in place of the panic where the timer is full or was shut
    /// down.
    ///
    /// # Errors
    /// As [`try_sleep`](Timer::try_sleep).
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

    /// As [`hairspring::timeout`](crate::timeout()), on this timer, whatever runtime polls it.
    ///
    /// # Errors
    /// The future gives [`Elapsed`](crate::error::Elapsed) where the deadline passes first.
    ///
    /// # Panics
    /// When polled, as [`sleep`](Timer::sleep).
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

    /// As [`hairspring::timeout_at`](crate::timeout_at), on this timer, whatever runtime polls it.
    ///
    /// # Errors
    /// The future gives [`Elapsed`](crate::error::Elapsed) where the deadline passes first.
    ///
    /// # Panics
    /// When polled, as [`sleep`](Timer::sleep).
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

    /// As [`hairspring::interval`](crate::interval()), on this timer, on which the interval is a handle.
    ///
    /// # Panics
    /// Where `period` is zero. A tick panics as [`sleep`](Timer::sleep) does.
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

    /// As [`hairspring::interval_at`](crate::interval_at), on this timer, on which the interval is a handle.
    ///
    /// # Panics
    /// Where `period` is zero. A tick panics as [`sleep`](Timer::sleep) does.
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
        Interval::on(self.clone(), start, period)
    }
}
