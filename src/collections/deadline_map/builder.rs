//! [`Builder`] configures a map. [`TryInsertError`] is the error of a full map.

use std::fmt;
use std::hash::RandomState;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::{DeadlineMap, Expirations};
use crate::timer::Timer;
use crate::util::error::BuildError;

pub(super) const MOST_SHARDS: usize = 64;

/// Configures a [`DeadlineMap`]. Created by [`DeadlineMap::builder`].
///
/// [`build`](Builder::build) returns a [`BuildError`] if a setting is out of range.
///
/// # Examples
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// # fn main() -> Result<(), hairspring::error::BuildError> {
/// // One map per connection, used only by its task.
/// let (requests, _timed_out) = DeadlineMap::builder().shards(1).build()?;
/// requests.insert(17, "GET /", Duration::from_secs(30));
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder<K, V, S = RandomState> {
    config: Config,
    hasher: S,
    of: PhantomData<fn() -> (K, V)>,
}

#[derive(Clone)]
pub(super) struct Config {
    /// Rounded up to a power of two by `build`.
    pub(super) shards: usize,
    pub(super) max_entries: Option<usize>,
    pub(super) max_lifetime: Option<Duration>,
    pub(super) timer: Option<Timer>,
    pub(super) name: Option<&'static str>,
}

fn default_shards() -> usize {
    /// Zero until it is known. Threads may each find out, because a lock could stay locked in a forked child.
    static SHARDS: AtomicUsize = AtomicUsize::new(0);
    let known = SHARDS.load(Relaxed);
    if known > 0 {
        return known;
    }
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let shards = (4 * threads).next_power_of_two().min(MOST_SHARDS);
    SHARDS.store(shards, Relaxed);
    shards
}

impl Default for Config {
    fn default() -> Self {
        Config { shards: default_shards(), max_entries: None, max_lifetime: None, timer: None, name: None }
    }
}

impl<K, V> Builder<K, V> {
    pub(super) fn new() -> Self {
        Builder { config: Config::default(), hasher: RandomState::new(), of: PhantomData }
    }
}

