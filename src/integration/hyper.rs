//! [`HyperTimer`], a timer for hyper's servers and clients. Needs the feature `hyper`.
//!
//! ```
//! use hairspring::{Duration, hyper::HyperTimer};
//! use hyper_util::{client::legacy::Client, rt::TokioExecutor};
//!
//! let mut client = Client::builder(TokioExecutor::new());
//! client.timer(HyperTimer::new()).pool_timer(HyperTimer::new()).pool_idle_timeout(Duration::from_secs(30));
//! ```
//!
//! hyper has no timer, and panics if `header_read_timeout` or HTTP/2 keep-alive is set without one. Pass this one to
//! `timer` of hyper's builders, and to `pool_timer` of hyper-util's client. [`Sleep`](crate::Sleep) implements
//! `hyper::rt::Sleep`.

use std::panic::Location;
use std::pin::Pin;
use std::time::Duration;

use ::hyper::rt;

use crate::clock;
use crate::future::{Sleep, now_on, sleep_made_at};
use crate::timer::Timer;
use crate::wheel::Tick;

/// A timer for hyper, like hyper-util's `TokioTimer`.
///
/// ```
/// use hairspring::Duration;
/// use hairspring::hyper::HyperTimer;
/// use hyper::server::conn::http1;
///
/// let mut server = http1::Builder::new();
/// // Each request's header must arrive within 10 s. This also limits the silence between requests.
/// server.timer(HyperTimer::new()).header_read_timeout(Duration::from_secs(10));
/// ```
///
/// No time limit ends early. Postponing a limit, as hyper does for each ping of an HTTP/2
/// connection, reuses its allocation. The timer runs on runtimes without `enable_time`.
///
/// # Panics
///
/// Polling a connection panics as [`sleep`](crate::sleep()) does, and if it has to wait on a [`Timer`]
/// that was shut down: hyper takes no errors from its timer. hyper itself panics if the current time plus a limit
/// overflows `std::time::Instant`, as with `Duration::MAX`.
#[derive(Debug, Clone)]
#[doc(alias = "TokioTimer")]
pub struct HyperTimer {
    /// `None` for the timer of the runtime that polls a connection.
    timer: Option<Timer>,
    /// The user's line that created this, for panics of its sleeps.
    made: &'static Location<'static>,
}

impl HyperTimer {
    /// Creates a `HyperTimer` on the timer of the runtime that polls a connection.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::hyper::HyperTimer;
    /// let mut client = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
    /// client.timer(HyperTimer::new()).keep_alive_interval(hairspring::Duration::from_secs(20));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new() -> HyperTimer {
        HyperTimer { timer: None, made: Location::caller() }
    }

    /// Creates a `HyperTimer` on the given timer, for example one with custom settings or on a test's clock. It should be
    /// one of the runtime that serves the connections: see [`build`](crate::timer::Builder::build).
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending).
    ///
    /// # Examples
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
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> HyperTimer {
        HyperTimer::from(timer.clone())
    }
}

impl HyperTimer {
    fn sleep_until_tick(&self, deadline: Tick) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(sleep_made_at(self.timer.as_ref(), deadline, self.made))
    }
}

impl Default for HyperTimer {
    #[track_caller]
    fn default() -> HyperTimer {
        HyperTimer::new()
    }
}

impl From<Timer> for HyperTimer {
    #[track_caller]
    fn from(timer: Timer) -> HyperTimer {
        timer.unlimited("HyperTimer");
        HyperTimer { timer: Some(timer), ..HyperTimer::new() }
    }
}

impl rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until_tick(clock::later(now_on(self.timer.as_ref()), duration))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until_tick(clock::tick_of(deadline.into()))
    }

    fn now(&self) -> std::time::Instant {
        clock::instant_of(now_on(self.timer.as_ref())).into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: std::time::Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(ours) => ours.reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

impl rt::Sleep for Sleep {}
