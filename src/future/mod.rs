//! [`Sleep`], [`Timeout`] and [`Interval`], their fallible forms over [`Try`], and the functions and the methods of
//! [`Timer`] that create them. [`boot`] and [`wall`] have the same on other clocks.

pub mod boot;
mod delay;
pub(crate) mod hooks;
mod interval;
mod lazy_sleep;
mod sleep;
mod spans;
mod timeout;
pub mod wall;

use std::future::IntoFuture;
use std::time::Duration;

pub use delay::{Try, TrySleep};
pub use interval::{Interval, MissedTickBehavior, interval, interval_at};
pub(crate) use lazy_sleep::LazySleep;
pub use sleep::{Sleep, sleep, sleep_until};
pub use timeout::{FutureExt, Timeout, timeout, timeout_at};

use crate::clock::{self, Instant};
use crate::core::registry;
use crate::future::hooks::TimerKind;
use crate::timer::Timer;
use crate::wheel::Tick;

/// A sleep on the given timer, or without one on the timer of the runtime that polls it.
#[track_caller]
pub(crate) fn sleep_on(timer: Option<&Timer>, deadline: Tick) -> Sleep {
    match timer {
        Some(timer) => Sleep::on(registry::shard_of(timer.lease), deadline),
        None => Sleep::new(deadline),
    }
}

/// The time on the clock of the given timer, or without one on that of the current runtime.
#[inline]
pub(crate) fn now_on(timer: Option<&Timer>) -> Tick {
    timer.map_or_else(clock::now, Timer::now_tick)
}

impl Timer {
    /// Waits on this timer until `duration` has passed since this call, whatever runtime polls the future. See
    /// [`hairspring::sleep`](crate::sleep()).
    ///
    /// # Panics
    ///
    /// Polling panics if the sleep has to wait and the timer is [full](crate::timer::Builder::capacity) or was shut
    /// down. [`try_sleep`](Timer::try_sleep) returns an error instead.
    ///
    /// # Examples
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

    /// Waits as [`sleep`](Timer::sleep) does, but returns an error instead of panicking. See [`Try`].
    ///
    /// # Errors
    ///
    /// Resolves to an error if the sleep has to wait and the timer is [at
    /// capacity](crate::error::Error::is_at_capacity) or was [shut down](crate::error::Error::is_shutdown).
    ///
    /// # Examples
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
        Try::from(self.sleep(duration))
    }

    /// Waits as [`sleep_until`](Timer::sleep_until) does, but returns an error instead of panicking. See [`Try`].
    ///
    /// # Examples
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
        Try::from(self.sleep_until(deadline))
    }

    /// Awaits `future` for at most `duration` from now, on this timer, whatever runtime polls it. See
    /// [`hairspring::timeout`](crate::timeout()).
    ///
    /// # Panics
    ///
    /// Polling panics in the same cases as [`sleep`](Timer::sleep).
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
        Timeout::new(future.into_future(), self.sleep(duration))
    }

    /// Awaits `future` until `deadline` at the latest, on this timer, whatever runtime polls it. See
    /// [`hairspring::timeout_at`](crate::timeout_at).
    ///
    /// # Panics
    ///
    /// Polling panics in the same cases as [`sleep`](Timer::sleep).
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

    /// Awaits `future` as [`timeout`](Timer::timeout) does, but returns an error instead of panicking.
    ///
    /// The future is polled first, so a full timer does not affect one that is ready immediately. The future survives
    /// an error: poll again to retry, or take it out with [`into_inner`](Timeout::into_inner).
    ///
    /// # Errors
    ///
    /// Resolves to an outer error if the future has to wait and the timer is [at
    /// capacity](crate::error::Error::is_at_capacity) or was [shut down](crate::error::Error::is_shutdown), and to the
    /// inner error [`Elapsed`](crate::error::Elapsed) if the deadline passes first.
    ///
    /// # Cancel safety
    ///
    /// Dropping the `Timeout` drops the future and cancels the timer. It is as cancel safe as the future.
    ///
    /// # Examples
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
    /// timer.shutdown();
    /// let mut limited = timer.try_timeout(Duration::from_secs(60), hairspring::sleep(Duration::from_millis(1)));
    /// assert!((&mut limited).await.is_err_and(|error| error.is_shutdown()));
    /// limited.into_inner().await; // without a limit, then
    /// # }
    /// ```
    #[track_caller]
    pub fn try_timeout<F: IntoFuture>(&self, duration: Duration, future: F) -> Timeout<F::IntoFuture, TrySleep> {
        Timeout::over(future.into_future(), Try::from(self.sleep(duration).of(TimerKind::Timeout)))
    }

    /// Awaits `future` as [`timeout_at`](Timer::timeout_at) does, but returns an error instead of panicking. See
    /// [`try_timeout`](Timer::try_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer, error::Elapsed};
    /// let timer = Timer::current();
    /// let deadline = timer.now() + Duration::from_millis(1);
    /// let limited = timer.try_timeout_at(deadline, std::future::pending::<()>());
    /// assert_eq!(limited.await, Ok(Err(Elapsed::new())));
    /// # }
    /// ```
    #[track_caller]
    pub fn try_timeout_at<F: IntoFuture>(&self, deadline: Instant, future: F) -> Timeout<F::IntoFuture, TrySleep> {
        Timeout::over(future.into_future(), Try::from(self.sleep_until(deadline).of(TimerKind::Timeout)))
    }

    /// Creates an interval on this timer that ticks immediately and then every `period`. It keeps the timer alive. See
    /// [`hairspring::interval`](crate::interval()).
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero. A tick panics in the same cases as [`sleep`](Timer::sleep).
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
        Interval::new(self.sleep_until(start).of(TimerKind::Interval), period, Some(self))
    }

    /// Creates an interval as [`interval`](Timer::interval) does, whose ticks return an error if the timer is full or
    /// was shut down. Each tick that has to wait takes a place in the timer. An error skips no tick: the next call
    /// retries the same one.
    ///
    /// # Panics
    ///
    /// Panics if `period` is zero.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::builder().build().unwrap();
    /// let mut interval = timer.try_interval(Duration::from_secs(60));
    /// assert!(interval.tick().await.is_ok(), "the first tick does not wait");
    /// timer.shutdown();
    /// assert!(interval.tick().await.is_err_and(|error| error.is_shutdown()));
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn try_interval(&self, period: Duration) -> Interval<TrySleep> {
        self.try_interval_at(self.now(), period)
    }

    /// Creates an interval as [`interval_at`](Timer::interval_at) does, whose ticks return an error if the timer is
    /// full or was shut down. See [`try_interval`](Timer::try_interval).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # use hairspring::{Duration, Timer};
    /// let timer = Timer::current();
    /// let start = timer.now() + Duration::from_millis(2);
    /// assert_eq!(timer.try_interval_at(start, Duration::from_millis(1)).tick().await, Ok(start));
    /// # }
    /// ```
    #[track_caller]
    #[must_use]
    pub fn try_interval_at(&self, start: Instant, period: Duration) -> Interval<TrySleep> {
        Interval::new(Try::from(self.sleep_until(start).of(TimerKind::Interval)), period, Some(self))
    }
}