impl<K, V, S> Builder<K, V, S> {
    /// Limits the number of entries, to 1 or more. By default there is no limit.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (sessions, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// assert!(sessions.try_insert("ann", 1, Duration::from_secs(30)).is_ok());
    /// assert!(sessions.try_insert("bob", 2, Duration::from_secs(30)).is_err());
    /// ```
    ///
    /// If a call would exceed the limit, it panics, or returns what it was given in an error if its name begins with
    /// `try_`, as in [`try_insert`](DeadlineMap::try_insert). An expired entry counts until the stream returns it, so a
    /// late consumer takes up room. If the stream was dropped, expired entries are dropped to make room.
    ///
    /// The limit is one counter for all shards. It adds a few nanoseconds to each insert and removal, and nothing to a
    /// touch.
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.config.max_entries = Some(entries);
        self
    }

    /// Sets the hasher. The default is a [`RandomState`] seeded per map, so outsiders cannot choose keys that collide.
    /// A faster hasher is safe if outsiders do not choose the keys.
    ///
    /// The map uses all 64 bits of a hash: bits 32 to 37 select the shard, the others the place in its table. A hasher
    /// that leaves some of these bits constant makes the map slow.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    ///
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// // The same hashes in every run, for a test.
    /// let hasher = BuildHasherDefault::<DefaultHasher>::new();
    /// let (map, _expirations) = DeadlineMap::builder().hasher(hasher).build().unwrap();
    /// map.insert("key", 1, Duration::from_secs(30));
    /// assert_eq!(map.get("key"), Some(1));
    /// ```
    pub fn hasher<H>(self, hasher: H) -> Builder<K, V, H> {
        Builder { config: self.config, hasher, of: PhantomData }
    }

    /// Limits the lifetime of an entry, however often it is touched. The minimum is a nanosecond. By default there is
    /// no limit.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// const IDLE: Duration = Duration::from_secs(30 * 60);
    /// const LIFETIME: Duration = Duration::from_secs(8 * 3_600);
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let (sessions, mut expirations) = DeadlineMap::builder().max_lifetime(LIFETIME).build().unwrap();
    /// let start = hairspring::Instant::now();
    /// sessions.insert("ann", 1, IDLE);
    /// while sessions.touch("ann", IDLE) {
    ///     hairspring::sleep(IDLE / 2).await;
    /// }
    /// assert_eq!(expirations.recv().await, Some(("ann", 1)));
    /// assert_eq!(start.elapsed(), LIFETIME);
    /// # }
    /// ```
    ///
    /// Use this to end a session after 30 idle minutes, and no later than 8 hours after it began. A lifetime begins
    /// with the [`insert`](DeadlineMap::insert) of a key, and restarts with each insert that replaces the value. A
    /// [`touch`](DeadlineMap::touch) beyond the end of the lifetime succeeds, and sets the deadline to that end.
    /// [`remaining`](DeadlineMap::remaining) takes the limit into account.
    ///
    /// The limit is not rounded, and one of more than 500 years is none. It takes no extra memory.
    pub fn max_lifetime(mut self, lifetime: Duration) -> Self {
        self.config.max_lifetime = Some(lifetime);
        self
    }

    /// Names the map in its errors and its `Debug` output. Names need not be unique.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::DeadlineMap;
    ///
    /// let (sessions, _expirations) = DeadlineMap::<u64, ()>::builder().name("sessions").build().unwrap();
    /// assert_eq!(format!("{sessions:?}"), r#"DeadlineMap { name: "sessions", len: 0, .. }"#);
    /// ```
    pub fn name(mut self, name: &'static str) -> Self {
        self.config.name = Some(name);
        self
    }

    /// Sets the number of shards, from 1 to 64, rounded up to a power of two. Each shard is a lock around the keys
    /// whose hashes select it. The default is four per CPU, at most 64, so threads rarely contend for a lock.
    ///
    /// One shard is enough if a single task uses the map, for example for the requests of one connection. Such a map
    /// takes half a kilobyte while it is empty. A shard allocates memory when its first entry is inserted.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::DeadlineMap;
    /// assert!(DeadlineMap::<u64, ()>::builder().shards(64).build().is_ok());
    /// assert!(DeadlineMap::<u64, ()>::builder().shards(65).build().is_err());
    /// ```
    pub fn shards(mut self, shards: usize) -> Self {
        self.config.shards = shards;
        self
    }

    /// Sets the timer that the stream waits on, and whose clock the map reads. By default the stream waits on the timer
    /// of the runtime that polls it, and the map reads the clock of the current runtime. The timer must have no
    /// [`max_pending`](crate::timer::Builder::max_pending), because the stream cannot return its errors. It should be
    /// one of the runtime that polls the stream: see [`build`](crate::timer::Builder::build).
    ///
    /// # Examples
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
        self.config.timer = Some(timer.clone());
        self
    }

    /// Creates the map and the stream of its expired entries. [Keep the stream](DeadlineMap#the-two-halves).
    ///
    /// ```
    /// let error = hairspring::DeadlineMap::<u64, ()>::builder().shards(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "shards is 0: must be from 1 to 64");
    ///
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::builder().build().unwrap();
    /// assert!(map.is_empty());
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the number of shards, `max_entries` or the maximum lifetime is out of range, or if the timer
    /// has [`max_pending`](crate::timer::Builder::max_pending).
    #[must_use = "without the map nothing can be inserted, and without the stream expired entries are dropped unseen"]
    #[track_caller]
    #[allow(clippy::type_complexity)] // The two halves, as in `new`.
    pub fn build(self) -> Result<(DeadlineMap<K, V, S>, Expirations<K, V>), BuildError> {
        let Builder { mut config, hasher, .. } = self;
        BuildError::check_range("shards", config.shards, 1..=MOST_SHARDS)?;
        if config.max_entries == Some(0) {
            return Err(BuildError::out_of_range("max_entries", 0, "must be at least 1"));
        }
        if let Some(lifetime @ Duration::ZERO) = config.max_lifetime {
            return Err(BuildError::out_of_range("max_lifetime", lifetime, "must be at least 1ns"));
        }
        if let Some(most) = config.timer.as_ref().and_then(|timer| timer.lease.capacity()) {
            let allowed = "must be one without, because the stream cannot return an error";
            return Err(BuildError::out_of_range("timer", format_args!("one with a `max_pending` of {most}"), allowed));
        }
        config.shards = config.shards.next_power_of_two();
        Ok(DeadlineMap::of(config, hasher))
    }
}

