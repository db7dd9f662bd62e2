//! [`Builder`]: a timer made to measure.
//!
//! Must not know: the inside of the futures.

use std::fmt;

use tokio::runtime::{Handle, RuntimeFlavor};

use super::{Timer, current};
use crate::driver::Driver;

/// The most shards a timer may have.
const MOST_SHARDS: usize = 1024;

/// Makes a [`Timer`] with settings of its own. Made by [`Timer::builder`].
///
/// ```
/// use hairspring::{Duration, Timer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hairspring::timer::BuildError> {
/// let timer = Timer::builder().shards(2).build()?;
/// timer.sleep(Duration::from_millis(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    shards: Option<usize>,
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

    /// Makes the timer, and spawns its driver on the current runtime. It ends with that runtime.
    ///
    /// # Errors
    /// For a setting out of its range, and outside a tokio runtime.
    ///
    /// ```
    /// assert!(hairspring::Timer::builder().build().is_err(), "there is no runtime here");
    /// ```
    pub fn build(self) -> Result<Timer, BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError(Wrong::NoRuntime))?;
        let (timer, driver) = self.build_with_driver()?;
        runtime.spawn(driver);
        Ok(timer)
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
        let shards = match self.shards {
            Some(shards) if (1..=MOST_SHARDS).contains(&shards) => shards,
            Some(shards) => return Err(BuildError(Wrong::Shards(shards))),
            None => Handle::try_current().map_or(1, |runtime| shards_for(&runtime)),
        };
        Ok(Timer::with_driver(shards))
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
        let runtime = Handle::try_current().map_err(|_| BuildError(Wrong::NoRuntime))?;
        let (timer, driver) = self.build_with_driver()?;
        current::install(&runtime, timer.clone(), driver);
        Ok(timer)
    }
}

/// How many shards a runtime's timer has when nobody says.
pub(super) fn shards_for(runtime: &Handle) -> usize {
    match runtime.runtime_flavor() {
        RuntimeFlavor::CurrentThread => 1,
        _ => runtime.metrics().num_workers().min(MOST_SHARDS),
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wrong::Shards(shards) => write!(f, "shards is {shards}: a timer has from 1 to {MOST_SHARDS}"),
            Wrong::NoRuntime => {
                f.write_str("there is no tokio runtime here to spawn the driver on: build inside one, or with a driver")
            }
        }
    }
}

impl std::error::Error for BuildError {}
