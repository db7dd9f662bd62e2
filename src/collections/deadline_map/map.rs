//! [`DeadlineMap`]: its handles, and the operations on all entries.
//
// The hash of a key selects a shard: a lock, a hash table and timers. The hot operation is a touch that postpones a
// deadline. It finds the entry and writes the new deadline; the timer stays where it is until it fires.
//
// Invariants
// 1. The bits of the hash that select the shard are not used by its table.
// 2. Each operation on all entries reads the clock once, outside any lock. What removes entries reads it again in a
//    shard in which another operation has read it since.

use std::fmt;
use std::hash::{Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::builder::Config;
use super::shared::Shared;
use super::state::Entry;
use super::{Builder, Expirations, Metrics};
#[cfg(feature = "metrics")]
use crate::collections::Published;
use crate::timer::Timer;
use crate::util::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::wheel::Tick;

/// A concurrent map whose entries expire unless they are touched.
///
/// ```
/// use hairspring::{DeadlineMap, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// const LEASE: Duration = Duration::from_secs(5);
///
/// let (leases, mut expirations) = DeadlineMap::new();
/// let start = Instant::now();
/// leases.insert("printer", "ann", LEASE);
/// leases.insert("scanner", "bob", LEASE);
/// assert!(leases.touch("scanner", 2 * LEASE)); // a heartbeat
///
/// assert_eq!(expirations.recv().await, Some(("printer", "ann")));
/// assert_eq!(expirations.recv().await, Some(("scanner", "bob")));
/// assert!(start.elapsed() >= 2 * LEASE);
/// assert!(!leases.touch("printer", LEASE), "it has expired");
/// # }
/// ```
///
/// Any thread can insert, [touch](DeadlineMap::touch), read and remove entries by key, through `&self`. Clones are
/// handles to the same map. Expired entries come out of [`Expirations`], a stream for one consumer.
///
/// It is not a bounded cache: a full map refuses entries, and evicts none. For a cache, use the crate `moka`.
///
/// **Keep the stream.** If it is dropped, as in `let (map, _) = DeadlineMap::new()`, the map silently drops entries
/// that expire. If you want that, call [`without_expirations`](DeadlineMap::without_expirations). See [the two
/// halves](DeadlineMap#the-two-halves).
///
/// # Deadlines
///
/// Deadlines are not rounded. A duration counts from the call that passes it. An entry with a duration of zero expires
/// immediately, one with more than 500 years never. The map reads the clock of the current runtime, as
/// [`Instant::now`](crate::Instant::now) does, or that of the timer passed to [`with_timer`](DeadlineMap::with_timer).
/// On a runtime whose clock is behind, as that of the next test, entries wait for that clock: none expires early. On
/// Linux and macOS, the clock stands still while the machine is suspended, so entries then live longer.
///
/// [`Builder::max_lifetime`] also limits how long an entry lives, however often it is touched.
///
/// # Live and expired entries
///
/// An entry is *live* until its deadline and *expired* from then on. Lookups, touches and removals see live entries
/// only, even if the consumer is late: a late heartbeat does not revive a session. A call on a key reads the clock
/// before it waits for a lock, and again if a call that has read it since was faster: an older touch never undoes a
/// newer one. If a call and the stream race for an entry, exactly one of them gets it. If the key of an expired entry
/// is inserted again, the stream returns both entries, the expired one first.
///
/// An expired entry stays in memory until the stream returns it, so a slow consumer needs no extra memory and loses
/// nothing. Until then it counts towards [`len`](DeadlineMap::len), [`is_empty`](DeadlineMap::is_empty) and the map's
/// [`max_entries`](Builder::max_entries). [`clear`](DeadlineMap::clear) drops expired entries too.
///
/// # The two halves
///
/// Once all handles are dropped, the remaining entries still expire at their deadlines, and then the stream ends. The
/// task that reads the stream should therefore not own a handle.
///
/// If the stream is dropped, the map stays usable. Each insert then drops up to two expired entries of its shard, so a
/// map in use does not grow without bound.
///
/// # Locks and your code
///
/// Keys are hashed, and keys and values are dropped, outside the map's locks. `Hash` and `Drop` may therefore use the
/// map, and may panic. If several drops panic while the map drops many entries, all other keys and values are dropped
/// nevertheless. If the drops of an entry's key and value both panic, or two drops within one insert, the process
/// aborts.
///
/// Your closures, including drops in them, and `Clone` of values run under the lock of a shard: keep them short. They
/// may use other maps; if threads nest two maps in opposite orders, these can deadlock. A call that locks the same map
/// panics, whatever the key, instead of deadlocking. If a closure panics, the map stays intact and keeps the entry.
///
/// `Eq` and `Borrow` of keys run under a lock too. They may panic, but must not use the same map: that can deadlock.
///
/// If the key already has a live entry, an insert keeps the old key and drops the new one.
///
/// # Cost
///
/// Each operation on a key locks one shard for about ten nanoseconds plus cache misses, unless the shard's hash table
/// grows or shrinks, which moves all its entries. There are four shards per CPU, and at most 64. A touch that postpones
/// a deadline only finds the entry and writes to it. The stream moves the entry later, once per period rather than once
/// per touch.
///
/// An empty map takes 500 bytes plus 24 per shard, at most 2 kilobytes, and the first entry adds about 400 bytes. With
/// [one shard](Builder::shards) you can have a map per connection. A shard with more than 16 entries also allocates a
/// timing wheel of 12 kilobytes, which it keeps until the map is cleared.
#[doc(alias = "ExpiringMap")]
pub struct DeadlineMap<K, V, S = RandomState> {
    pub(super) shared: Arc<Shared<K, V>>,
    pub(super) hasher: S,
}

impl<K: Hash + Eq, V> DeadlineMap<K, V> {
    /// Creates an empty map and the stream of its expired entries. [Keep the stream](DeadlineMap#the-two-halves).
    ///
    /// This needs no runtime. The stream waits on the timer of the runtime that polls it.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// assert_eq!(map.remove("key"), Some("value"));
    /// ```
    #[must_use = "without the map nothing can be inserted, and without the stream expired entries are dropped unseen"]
    #[track_caller]
    pub fn new() -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(Config::default(), RandomState::new())
    }

    /// Creates an empty map for a program that does not ask what has expired. Expired entries are dropped when
    /// something is inserted into the same part of the map.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let map = DeadlineMap::without_expirations();
    /// map.insert("key", "value", Duration::ZERO);
    /// assert_eq!(map.get("key"), None);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn without_expirations() -> DeadlineMap<K, V> {
        DeadlineMap::new().0
    }

    /// Creates an empty map that uses `timer` and its clock, and the stream of its expired entries. [Keep the
    /// stream](DeadlineMap#the-two-halves).
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
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending). [`Builder::timer`] makes that an
    /// error.
    #[must_use = "without the map nothing can be inserted, and without the stream expired entries are dropped unseen"]
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> (DeadlineMap<K, V>, Expirations<K, V>) {
        match DeadlineMap::builder().timer(timer).build() {
            Ok(halves) => halves,
            Err(error) => panic!("{error}"),
        }
    }
}

