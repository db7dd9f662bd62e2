//! [`Builder`]: makes a timer with settings of your own.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Timer;
use crate::clock;
use crate::core::alarm::Alarm;
use crate::core::driver::Driver;
use crate::core::lease::TimerLease;
use crate::core::registry;
use crate::core::settings::{MOST_SHARDS, Settings};
use crate::seam::ShowsTime;
use crate::wheel::Ticks;

const FINEST: Duration = Duration::from_micros(1);
const COARSEST: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Makes a [`Timer`] with settings of your own. [`Timer::builder`] returns one.
///
/// If a setting is out of range, the methods that build the timer return a [`BuildError`].
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
    coalesce: Option<Duration>,
    alarm: Alarm,
    name: Option<&'static str>,
    /// The clock that a test moves, if the timer is on one.
    pub(crate) clock: Option<Arc<dyn ShowsTime>>,
}

/// The error of a [`Builder`], or of a map's: a setting is out of range, or nothing can be built here.
///
/// ```
/// use hairspring::{Timer, timer::BuildError};
/// let error = Timer::builder().shards(0).build_with_driver().unwrap_err();
/// assert_eq!(error.to_string(), "shards is 0: a timer has from 1 to 1024");
/// assert!(matches!(error, BuildError::OutOfRange { setting: "shards", .. }));
/// assert_eq!(Timer::builder().build().unwrap_err(), BuildError::NoRuntime);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A setting has a value that is not allowed.
    #[non_exhaustive]
    OutOfRange {
        /// The method of the builder that set it.
        setting: &'static str,
        /// The value, as `Debug` shows it.
        given: String,
        /// The values that are allowed, in words.
        allowed: String,
    },
    /// There is no tokio runtime here that could run the driver.
    NoRuntime,
    /// The alarm cannot be made here.
    #[non_exhaustive]
    Alarm {
        /// The alarm that was set.
        alarm: Alarm,
        /// [`Unsupported`](io::ErrorKind::Unsupported) if the system or the runtime lacks what the alarm needs.
        /// Otherwise the kind of the error with which the system refused it.
        kind: io::ErrorKind,
        /// The reason in words.
        reason: String,
    },
}

impl BuildError {
    pub(crate) fn out_of_range(setting: &'static str, given: impl fmt::Debug, allowed: String) -> BuildError {
        BuildError::OutOfRange { setting, given: format!("{given:?}"), allowed }
    }

    fn of_alarm(alarm: Alarm, error: &io::Error) -> BuildError {
        let kind = error.kind();
        let reason = match (kind, alarm) {
            (io::ErrorKind::Unsupported, Alarm::Timerfd) => {
                "that needs Linux, and a runtime built with `enable_io`".into()
            }
            (io::ErrorKind::Unsupported, _) => "that needs a runtime built with `enable_time`".into(),
            _ => format!("the system refused it: {error}"),
        };
        BuildError::Alarm { alarm, kind, reason }
    }
}