impl<K, V, S> fmt::Debug for Builder<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { shards, max_entries, max_lifetime, timer, name } = &self.config;
        f.debug_struct("Builder")
            .field("shards", shards)
            .field("max_entries", max_entries)
            .field("max_lifetime", max_lifetime)
            .field("timer", timer)
            .field("name", name)
            .finish_non_exhaustive()
    }
}

impl<K, V, S: Clone> Clone for Builder<K, V, S> {
    fn clone(&self) -> Self {
        Builder { config: self.config.clone(), hasher: self.hasher.clone(), of: PhantomData }
    }
}

/// The error of [`DeadlineMap::try_insert`] and [`DeadlineMap::try_insert_if_absent`]: the map is at its
/// [`max_entries`](Builder::max_entries), or in the second case the key may have an entry already. It contains the key
/// and the value.
///
/// # Examples
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// let (sessions, _expirations) = DeadlineMap::builder().name("sessions").max_entries(2).build().unwrap();
/// sessions.insert("ann", 1, Duration::from_secs(30));
/// sessions.insert("bob", 2, Duration::from_secs(30));
/// let error = sessions.try_insert("cid", 3, Duration::from_secs(30)).unwrap_err();
/// assert_eq!(error.to_string(), "the map `sessions` is full: it has room for 2 entries");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TryInsertError<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    /// `None` if the key has an entry.
    pub(super) max_entries: Option<usize>,
    pub(super) name: Option<&'static str>,
}

impl<K, V> TryInsertError<K, V> {
    /// Returns `true` if the map was full, and `false` if the key already had an entry.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// map.insert(1, 'a', Duration::from_secs(30));
    /// assert!(map.try_insert_if_absent(2, 'b', Duration::from_secs(30)).is_err_and(|error| error.is_full()));
    /// assert!(map.try_insert_if_absent(1, 'b', Duration::from_secs(30)).is_err_and(|error| !error.is_full()));
    /// ```
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.max_entries.is_some()
    }

    /// Returns the key and the value that were refused.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// map.insert(1, 'a', Duration::from_secs(30));
    /// assert_eq!(map.try_insert(2, 'b', Duration::from_secs(30)).unwrap_err().into_inner(), (2, 'b'));
    /// ```
    pub fn into_inner(self) -> (K, V) {
        (self.key, self.value)
    }
}

impl<K, V> fmt::Display for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the map ")?;
        if let Some(name) = &self.name {
            write!(f, "`{name}` ")?;
        }
        match self.max_entries {
            None => f.write_str("has an entry for this key"),
            Some(1) => f.write_str("is full: it has room for 1 entry"),
            Some(most) => write!(f, "is full: it has room for {most} entries"),
        }
    }
}

// Keys and values need not be `Debug`.
impl<K, V> fmt::Debug for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max_entries, name, .. } = self;
        f.debug_struct("TryInsertError").field("max_entries", max_entries).field("name", name).finish_non_exhaustive()
    }
}

impl<K, V> std::error::Error for TryInsertError<K, V> {}
