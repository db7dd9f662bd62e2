//! [`Builder`]: a timer made to measure.
//!
//! Must not know: the inside of the futures.

use std::fmt;
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Timer, current};
use crate::alarm::{Alarm, own};
use crate::driver::Driver;
use crate::hub::Hub;
#[cfg(feature = "test-util")]
use crate::{manual::ManualClock, shard::Epoch};

/// The most shards a timer may have.
const MOST_SHARDS: usize = 1024;

const FINEST: Duration = Duration::from_micros(1);
const COARSEST: Duration = Duration::from_secs(1);

/// Makes a [`Timer`] with settings of its own. Made by [`Timer::builder`].
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hairspring::timer::BuildError> {
/// let timer = Timer::builder().shards(2).resolution(Duration::from_micros(100)).build()?;
/// timer.sleep(Duration::from_millis(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    shards: Option<usize>,
    resolution: Option<Duration>,
    alarm: Alarm,
    #[cfg(feature = "test-util")]
    clock: Option<ManualClock>,
}

/// What a builder has found to be good.
pub(super) struct Settings {
    shards: usize,
    /// Resolution, as a power of two of nanoseconds; `None` for the finest, with dense timers gathered.
    grain: Option<u32>,
    alarm: Alarm,
}

impl Settings {
    /// What a runtime's timer gets when nobody says.
    pub(super) fn of(runtime: &Handle) -> Settings {
        let shards = match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => 1,
            _ => runtime.metrics().num_workers().min(MOST_SHARDS),
        };
        Settings { shards, grain: None, alarm: Alarm::Thread }
    }

    pub(super) fn make(self) -> (Timer, Driver) {
        let (hub, epoch) = Hub::open(self.shards, self.grain.unwrap_or(0));
        (Timer { hub, epoch }, Driver::new(hub, epoch, self.alarm, self.grain.is_none()))
    }
}

