//! [`Builder`]: a timer made to measure.
//!
//! Must not know: the inside of the futures.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Timer;
use crate::core::alarm::Alarm;
use crate::core::alarm::own::Unfit;
use crate::core::driver::Driver;
use crate::core::settings::{MOST_SHARDS, Settings};
use crate::core::shards::TimerLease;
use crate::core::{registry, task};
#[cfg(feature = "test-util")]
use crate::test_util::manual::ManualClock;

const FINEST: Duration = Duration::from_micros(1);
const COARSEST: Duration = Duration::from_secs(1);

/// Makes a [`Timer`] with settings of its own. Made by [`Timer::builder`].
///
/// A setting out of its range is told of by the [`BuildError`] of what builds.
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
    capacity: Option<usize>,
    alarm: Alarm,
    #[cfg(feature = "test-util")]
    clock: Option<ManualClock>,
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
    Capacity,
    Alarm(Alarm),
    /// What the system said.
    AlarmRefused(Alarm, String),
    NoRuntime,
}

impl BuildError {
    fn of_alarm(alarm: Alarm, unfit: &Unfit) -> BuildError {
        BuildError(match unfit {
            Unfit::Lacking => Wrong::Alarm(alarm),
            Unfit::InsertError(error) => Wrong::AlarmRefused(alarm, error.to_string()),
        })
    }
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

    /// How far apart the instants lie at which timers fire, from 1 us to 1 s, rounded down to a power of two nanoseconds:
    /// a millisecond becomes 2^19 of them, 0.52 ms. For about a millisecond say `Duration::from_nanos(1 << 20)`.
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

    /// How many sleeps may wait on the timer at a time, at least 1. Without this there is no limit but memory.
    ///
    /// A sleep counts from the first poll that finds its deadline ahead until it is fired, dropped or shut down. Where
    /// the timer is full, [`try_sleep`](Timer::try_sleep) resolves to an [error](crate::error::Error::is_at_capacity),
    /// and what cannot tell of an error panics when it is polled: a sleep or timeout for the first time or after a reset,
    /// an interval at any tick, as each asks for room anew. A queue or map counts as one sleep while it waits, and asks
    /// anew each time. Those that wait are not disturbed, and what is ready at its first poll needs no room.
    ///
    /// The limit holds over all shards, so threads that arm timers share a counter: some nanoseconds each time.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::builder().capacity(10_000).build().unwrap();
    /// match timer.try_sleep(Duration::from_millis(1)).await {
    ///     Ok(()) => {}
    ///     Err(error) if error.is_at_capacity() => eprintln!("shedding load: {error}"),
    ///     Err(error) => panic!("{error}"),
    /// }
    /// # }
    /// ```
    pub fn capacity(mut self, sleeps: usize) -> Self {
        self.capacity = Some(sleeps);
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

    /// Makes the timer, and spawns its driver on the current runtime.
    ///
    /// It ends with that runtime, when it is [shut down](Timer::shutdown), and when the last handle on it is dropped:
    /// clones of the [`Timer`], and intervals, queues and maps made on it. Sleeps and timeouts are no handles.
    ///
    /// # Errors
    /// For a setting out of its range, for an alarm that the runtime lacks something for or the system refuses (if no
    /// more files can be opened, say), and outside a tokio runtime. [`Alarm`] says when tokio panics instead.
    ///
    /// # Panics
    /// Where this is the process's first timer and the system refuses it a thread.
    ///
    /// ```
    /// assert!(hairspring::Timer::builder().build().is_err(), "there is no runtime here");
    /// ```
    #[track_caller]
    pub fn build(self) -> Result<Timer, BuildError> {
        #[cfg(feature = "test-util")]
        if self.clock.is_some() {
            // Its driver has nothing to do, and is not to end the timer by being dropped.
            return Ok(Timer::owning(self.by_hand()?));
        }
        let (runtime, timer, driver) = self.build_here()?;
        let timer = Timer::owning(timer);
        task::spawn(&runtime, registry::DRIVER, driver.in_a_task());
        Ok(timer)
    }

    /// Makes the timer, and the driver that has to be polled for the timer to fire, on whatever executor.
    ///
    /// The timer ends when the driver is dropped, when it is [shut down](Timer::shutdown), and with its last handle, as
    /// told at [`build`](Builder::build). The driver then completes.
    ///
    /// The driver makes its [alarm](Builder::alarm) when it is first polled. If the runtime lacks what that needs, or the
    /// system refuses it, the driver takes the alarm thread instead. [`Alarm`] says when tokio panics then.
    ///
    /// # Errors
    /// For a setting out of its range, and for [`Alarm::Timerfd`] on other systems than Linux.
    ///
    /// # Panics
    /// As [`build`](Builder::build).
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
        let (timer, driver) = self.make()?;
        Ok((Timer::owning(timer), driver))
    }