impl Builder {
    /// Sets the number of shards, from 1 to 1024. A shard is a wheel behind a lock, and each thread uses one shard.
    ///
    /// The default is one shard for each worker of the current runtime. It is one shard on a current-thread runtime,
    /// and for [`build_with_driver`](Builder::build_with_driver) outside a runtime.
    ///
    /// ```
    /// assert!(hairspring::Timer::builder().shards(4).build_with_driver().is_ok());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets the resolution of deadlines, from 1 us to 1 s.
    ///
    /// Deadlines are rounded up to whole multiples of the resolution, which count from a fixed origin: the instants at
    /// which two sleeps end differ by a whole multiple. A coarse resolution therefore fires many timers with one
    /// wake-up, and none early. By default deadlines are not rounded, and dense timers are
    /// [coalesced](Builder::coalesce). With a resolution they are not, unless you ask for it.
    ///
    /// A sleep of zero, or one that has passed when it is first polled, also waits for the multiple after its deadline,
    /// and ends in a turn of the driver. So tasks that are ready run first, as with tokio's sleeps. The first poll is
    /// ready only if the driver has already gone by that multiple: an [`Interval`](crate::Interval) that is behind
    /// catches up at once.
    ///
    /// A queue or map on this timer, and timers on the [`boot`](crate::boot) and [`wall`](crate::wall) clocks, are woken
    /// at multiples, but a poll at any time returns what is past its deadline.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    /// assert!(Timer::builder().resolution(Duration::from_millis(1)).build_with_driver().is_ok());
    /// ```
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Gives the timer a [name](super::Timer::name): for its reporter, for errors ("the timer `requests` is at
    /// capacity"), for its `Debug`, and for the spans of the sleeps and intervals that are made on it. The name does
    /// not have to be unique. It costs nothing while the timer is used.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::builder().name("requests").build().unwrap();
    /// timer.shutdown();
    /// let error = timer.try_sleep(Duration::from_secs(60)).await.unwrap_err();
    /// assert!(error.to_string().starts_with("the timer `requests` has ended"));
    /// # }
    /// ```
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Sets how many sleeps may wait on the timer at a time, at least 1. By default only memory limits their number.
    ///
    /// A sleep counts from the first poll that finds its deadline ahead until it is fired, dropped or shut down. If the
    /// timer is full, [`try_sleep`](Timer::try_sleep) resolves to an [error](crate::error::Error::is_at_capacity).
    /// Futures that cannot return an error panic when polled: a sleep or timeout at its first poll and at its first
    /// poll after a reset, and an interval at any tick, because each of these needs a new place. A queue or a map
    /// counts as one sleep while it waits and needs a new place each time. Sleeps that already wait are not affected,
    /// and a sleep that is ready at its first poll needs no place.
    ///
    /// The limit applies to all shards together, so threads that register timers share a counter. It costs some
    /// nanoseconds for each timer.
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

    /// Sets how long a due timer may wait for company, at most one second; zero for not at all. The default is 1 ms, or
    /// zero with a [`resolution`](Builder::resolution).
    ///
    /// Each turn of the driver takes tens of microseconds of CPU time, however few timers it fires. As long as no more
    /// timers fire than one in each time of length `longest`, apart from some at once after a rest, each fires as it falls
    /// due. If more do, they share turns: a turn begins half of `longest` after the first deadline that it fires, and
    /// `longest` after the last turn. So with 1 ms there are a thousand such turns a second at most. After a crowd this
    /// goes on for 56 times `longest`. Nothing fires early.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    /// let precise = Timer::builder().coalesce(Duration::ZERO).build_with_driver();
    /// assert!(precise.is_ok());
    /// let error = Timer::builder().coalesce(Duration::from_secs(2)).build_with_driver().unwrap_err();
    /// assert_eq!(error.to_string(), "coalesce is 2s: a timer's is at most 1s");
    /// ```
    pub fn coalesce(mut self, longest: Duration) -> Self {
        self.coalesce = Some(longest);
        self
    }

    /// Sets what wakes the driver when a deadline is reached. The default is [`Alarm::Auto`].
    ///
    /// ```
    /// use hairspring::{Timer, timer::Alarm};
    /// assert!(Timer::builder().alarm(Alarm::Thread).build_with_driver().is_ok());
    /// ```
    pub fn alarm(mut self, alarm: Alarm) -> Self {
        self.alarm = alarm;
        self
    }

    /// Makes the timer and spawns its driver on the current runtime.
    ///
    /// The timer ends with that runtime, when it is [shut down](Timer::shutdown), or once no handle is left and nothing
    /// waits on it. All that was made on it counts as waiting until it is dropped: sleeps, timeouts, intervals, queues
    /// and maps.
    ///
    /// # Errors
    /// If a setting is out of range, if the runtime lacks something that the alarm needs, if the system refuses the
    /// alarm (for example because no more files can be opened), or outside a tokio runtime. [`Alarm`] says when tokio
    /// panics instead.
    ///
    /// # Panics
    /// If this is the process's first timer and the system refuses to start a thread.
    ///
    /// ```
    /// use hairspring::{Timer, timer::BuildError};
    /// match Timer::builder().build() {
    ///     Ok(_timer) => unreachable!("there is no runtime here"),
    ///     Err(BuildError::NoRuntime) => eprintln!("call this in a runtime"),
    ///     Err(error) => panic!("{error}"),
    /// }
    /// ```
    #[track_caller]
    pub fn build(self) -> Result<Timer, BuildError> {
        if self.clock.is_some() {
            // Its driver has nothing to do, and dropping the driver must not end the timer.
            return Ok(Timer::built(self.by_hand()?));
        }
        let (runtime, timer, driver) = self.build_here()?;
        let timer = Timer::built(timer);
        registry::spawn(&runtime, registry::DRIVER, driver.in_a_task_of(&runtime));
        Ok(timer)
    }

    /// Makes the timer and returns it with its driver. The timer fires only while some executor polls the driver.
    ///
    /// The timer ends when the driver is dropped, and otherwise as for [`build`](Builder::build). The driver then
    /// completes.
    ///
    /// The driver makes its [alarm](Builder::alarm) at its first poll. If the runtime lacks something that the alarm
    /// needs, or the system refuses the alarm, the driver uses the alarm thread instead. [`Alarm`] says when tokio
    /// panics then.
    ///
    /// # Errors
    /// If a setting is out of range, and for [`Alarm::Timerfd`] on systems other than Linux.
    ///
    /// # Panics
    /// In the same cases as [`build`](Builder::build).
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
        Ok((Timer::built(timer), driver))
    }