impl<K, V> DeadlineMap<K, V> {
    /// Returns a [`Builder`] to configure a map.
    ///
    /// # Examples
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
    pub(super) fn of(config: Config, hasher: S) -> (DeadlineMap<K, V, S>, Expirations<K, V>) {
        let shared = Arc::new(Shared::new(config));
        (DeadlineMap { shared: Arc::clone(&shared), hasher }, Expirations::of(shared))
    }

    /// Returns the number of entries, including expired ones that the stream has not returned yet.
    ///
    /// Locks one shard after another, so the result may be inexact while other threads insert or remove.
    ///
    /// # Examples
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
        self.shared.iter().map(|shard| shard.len()).sum()
    }

    /// Returns whether the map has no entries, not even expired ones. Takes no lock.
    ///
    /// # Examples
    ///
    /// ```
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::new();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.iter().all(|shard| shard.next() == Tick::MAX)
    }

    /// Returns a snapshot of the map's counters. Briefly locks one shard after another.
    ///
    /// # Examples
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

    #[cfg(feature = "metrics")]
    pub(crate) fn reader(&self) -> impl Fn() -> Published + Send + Sync + use<K, V, S> + 'static
    where
        K: Send + 'static,
        V: Send + 'static,
    {
        self.shared.reader()
    }

    /// Drops all entries, expired ones included, and frees their memory.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// map.clear();
    /// assert!(map.is_empty());
    /// ```
    ///
    /// Empties one shard after another. Entries that other threads insert at the same time may survive.
    ///
    /// # Panics
    ///
    /// Panics if the drop of a key or a value does. All others are dropped nevertheless.
    pub fn clear(&self) {
        self.shared.clear();
    }

    /// Calls `code` for each live entry, in no particular order, with its key, its value and the time until it expires.
    /// The clock is read once, so the times are comparable.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("a", 1, Duration::from_secs(30));
    /// map.insert("b", 2, Duration::from_secs(30));
    /// let (mut sum, mut next) = (0, Duration::MAX);
    /// map.for_each(|_key, value, remaining| (sum, next) = (sum + value, next.min(remaining)));
    /// assert!(sum == 3 && next <= Duration::from_secs(30));
    /// ```
    ///
    /// Locks one shard after another, each while its entries are visited. Concurrent changes may or may not be seen.
    ///
    /// # Panics
    ///
    /// Panics if `code` panics or [uses this map](DeadlineMap#locks-and-your-code). The map is unchanged.
    pub fn for_each(&self, mut code: impl FnMut(&K, &V, Duration)) {
        let now = self.shared.now();
        let mut code = |entry: &Entry<K, V>| code(&entry.key, &entry.value, entry.remaining(now));
        self.shared.iter().for_each(|shard| shard.visit_all(now, &mut code));
    }

    /// Drops each live entry for which `keep` returns `false`. `keep` may change values. It is not called for expired
    /// entries, which stay for the stream.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (sessions, _expirations) = DeadlineMap::new();
    /// sessions.insert(1, "ann", Duration::from_secs(30));
    /// sessions.insert(2, "bob", Duration::from_secs(30));
    /// sessions.retain(|_number, user| *user != "bob"); // logs a user out everywhere
    /// assert_eq!((sessions.get(&1), sessions.get(&2)), (Some("ann"), None));
    /// ```
    ///
    /// Locks shards as [`for_each`](DeadlineMap::for_each) does.
    ///
    /// # Panics
    ///
    /// Panics if `keep` panics or [uses this map](DeadlineMap#locks-and-your-code). The entry it was called with and
    /// all entries not yet visited stay. Panics too if the drop of a key or a value does. All rejected entries of its
    /// shard are dropped nevertheless, and those of shards not yet visited stay.
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let now = self.shared.now();
        self.shared.iter().for_each(|shard| shard.retain(now, &mut keep));
    }
}

impl<K, V, S: Clone> Clone for DeadlineMap<K, V, S> {
    /// Returns another handle to the same map.
    fn clone(&self) -> Self {
        // This may panic, so it comes first.
        let hasher = self.hasher.clone();
        self.shared.handles.fetch_add(1, Relaxed);
        DeadlineMap { shared: Arc::clone(&self.shared), hasher }
    }
}

impl<K, V, S> Drop for DeadlineMap<K, V, S> {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, SeqCst) == 1 {
            // The stream may end now: make it check, as if something were due.
            self.shared.consumer.registered(Tick::ZERO);
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
