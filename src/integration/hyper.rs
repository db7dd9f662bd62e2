//! [`HyperTimer`]: the timer of hyper's servers and clients, with the feature `hyper`.
//!
//! hyper has no timer of its own: its builders take one with `timer`, hyper-util's connection pool with `pool_timer`.
//! Without one, `header_read_timeout` and the keep-alive of HTTP/2 panic where they were asked for.
//!
//! ```
//! use hairspring::{Duration, hyper::HyperTimer};
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//!
//! let mut client = Client::builder(TokioExecutor::new());
//! client.timer(HyperTimer::new()).pool_timer(HyperTimer::new()).pool_idle_timeout(Duration::from_secs(30));
//! ```
//!
//! Must not know: shards, the driver, the wheel.

use std::pin::Pin;
use std::time::Duration;

use ::hyper::rt;

use crate::clock::Instant;
use crate::future::{Sleep, sleep, sleep_until};
use crate::timer::Timer;

/// A timer for hyper: hairspring's in the place of hyper-util's `TokioTimer`.
///
/// Limits count in nanoseconds and never end early. One that is put off, as for each ping of an HTTP/2 connection, keeps
/// its allocation. Runs on runtimes without `enable_time`.
///
/// # Panics
/// hyper's connections panic when polled outside a tokio runtime, as [`sleep`] does, or on a [`Timer`] that was shut
/// down before the limit. hyper itself panics where a limit added to the current time overflows `std::time::Instant`,
/// as `Duration::MAX` does.
///
/// ```
/// use hairspring::Duration;
/// use hairspring::hyper::HyperTimer;
/// use hyper::server::conn::http1;
///
/// let mut server = http1::Builder::new();
/// // A client has 10 s for each request's header; one that falls silent between requests is cut off after as long.
/// server.timer(HyperTimer::new()).header_read_timeout(Duration::from_secs(10));
/// ```
#[derive(Debug, Clone, Default)]
pub struct HyperTimer {
    /// `None` for the timer of whichever runtime a connection is polled on.
    timer: Option<Timer>,
}

impl HyperTimer {
    /// The timer of the runtime that a connection runs on.
    ///
    /// ```
    /// use hairspring::hyper::HyperTimer;
    /// let mut client = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
    /// client.timer(HyperTimer::new()).keep_alive_interval(hairspring::Duration::from_secs(20));
    /// ```
    #[must_use]
    pub fn new() -> HyperTimer {
        HyperTimer::default()
    }

    /// A timer of the caller's choice: with settings of its own, or with a clock that a test moves.
    ///
    /// ```
    /// use hairspring::hyper::HyperTimer;
    /// use hairspring::Timer;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::builder().build().unwrap();
    /// hyper::server::conn::http1::Builder::new().timer(HyperTimer::with_timer(&timer));
    /// # }
    /// ```
    #[must_use]
    pub fn with_timer(timer: &Timer) -> HyperTimer {
        HyperTimer { timer: Some(timer.clone()) }
    }
}

impl From<Timer> for HyperTimer {
    fn from(timer: Timer) -> HyperTimer {
        HyperTimer { timer: Some(timer) }
    }
}

impl rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(match &self.timer {
            Some(timer) => timer.sleep(duration),
            None => sleep(duration),
        })
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(match &self.timer {
            Some(timer) => timer.sleep_until(deadline.into()),
            None => sleep_until(deadline.into()),
        })
    }

    fn now(&self) -> std::time::Instant {
        self.timer.as_ref().map_or_else(Instant::now, Timer::now).into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: std::time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