/// A [`Builder`] was given a setting that it does not take, or built where it cannot.
///
/// ```
/// use hairspring::Timer;
/// let error = Timer::builder().shards(0).build_with_driver().unwrap_err();
/// assert_eq!(error.to_string(), "shards is 0: a timer has from 1 to 1024");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(Wrong);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrong {
    Shards(usize),
    Resolution(Duration),
    Alarm(Alarm),
    NoRuntime,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Builder::default()
    }

    /// How many shards the timer has, from 1 to 1024: each is a wheel behind a lock, and a thread keeps to one.
    ///
    /// Without this it is one for each worker of the current runtime: one on a current-thread runtime, and with
    /// [`build_with_driver`](Builder::build_with_driver) outside of any runtime.
    ///
    /// ```
    /// assert!(hairspring::Timer::builder().shards(4).build_with_driver().is_ok());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// How far apart the instants lie at which timers fire, from 1 us to 1 s, rounded down to a power of two nanoseconds.
    ///
    /// A deadline is rounded up to the next of them, so a coarse resolution fires many timers with one wake-up; none
    /// fires early. Without this deadlines are not rounded, and where timers are dense (some 25,000 a second) they are
    /// gathered for up to 0.8 ms. With this they are not gathered further.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    /// assert!(Timer::builder().resolution(Duration::from_millis(1)).build_with_driver().is_ok());
    /// ```
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// What wakes the driver when a deadline is reached. The alarm thread where this is not called.
    ///
    /// ```
    /// use hairspring::{Timer, timer::Alarm};
    /// assert!(Timer::builder().alarm(Alarm::Thread).build_with_driver().is_ok());
    /// ```
    pub fn alarm(mut self, alarm: Alarm) -> Self {
        self.alarm = alarm;
        self
    }

    /// Puts the timer on a clock that a test moves by hand. Needs the feature `test-util`.
    ///
    /// Such a timer has one shard where no number is given, needs no runtime, and no driver: what is due is fired by
    /// whoever moves the clock. [`alarm`](Builder::alarm) means nothing to it.
    ///
    /// ```
    /// use hairspring::{Timer, test_util::ManualClock};
    /// let clock = ManualClock::new();
    /// let timer = Timer::builder().clock(&clock).build().unwrap();
    /// assert_eq!(timer.now(), clock.now());
    /// ```
    #[cfg(feature = "test-util")]
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// Makes the timer, and spawns its driver on the current runtime. It ends with that runtime.
    ///
    /// # Errors
    /// For a setting out of its range, for an alarm that the runtime lacks something for, and outside a tokio runtime.
    /// Tokio can only be asked for what an alarm needs by a call that panics where it lacks it: the panic is caught, but
    /// its message is printed.
    ///
    /// ```
    /// assert!(hairspring::Timer::builder().build().is_err(), "there is no runtime here");
    /// ```
    pub fn build(self) -> Result<Timer, BuildError> {
        #[cfg(feature = "test-util")]
        if self.clock.is_some() {
            // Its driver has nothing to do, and is not to end the timer by being dropped.
            return Ok(self.by_hand()?.0);
        }
        let (runtime, timer, driver) = self.build_here()?;
        runtime.spawn(driver);
        Ok(timer)
    }

    fn build_here(self) -> Result<(Handle, Timer, Driver), BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError(Wrong::NoRuntime))?;
        if !own::fits(self.alarm) {
            return Err(BuildError(Wrong::Alarm(self.alarm)));
        }
        let (timer, driver) = self.build_with_driver()?;
        Ok((runtime, timer, driver))
    }

    /// Makes the timer, and the driver that has to be polled for the timer to fire, on whatever executor.
    ///
    /// # Errors
    /// For a setting out of its range.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (timer, driver) = hairspring::Timer::builder().build_with_driver().unwrap();
    /// tokio::spawn(driver);
    /// timer.sleep(hairspring::Duration::from_millis(1)).await;
    /// # }
    /// ```
    pub fn build_with_driver(self) -> Result<(Timer, Driver), BuildError> {
        #[cfg(feature = "test-util")]
        if self.clock.is_some() {
            let (timer, hub, epoch) = self.by_hand()?;
            return Ok((timer, Driver::new(hub, epoch, Alarm::Thread, false)));
        }
        Ok(self.settings()?.make())
    }

    /// A timer on the manual clock that was given, and its hub.
    #[cfg(feature = "test-util")]
    fn by_hand(mut self) -> Result<(Timer, &'static Hub, Epoch), BuildError> {
        let clock = self.clock.take().expect("only called with a clock");
        let shards = self.shards.unwrap_or(1);
        let settings = self.shards(shards).settings()?;
        let (hub, epoch) = clock.open(settings.shards, settings.grain.unwrap_or(0));
        Ok((Timer { hub, epoch }, hub, epoch))
    }

    fn settings(self) -> Result<Settings, BuildError> {
        let ours = Handle::try_current().map_or(1, |runtime| Settings::of(&runtime).shards);
        let shards = self.shards.unwrap_or(ours);
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(BuildError(Wrong::Shards(shards)));
        }
        let grain = match self.resolution {
            None => None,
            Some(resolution) if (FINEST..=COARSEST).contains(&resolution) => Some(resolution.as_nanos().ilog2()),
            Some(resolution) => return Err(BuildError(Wrong::Resolution(resolution))),
        };
        if self.alarm == Alarm::Timerfd && !cfg!(target_os = "linux") {
            return Err(BuildError(Wrong::Alarm(self.alarm)));
        }
        Ok(Settings { shards, grain, alarm: self.alarm })
    }

    /// As [`build`](Builder::build), and makes the timer the one that this runtime's sleeps go to from now on, wherever
    /// they do not name another. Sleeps that wait already stay with the timer they wait on.
    ///
    /// # Errors
    /// As [`build`](Builder::build).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::builder().shards(1).install().unwrap();
    /// assert_eq!(hairspring::Timer::current(), timer);
    /// # }
    /// ```
    pub fn install(self) -> Result<Timer, BuildError> {
        let (runtime, timer, driver) = self.build_here()?;
        current::install(&runtime, timer.clone(), driver);
        Ok(timer)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wrong::Shards(shards) => write!(f, "shards is {shards}: a timer has from 1 to {MOST_SHARDS}"),
            Wrong::Resolution(resolution) => {
                write!(f, "resolution is {resolution:?}: a timer's is from {FINEST:?} to {COARSEST:?}")
            }
            Wrong::Alarm(Alarm::Timerfd) => {
                f.write_str("alarm is Timerfd: that needs Linux, and a runtime built with `enable_io`")
            }
            Wrong::Alarm(alarm) => write!(f, "alarm is {alarm:?}: that needs a runtime built with `enable_time`"),
            Wrong::NoRuntime => {
                f.write_str("there is no tokio runtime here to spawn the driver on: build inside one, or with a driver")
            }
        }
    }
}

impl std::error::Error for BuildError {}
