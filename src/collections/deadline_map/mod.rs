//! [`DeadlineMap`]: a map whose entries expire, each at a deadline that you can put off by key.
//!
//! ```
//! use hairspring::{DeadlineMap, Duration};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (sessions, mut expirations) = DeadlineMap::new();
//! let heartbeats = sessions.clone(); // for another task, or thread
//! sessions.insert(7, "ann", Duration::from_millis(1));
//! assert!(heartbeats.touch(&7, Duration::from_millis(2)));
//! assert_eq!(expirations.recv().await, Some((7, "ann")));
//! # }
//! ```
//
// Keys are spread by hash over shards, each with a lock, a hash table and timers. The hot operation is a touch that
// puts a deadline off. It finds the entry and writes the deadline; the entry's timer stays where it is until it fires.
//
// Invariants
// 1. Keys are hashed outside any lock, with a hasher seeded anew for each map, or the user's.
// 2. Each operation reads the clock once, outside any lock.
// 3. A shard is found by bits of the hash that its table does not use.
// 4. A shard is made for its first entry. Until then it counts as empty.

mod builder;
mod consumer;
mod error;
mod expirations;
mod insert;
mod inside;
#[cfg(test)]
mod models;
mod read;
mod shard;
mod state;
mod timers;
mod visit;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::panic::Location;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

pub use self::error::TryInsertError;
pub use super::Metrics;
use builder::Wanted;
pub use builder::{BuildError, Builder};
use consumer::Consumer;
pub use expirations::Expirations;
use shard::{Shards, Term, Waits};

use crate::clock;
use crate::core::place::Kind;
use crate::future::Sleep;
use crate::timer::Timer;
use crate::util::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

/// The default number of shards: enough that threads rarely contend for one.
fn default_shards() -> usize {
    static SHARDS: LazyLock<usize> = LazyLock::new(|| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (4 * threads).next_power_of_two().min(builder::MOST_SHARDS)
    });
    *SHARDS
}

/// A map from keys to values that expire, such as sessions, leases or connections whose heartbeats stop.
///
/// Any thread can insert, [touch](DeadlineMap::touch) and remove by key, through `&self`; clones are handles on the
/// same map. Expired entries come out of [`Expirations`], a stream for one consumer.
///
/// ```
/// use hairspring::{DeadlineMap, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// const IDLE: Duration = Duration::from_millis(5);
///
/// let (sessions, mut expirations) = DeadlineMap::new();
/// let start = Instant::now();
/// sessions.insert("ann", 1, IDLE);
/// sessions.insert("bob", 2, IDLE);
/// assert!(sessions.touch("bob", 2 * IDLE), "a heartbeat");
///
/// assert_eq!(expirations.recv().await, Some(("ann", 1)));
/// assert_eq!(expirations.recv().await, Some(("bob", 2)));
/// assert!(start.elapsed() >= 2 * IDLE);
/// assert!(!sessions.touch("ann", IDLE), "gone");
/// # }
/// ```
///
/// # Deadlines
/// A deadline is a duration from the call that sets it. It is kept to the nanosecond, without rounding. Zero is due at
/// once, and a duration of more than 500 years is treated as 500 years. The clock is that of the current runtime, as
/// [`Instant::now`](crate::Instant::now) reads it, or of the timer given to [`with_timer`](DeadlineMap::with_timer).
///
/// **From its deadline on, an entry is there for the stream only.** No other method finds it, and none gives it more
/// time, however late the consumer is. So nobody sees a value beyond its deadline, and no late heartbeat revives a
/// session. If its key is inserted again, the stream hands out both, the expired entry first.
///
/// An expired entry stays in memory until the stream hands it out. So a slow consumer needs no memory besides the
/// map's, and nothing is lost. Until then it counts in [`len`](DeadlineMap::len), [`is_empty`](DeadlineMap::is_empty)
/// and [`capacity`](Builder::capacity). [`clear`](DeadlineMap::clear) drops it, too.
///
/// # The two halves
/// When all handles are dropped, the remaining entries still expire, each at its deadline. Then the stream ends.
///
/// When the stream is dropped, the map stays usable. Nobody takes expired entries any more, so each insert drops up to
/// two of them, and a map in use does not grow for ever.
///
/// # Locks and your code
/// Keys are hashed outside the map's locks, and keys and values are dropped outside them, so `Hash` and `Drop` may use
/// the map and may panic.
///
/// The closures that you pass run under the lock of a shard, and so do `Clone` of values in [`get`](DeadlineMap::get)
/// and what a closure drops. They may panic: the map stays whole, and the entry that they were called with stays in it.
/// They may use other maps, but not the same one: that panics, whatever the key, and never deadlocks.
///
/// `Eq` and `Borrow` of keys run under a lock, too. They may panic, but must not use the same map, which can deadlock.
///
/// If you insert a key that is already in the map, the map keeps the old key and drops the new one.
///
/// # Cost
/// Each operation on a key locks one of a few shards (four for each processor, and at most 64) for about ten
/// nanoseconds plus cache misses. A touch that puts a deadline off only finds the entry and writes to it. The stream
/// moves the entry later: once in each period that the entry was given, not once for each touch.
///
/// An empty map takes about 500 bytes and 24 for each shard, so at most 2 kilobytes. A map with one entry takes 400
/// bytes more, so you can have one for each connection. The hash tables of the shards grow with their entries. A shard
/// with more than 16 entries also takes 12 kilobytes for a timing wheel, until the map is cleared.
/// [`builder`](DeadlineMap::builder) makes maps with fewer shards.
pub struct DeadlineMap<K, V, S = RandomState> {
    shared: Arc<Shared<K, V>>,
    hasher: S,
}

