//! [`Builder`]: makes a map with settings of your own.

use std::fmt;
use std::marker::PhantomData;

use super::{DeadlineMap, Expirations};
use crate::timer::Timer;

/// The maximum number of shards of a map.
pub(super) const MOST_SHARDS: usize = 64;

/// Makes a [`DeadlineMap`] with settings of your own. [`DeadlineMap::builder`] returns one.
///
/// If a setting is out of range, [`build`](Builder::build) returns a [`BuildError`].
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// # fn main() -> Result<(), hairspring::deadline_map::BuildError> {
/// // One for each connection, used by its task alone.
/// let (requests, _timed_out) = DeadlineMap::builder().shards(1).build()?;
/// requests.insert(17, "GET /", Duration::from_secs(30));
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder<K, V> {
    shards: Option<usize>,
    timer: Option<Timer>,
    of: PhantomData<fn() -> (K, V)>,
}

/// The error of a [`Builder`] with a setting out of range.
///
/// ```
/// use hairspring::DeadlineMap;
/// let error = DeadlineMap::<u64, ()>::builder().shards(0).build().unwrap_err();
/// assert_eq!(error.to_string(), "shards is 0: a map has from 1 to 64");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(Wrong);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrong {
    Shards(usize),
}

impl<K, V> Builder<K, V> {
    pub(super) fn new() -> Self {
        Builder { shards: None, timer: None, of: PhantomData }
    }

    /// Sets how many shards the map has, from 1 to 64, rounded up to a power of two. Each shard is a lock and the keys
    /// whose hashes select it. A map that only one thread uses needs one shard.
    ///
    /// By default there are four shards for each processor, and at most 64, so that threads rarely contend for a lock.
    /// A shard takes memory from its first entry on.
    ///
    /// ```
    /// use hairspring::DeadlineMap;
    /// assert!(DeadlineMap::<u64, ()>::builder().shards(64).build().is_ok());
    /// assert!(DeadlineMap::<u64, ()>::builder().shards(65).build().is_err());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets the timer that the stream waits on. The map uses its clock, whatever runtime polls the stream. By default
    /// it is the timer of the runtime that polls the stream.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (map, mut expirations) = DeadlineMap::builder().timer(&Timer::current()).build().unwrap();
    /// map.insert(1, 'a', Duration::from_millis(1));
    /// assert_eq!(expirations.recv().await, Some((1, 'a')));
    /// # }
    /// ```
    pub fn timer(mut self, timer: &Timer) -> Self {
        self.timer = Some(timer.clone());
        self
    }

    /// Makes the map and the stream of its expired entries.
    ///
    /// # Errors
    /// If the number of shards is out of range.
    ///
    /// ```
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::builder().build().unwrap();
    /// assert!(map.is_empty());
    /// ```
    #[track_caller]
    #[allow(clippy::type_complexity)] // The two halves, as in `new`.
    pub fn build(self) -> Result<(DeadlineMap<K, V>, Expirations<K, V>), BuildError> {
        let shards = self.shards.unwrap_or_else(super::default_shards);
        if !(1..=MOST_SHARDS).contains(&shards) {
            return Err(BuildError(Wrong::Shards(shards)));
        }
        Ok(DeadlineMap::of(shards.next_power_of_two(), self.timer))
    }
}

impl<K, V> fmt::Debug for Builder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("shards", &self.shards).field("timer", &self.timer).finish()
    }
}

impl<K, V> Clone for Builder<K, V> {
    fn clone(&self) -> Self {
        Builder { shards: self.shards, timer: self.timer.clone(), of: PhantomData }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wrong::Shards(shards) => write!(f, "shards is {shards}: a map has from 1 to {MOST_SHARDS}"),
        }
    }
}

impl std::error::Error for BuildError {}
