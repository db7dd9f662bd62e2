//! [`Builder`]: builds a timer with custom settings.

use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Timer;
use crate::clock;
use crate::core::alarm::Alarm;
use crate::core::driver::Driver;
use crate::core::memory::TimerLease;
use crate::core::registry;
use crate::core::settings::{MOST_SHARDS, Settings};
use crate::core::tasks;
use crate::util::error::BuildError;
use crate::wheel::Ticks;

const FINEST: Duration = Duration::from_micros(1);
const COARSEST: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A clock that a test moves.
pub(crate) trait TestClock: fmt::Debug + Send + Sync + UnwindSafe + RefUnwindSafe {
    fn open(&self, settings: &Settings) -> TimerLease;
}

/// Builds a [`Timer`] with custom settings. Created by [`Timer::builder`].
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hairspring::error::BuildError> {
/// let timer = Timer::builder().shards(2).resolution(Duration::from_micros(100)).build()?;
/// timer.sleep(Duration::from_millis(1)).await;
/// # Ok(())
/// # }
/// ```
///
/// By default each runtime has one timer, with one shard per worker and deadlines that are not rounded. Most programs
/// need nothing else. If yours needs more:
///
/// - [`install`](Builder::install) builds the timer that all sleeps of the current runtime then use. Call it first in
///   `main`.
/// - [`build`](Builder::build) builds a separate timer for one part of a program.
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    shards: Option<usize>,
    resolution: Option<Duration>,
    max_pending: Option<usize>,
    coalesce: Option<Duration>,
    alarm: Alarm,
    name: Option<&'static str>,
    /// A clock controlled by a test.
    pub(crate) clock: Option<Arc<dyn TestClock>>,
}

/// The error of an alarm that could not be created.
fn alarm_error(alarm: Alarm, error: io::Error) -> BuildError {
    let unsupported = |lacks: &str| BuildError::unsupported(format!("alarm is {alarm:?}: {lacks}"));
    // Errors of the system have a number, even those of the kind `Unsupported`.
    match (error.kind(), error.raw_os_error(), alarm) {
        (io::ErrorKind::Unsupported, None, Alarm::Timerfd) => {
            unsupported("needs Linux, and a runtime built with `enable_io`")
        }
        (io::ErrorKind::Unsupported, None, _) => unsupported("needs a runtime built with `enable_time`"),
        // A paused clock.
        (io::ErrorKind::Other, None, _) => unsupported(&error.to_string()),
        _ => BuildError::by_system(format!("alarm is {alarm:?}: the system refused it: {error}"), error),
    }
}