struct Shared<K, V> {
    shards: Shards<K, V>,
    consumer: Consumer,
    name: Option<Arc<str>>,
    /// The maximum number of entries, if it is limited.
    capacity: Option<usize>,
    /// `None` if the map uses the clock of the current runtime.
    timer: Option<Timer>,
    /// The line that made the map.
    made: &'static Location<'static>,
    /// The number of handles on this map.
    handles: AtomicUsize,
}

impl<K, V> Shared<K, V> {
    fn now(&self) -> Tick {
        self.timer.as_ref().map_or_else(clock::now, Timer::now_tick)
    }

    /// A sleep for the consumer, on the map's timer.
    #[track_caller]
    fn endless_sleep(&self) -> Sleep {
        let sleep = match &self.timer {
            Some(timer) => timer.sleep_until(clock::instant_of(Tick::MAX)),
            None => Sleep::new(Tick::MAX),
        };
        sleep.of(Kind::DeadlineMap).made_at(self.made)
    }

    /// Whether the last handle was dropped, so that nothing will be inserted.
    fn is_closed(&self) -> bool {
        self.handles.load(SeqCst) == 0
    }

    fn metrics(&self) -> Metrics {
        let mut metrics = Metrics { name: self.name.clone(), ..Metrics::default() };
        for (counts, len) in self.shards.iter().map(|shard| shard.counts()) {
            metrics.inserted += counts.inserted;
            metrics.expired += counts.expired;
            metrics.len += len;
        }
        metrics
    }
}

impl<K, V> Waits for Shared<K, V> {
    #[inline]
    fn registered(&self, deadline: Tick) {
        self.consumer.registered(deadline);
    }

    fn put_off(&self) {
        self.consumer.put_off(|| self.shards.iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX));
    }
}