    /// Makes the timer and installs it as the default of the current runtime: all sleeps of the runtime use it from now
    /// on, unless they name another timer. Sleeps that already wait stay on their timer.
    ///
    /// The timer lives as long as the runtime, unless it is [shut down](Timer::shutdown) or another is installed in its
    /// place. Once it is replaced it ends as soon as no handle is left and nothing waits on it, and releases its task and
    /// its open file, if it has one.
    ///
    /// # Errors
    /// In the same cases as [`build`](Builder::build).
    ///
    /// # Panics
    /// In the same cases as [`build`](Builder::build).
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
        let timer = Timer::built(timer);
        registry::install(&runtime, timer.owner.clone(), driver);
        Ok(timer)
    }

    fn build_here(self) -> Result<(Handle, TimerLease, Driver), BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let alarm = self.alarm;
        let (timer, mut driver) = self.make()?;
        driver.make_alarm().map_err(|error| BuildError::of_alarm(alarm, &error))?;
        Ok((runtime, timer, driver))
    }

    fn make(self) -> Result<(TimerLease, Driver), BuildError> {
        if self.clock.is_some() {
            let timer = self.by_hand()?;
            return Ok((timer, Driver::new(timer, Alarm::Thread)));
        }
        Ok(Driver::with_timer(&self.settings()?))
    }

    /// A timer on the manual clock that was given.
    fn by_hand(&self) -> Result<TimerLease, BuildError> {
        // Borrowed only: dropping the clock ends its timers, which must not happen before something holds the new one.
        let clock = self.clock.as_ref().expect("only called with a clock");
        let shards = self.shards.unwrap_or(1);
        Ok(clock.open(&self.clone().shards(shards).settings()?))
    }

    fn settings(self) -> Result<Settings, BuildError> {
        let mut settings =
            Handle::try_current().map_or_else(|_| Settings::with_shards(1), |runtime| Settings::of(&runtime));
        let shards = self.shards.unwrap_or(settings.shards);
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(BuildError::out_of_range("shards", shards, format!("a timer has from 1 to {MOST_SHARDS}")));
        }
        settings.shards = shards;
        if let Some(resolution) = self.resolution {
            if !(FINEST..=COARSEST).contains(&resolution) {
                let allowed = format!("a timer's is from {FINEST:?} to {COARSEST:?}");
                return Err(BuildError::out_of_range("resolution", resolution, allowed));
            }
            // Deadlines that are rounded fall together by themselves.
            (settings.resolution, settings.coalesce) = (clock::ticks_in(resolution), Ticks(0));
        }
        if self.capacity == Some(0) {
            let allowed = format!("a timer holds from 1 to {} sleeps", usize::MAX);
            return Err(BuildError::out_of_range("capacity", 0, allowed));
        }
        settings.capacity = self.capacity;
        settings.name = self.name;
        if let Some(longest) = self.coalesce {
            if longest > LONGEST_WAIT {
                let allowed = format!("a timer's is at most {LONGEST_WAIT:?}");
                return Err(BuildError::out_of_range("coalesce", longest, allowed));
            }
            settings.coalesce = clock::ticks_in(longest);
        }
        if self.alarm == Alarm::Timerfd && !cfg!(target_os = "linux") {
            return Err(BuildError::of_alarm(self.alarm, &io::ErrorKind::Unsupported.into()));
        }
        settings.alarm = self.alarm;
        Ok(settings)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::OutOfRange { setting, given, allowed } => write!(f, "{setting} is {given}: {allowed}"),
            BuildError::NoRuntime => {
                f.write_str("no tokio runtime here for the driver: call `build` inside one, or use `build_with_driver`")
            }
            BuildError::Alarm { alarm, reason, .. } => write!(f, "alarm is {alarm:?}: {reason}"),
        }
    }
}

impl std::error::Error for BuildError {}