impl Builder {
    /// Sets the number of shards, from 1 to 1024. A shard is a timing wheel behind a lock, and each thread uses one
    /// shard.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(hairspring::Timer::builder().shards(4).build().is_ok());
    /// # }
    /// ```
    ///
    /// The default is one shard per worker of the current runtime, so workers share no lock, and one on a
    /// current-thread runtime. Choose more if many threads outside the runtime register sleeps, and 1 for a separate
    /// timer with little to do: an empty shard takes about 12 kilobytes, and memory is taken for a number rounded up to
    /// a power of two.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets the resolution of deadlines, from 1 us to 1 s. The default is not to round.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// assert!(Timer::builder().resolution(Duration::from_millis(1)).build().is_ok());
    /// # }
    /// ```
    ///
    /// Deadlines are rounded up to a multiple of the resolution, counted from a fixed origin in the process. All sleeps
    /// that are due at one multiple share a wake-up, so a coarse resolution saves CPU time if many short sleeps fire.
    /// It saves nothing for timeouts that are cancelled, as most are. With a resolution, sleeps are
    /// [coalesced](Builder::coalesce) only if you ask for it.
    ///
    /// The rounding applies to every sleep, even to one of zero: it waits for the next multiple. An
    /// [`Interval`](crate::Interval) that is behind catches up immediately, up to the last multiple that was processed.
    ///
    /// Queues and maps are woken at multiples of the resolution, and then return what is due by that time.
    #[doc(alias = "granularity")]
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = Some(resolution);
        self
    }

    /// Names the timer. Errors ("the timer `requests` is full"), spans and `Debug` show the name. It need not be
    /// unique.
    ///
    /// # Examples
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

    /// Limits how many sleeps may wait at a time. The limit must be at least 1; by default there is none.
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = Timer::builder().max_pending(10_000).build().unwrap();
    /// match timer.try_sleep(Duration::from_millis(1)).await {
    ///     Ok(()) => {}
    ///     Err(error) if error.is_at_capacity() => eprintln!("shedding load: {error}"),
    ///     Err(error) => panic!("{error}"),
    /// }
    /// # }
    /// ```
    ///
    /// While that many sleeps wait, the timer is full, and refuses a future that has to wait. What then happens
    /// depends on the future:
    ///
    /// - What [`fallible`](crate::Timeout::fallible) returns, and a [`try_sleep`](Timer::try_sleep), resolve to an
    ///   [error](crate::error::Error::is_at_capacity), and so do the operations of an
    ///   [`io::TimeoutStream`](crate::io::TimeoutStream).
    /// - Anything else panics. Queues, maps, stream adapters, `tower::TimeoutLayer` and `HyperTimer` therefore refuse
    ///   such a timer, and [`install`](Builder::install) returns an error.
    ///
    /// A sleep counts while it is registered: from the first poll that has to wait until it fires, is dropped or is shut
    /// down, or until it is reset to a time that has passed. An interval counts while it waits for a tick. A full timer does not affect sleeps that already wait.
    ///
    /// A `TimeoutStream` counts as one for each direction. When a wait ends early or is postponed, it does not touch
    /// the timer, and counts until the deadline for which it waited. Dropping it makes room immediately.
    ///
    /// All shards share one counter, which adds some nanoseconds to each timer.
    #[doc(alias = "max_timers")]
    pub fn max_pending(mut self, sleeps: usize) -> Self {
        self.max_pending = Some(sleeps);
        self
    }

    /// Limits how long a due sleep may be delayed to share a wake-up with others. The limit is at most 1 s, and zero
    /// delays none. The default is 1 ms, or zero with a [`resolution`](Builder::resolution).
    ///
    /// ```
    /// use hairspring::{Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let precise = Timer::builder().coalesce(Duration::ZERO).build();
    /// assert!(precise.is_ok());
    /// let error = Timer::builder().coalesce(Duration::from_secs(2)).build().unwrap_err();
    /// assert_eq!(error.to_string(), "coalesce is 2s: must be at most 1s");
    /// # }
    /// ```
    ///
    /// Each turn takes tens of microseconds of CPU time, however few sleeps it fires. While at most one sleep fires per
    /// `longest`, apart from short bursts after a rest, each fires when it is due. Denser ones share turns: a turn
    /// begins `longest / 2` after the first deadline that it fires, but not earlier than `longest` after the previous
    /// turn. With 1 ms there are at most a thousand such turns a second. A single task that sleeps in a loop never
    /// counts as dense. After a burst, sleeps count as dense for up to 56 times `longest`. None fires early. With
    /// [`Alarm::Tokio`] this setting has no effect.
    #[doc(alias = "slack")]
    pub fn coalesce(mut self, longest: Duration) -> Self {
        self.coalesce = Some(longest);
        self
    }

    /// Sets the mechanism that wakes the driver at the earliest deadline. The default is [`Alarm::Auto`].
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{Duration, Timer, timer::Alarm};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), hairspring::error::BuildError> {
    /// // The cheapest alarm that is available here.
    /// let timer = Timer::builder().resolution(Duration::from_millis(1));
    /// let timer = timer.clone().alarm(Alarm::Timerfd).install().or_else(|_| timer.install())?;
    /// # assert_eq!(Timer::current(), timer);
    /// # Ok(())
    /// # }
    /// ```
    pub fn alarm(mut self, alarm: Alarm) -> Self {
        self.alarm = alarm;
        self
    }

    /// Builds the timer and spawns its driver on the current runtime.
    ///
    /// ```
    /// let error = hairspring::Timer::builder().build().unwrap_err();
    /// assert!(error.to_string().starts_with("no tokio runtime"));
    /// ```
    ///
    /// The timer ends with that runtime, when it is [shut down](Timer::shutdown), or when no handle and nothing created
    /// on it is left. It fires when that runtime has polled for I/O. A limit for a task of another runtime may pass
    /// although its data has arrived, so build a timer on the runtime of the tasks that use it.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is out of range, if there is no current tokio runtime or that was shut down, or if
    /// the runtime lacks what the alarm needs or the system cannot provide it, for example because too many files are
    /// open. A timer on a `ManualClock` needs no runtime. See [`Alarm`] for when tokio panics instead. If this is the
    /// process's first timer, the system may also refuse to start a thread, which all alarms but [`Alarm::Tokio`] need.
    #[track_caller]
    pub fn build(self) -> Result<Timer, BuildError> {
        if self.clock.is_some() {
            // It has no driver, and needs no runtime.
            return Ok(Timer::built(self.open()?.0));
        }
        let (runtime, timer, driver) = self.build_here()?;
        let timer = Timer::built(timer);
        let driver = tasks::spawn_driver(&runtime, driver.in_a_task_of(&runtime));
        if tasks::was_dropped(driver) { Err(BuildError::runtime_ended()) } else { Ok(timer) }
    }

    /// Builds the timer and makes it the default of the current runtime: all sleeps of the runtime use it from now on,
    /// unless they name another timer. Sleeps that already wait stay on their timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let timer = hairspring::Timer::builder().shards(1).install().unwrap();
    /// assert_eq!(hairspring::Timer::current(), timer);
    /// # }
    /// ```
    ///
    /// The timer lives as long as the runtime, unless it is [shut down](Timer::shutdown) or replaced by another
    /// `install`. A replaced timer ends as soon as no handle is left and nothing waits on it.
    ///
    /// If a task blocks on another runtime, or moves to one with its `LocalSet`, its sleeps may use the timer of either
    /// runtime, and wait until that is driven. Call [`Timer::sleep`] and
    /// [`Timer::timeout`] there instead.
    ///
    /// # Errors
    ///
    /// Returns an error as [`build`](Builder::build) does, and if [`max_pending`](Builder::max_pending) is set.
    pub fn install(self) -> Result<Timer, BuildError> {
        if let Some(most) = self.max_pending {
            let allowed = "must not be set for `install`, because a plain `sleep` would panic at the limit";
            return Err(BuildError::out_of_range("max_pending", most, allowed));
        }
        let (runtime, timer, driver) = self.build_here()?;
        let timer = Timer::built(timer);
        let driver = registry::install(&runtime, timer.owner.clone(), driver);
        if tasks::was_dropped(driver) { Err(BuildError::runtime_ended()) } else { Ok(timer) }
    }

    fn build_here(self) -> Result<(Handle, TimerLease, Driver), BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError::no_runtime())?;
        let (timer, alarm) = self.open()?;
        let mut driver = Driver::new(timer, alarm);
        driver.make_alarm().map_err(|error| alarm_error(alarm, error))?;
        Ok((runtime, timer, driver))
    }

    /// Opens the timer, and returns what its driver waits with.
    // Only borrowed: dropping a test's clock ends its timers, so something has to hold the new one first.
    fn open(&self) -> Result<(TimerLease, Alarm), BuildError> {
        let settings = self.settings()?;
        let opened = match &self.clock {
            Some(clock) => Ok((clock.open(&settings), Alarm::Thread)),
            None => TimerLease::try_open(false, &settings).map(|timer| (timer, settings.alarm)),
        };
        opened.map_err(|error| alarm_error(settings.alarm, error))
    }

    fn settings(&self) -> Result<Settings, BuildError> {
        let runtime = Handle::try_current().ok().filter(|_| self.clock.is_none());
        let mut settings = runtime.map_or_else(|| Settings::with_shards(1), |runtime| Settings::for_runtime(&runtime));
        let shards = self.shards.unwrap_or(settings.shards);
        BuildError::check_range("shards", shards, 1..=MOST_SHARDS)?;
        settings.shards = shards;
        if let Some(resolution) = self.resolution {
            BuildError::check_range("resolution", resolution, FINEST..=COARSEST)?;
            // Rounded deadlines already share wake-ups.
            (settings.resolution, settings.coalesce) = (clock::ticks_in(resolution), Ticks(0));
        }
        if self.max_pending == Some(0) {
            return Err(BuildError::out_of_range("max_pending", 0, "must be at least 1"));
        }
        settings.capacity = self.max_pending;
        settings.name = self.name;
        if let Some(longest) = self.coalesce {
            if longest > LONGEST_WAIT {
                return Err(BuildError::out_of_range(
                    "coalesce",
                    longest,
                    format_args!("must be at most {LONGEST_WAIT:?}"),
                ));
            }
            settings.coalesce = clock::ticks_in(longest);
        }
        if self.alarm == Alarm::Timerfd && !cfg!(target_os = "linux") {
            return Err(alarm_error(self.alarm, io::ErrorKind::Unsupported.into()));
        }
        settings.alarm = self.alarm;
        Ok(settings)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_system_without_such_files_is_not_taken_for_a_runtime_without_io() {
        let error = alarm_error(Alarm::Timerfd, io::Error::from_raw_os_error(libc::ENOSYS));
        assert!(error.to_string().starts_with("alarm is Timerfd: the system refused it: "), "{error}");
    }
}