impl<K: Hash + Eq, V> DeadlineMap<K, V> {
    /// Creates an empty map, and the stream of its expired entries.
    ///
    /// You can call this anywhere. The stream waits on the timer of the runtime that polls it.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// assert_eq!(map.remove("key"), Some("value"));
    /// ```
    #[track_caller]
    pub fn new() -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(Wanted::default(), RandomState::new())
    }

    /// The same as [`new`](DeadlineMap::new), but on `timer`, whose clock the map uses.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (map, mut expirations) = DeadlineMap::with_timer(&Timer::current());
    /// map.insert(1, 'a', Duration::from_millis(1));
    /// assert_eq!(expirations.recv().await, Some((1, 'a')));
    /// # }
    /// ```
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(Wanted { timer: Some(timer.clone()), ..Wanted::default() }, RandomState::new())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> DeadlineMap<K, V, S> {
    /// Sets an entry's deadline to `duration` from now, whether that is later or earlier than before. Returns `false`
    /// if the map does not have the key, or if its deadline has passed: a late heartbeat revives nothing.
    ///
    /// Use this for heartbeats. If it puts the deadline off, as it nearly always does, it costs no more than a look-up.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert(String::from("key"), (), Duration::from_secs(30));
    /// assert!(map.touch("key", Duration::from_secs(60)));
    /// assert!(!map.touch("no such key", Duration::from_secs(60)));
    /// ```
    pub fn touch<Q>(&self, key: &Q, duration: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.touch_with(key, duration, |_| ()).is_some()
    }

    /// Removes an entry and returns its value. Its memory is freed at once. Returns `None` if the map does not have the
    /// key, or if its deadline has passed: then the stream gets the entry. So exactly one of them gets it.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// assert_eq!(map.remove("key"), Some("value"));
    /// assert_eq!(map.remove("key"), None);
    /// ```
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.shared.shards.of(hash).remove(&*self.shared, hash, key, self.shared.now())
    }

    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    fn term(&self, duration: Duration) -> Term {
        Term { now: self.shared.now(), duration }
    }
}

impl<K, V> DeadlineMap<K, V> {
    /// Returns a builder, for a map with settings of your own.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::builder().shards(2).build().unwrap();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// ```
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }
}

impl<K, V, S> DeadlineMap<K, V, S> {
    #[track_caller]
    fn of(wanted: Wanted, hasher: S) -> (DeadlineMap<K, V, S>, Expirations<K, V>) {
        let Wanted { shards, capacity, timer, name } = wanted;
        let made = Location::caller();
        let shared = Arc::new(Shared {
            shards: Shards::new(shards, capacity),
            consumer: Consumer::new(),
            name,
            capacity,
            timer,
            made,
            handles: AtomicUsize::new(1),
        });
        let sleep = shared.endless_sleep();
        (DeadlineMap { shared: Arc::clone(&shared), hasher }, Expirations::of(shared, sleep))
    }

    /// Returns the number of entries, including those that have expired and were not handed out yet.
    ///
    /// Locks one shard after another. If other threads insert or remove meanwhile, the result may match no single
    /// moment.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::ZERO);
    /// assert_eq!(map.len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Returns whether the map has no entries: none that waits, and none that has expired and was not handed out yet.
    /// Takes no lock.
    ///
    /// ```
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::new();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.shards.iter().all(|shard| shard.next() == Tick::MAX)
    }

    /// Returns a snapshot of what the map has done so far. Locks one shard after another, for a moment each.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// map.remove("key");
    /// let metrics = map.metrics();
    /// assert_eq!((metrics.inserted(), metrics.removed()), (1, 1));
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.shared.metrics()
    }

    /// Drops all entries and frees their memory. Those that have expired and were not handed out yet are dropped, too:
    /// the stream does not get them.
    ///
    /// Empties one shard after another. What other threads insert meanwhile may stay.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    pub fn clear(&self) {
        // Drop nothing before all shards are empty: a drop may panic.
        let taken: Vec<_> = self.shared.shards.iter().map(|shard| shard.clear()).collect();
        self.shared.put_off();
        drop(taken);
    }
}

impl<K, V, S: Clone> Clone for DeadlineMap<K, V, S> {
    /// Returns another handle on the same map.
    fn clone(&self) -> Self {
        // First, as it may panic.
        let hasher = self.hasher.clone();
        self.shared.handles.fetch_add(1, Relaxed);
        DeadlineMap { shared: Arc::clone(&self.shared), hasher }
    }
}

impl<K, V, S> Drop for DeadlineMap<K, V, S> {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, SeqCst) == 1 {
            // The stream may end now.
            self.shared.consumer.wake();
        }
    }
}

impl<K, V, S> fmt::Debug for DeadlineMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DeadlineMap");
        if let Some(name) = &self.shared.name {
            shown.field("name", name);
        }
        shown.field("len", &self.len()).finish_non_exhaustive()
    }
}