    /// Makes the timer the one that this runtime's sleeps go to from now on, wherever they do not name another. Sleeps
    /// that wait already stay with the timer they wait on.
    ///
    /// It lives as long as the runtime, unless it is [shut down](Timer::shutdown); handles do not matter to it.
    ///
    /// # Errors
    /// As [`build`](Builder::build).
    ///
    /// # Panics
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
        registry::install(&runtime, timer, driver);
        Ok(Timer::of_runtime(timer))
    }

    fn build_here(self) -> Result<(Handle, TimerLease, Driver), BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError(Wrong::NoRuntime))?;
        let alarm = self.alarm;
        let (timer, mut driver) = self.make()?;
        driver.make_alarm().map_err(|unfit| BuildError::of_alarm(alarm, &unfit))?;
        Ok((runtime, timer, driver))
    }

    fn make(self) -> Result<(TimerLease, Driver), BuildError> {
        #[cfg(feature = "test-util")]
        if self.clock.is_some() {
            let timer = self.by_hand()?;
            return Ok((timer, Driver::new(timer, Alarm::Thread, false)));
        }
        Ok(self.settings()?.make())
    }

    /// A timer on the manual clock that was given.
    #[cfg(feature = "test-util")]
    fn by_hand(&self) -> Result<TimerLease, BuildError> {
        // Only borrowed: a clock that goes ends its timers, which is not to be before somebody holds the new one.
        let clock = self.clock.as_ref().expect("only called with a clock");
        let shards = self.shards.unwrap_or(1);
        Ok(clock.open(self.clone().shards(shards).settings()?.wanted()))
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
        if self.capacity == Some(0) {
            return Err(BuildError(Wrong::Capacity));
        }
        if self.alarm == Alarm::Timerfd && !cfg!(target_os = "linux") {
            return Err(BuildError(Wrong::Alarm(self.alarm)));
        }
        Ok(Settings { shards, grain, capacity: self.capacity, alarm: self.alarm })
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Wrong::Shards(shards) => write!(f, "shards is {shards}: a timer has from 1 to {MOST_SHARDS}"),
            Wrong::Resolution(resolution) => {
                write!(f, "resolution is {resolution:?}: a timer's is from {FINEST:?} to {COARSEST:?}")
            }
            Wrong::Capacity => write!(f, "capacity is 0: a timer holds from 1 to {} sleeps", usize::MAX),
            Wrong::Alarm(Alarm::Timerfd) => {
                f.write_str("alarm is Timerfd: that needs Linux, and a runtime built with `enable_io`")
            }
            Wrong::Alarm(alarm) => write!(f, "alarm is {alarm:?}: that needs a runtime built with `enable_time`"),
            Wrong::AlarmRefused(alarm, said) => write!(f, "alarm is {alarm:?}: the system refuses it: {said}"),
            Wrong::NoRuntime => {
                f.write_str("there is no tokio runtime here to spawn the driver on: build inside one, or with a driver")
            }
        }
    }
}

impl std::error::Error for BuildError {}
