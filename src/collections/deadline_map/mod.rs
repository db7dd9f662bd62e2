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

mod builder;
mod consumer;
mod expirations;
#[cfg(test)]
mod models;
mod shard;
mod state;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

pub use super::Metrics;
#[cfg(feature = "metrics")]
use super::Published;
use builder::Wanted;
pub use builder::{Builder, TryInsertError};
pub use expirations::Expirations;
use shard::{GET, GET_WITH, GET_WITH_REMAINING, OURS, Shared, TOUCH_WITH, UPDATE};
use state::Entry;

use crate::clock::{self, Instant};
pub use crate::timer::BuildError;
use crate::timer::Timer;
use crate::util::sync::atomic::Ordering::{Relaxed, SeqCst};
use crate::wheel::Tick;

/// How many expired entries an insert discards if there is no consumer.
const DISCARDED: usize = 2;

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
/// **Keep the stream.** If it is dropped, as in `let (map, _) = DeadlineMap::new()`, nobody sees the entries that expire:
/// the map drops them. See [the two halves](DeadlineMap#the-two-halves).
///
/// # Deadlines
/// A deadline is a duration from the call that sets it. It is kept to the nanosecond, without rounding. Zero is due at
/// once, and a duration of more than 500 years is treated as 500 years. The clock is that of the current runtime, as
/// [`Instant::now`](crate::Instant::now) reads it, or of the timer given to [`with_timer`](DeadlineMap::with_timer).
///
/// A map may also limit how long an entry lives, whatever its deadlines: see [`Builder::max_lifetime`].
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
/// They may use other maps. A call that locks the same map panics, whatever the key, and never deadlocks.
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

impl<K: Hash + Eq, V> DeadlineMap<K, V> {
    /// Creates an empty map, and the stream of its expired entries. [Keep the stream](DeadlineMap#the-two-halves).
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
    #[must_use = "without the map nothing can be inserted, and without the stream expired entries are dropped unseen"]
    #[track_caller]
    pub fn new() -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(Wanted::default(), RandomState::new())
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
    #[must_use = "without the map nothing can be inserted, and without the stream expired entries are dropped unseen"]
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(Wanted { timer: Some(timer.clone()), ..Wanted::default() }, RandomState::new())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> DeadlineMap<K, V, S> {
    /// Inserts an entry that expires after `duration`. If the key is already in the map, its entry gets the new value
    /// and deadline, and the old value is returned.
    ///
    /// An entry whose deadline has passed is not there for this, even if the stream has not returned it yet. So the
    /// result is `None`, and the stream returns that entry, and later the new one, too.
    ///
    /// Wakes the consumer if this entry expires before all others.
    ///
    /// # Panics
    /// If the key is new, or its entry has expired, and the map is [full](Builder::capacity);
    /// [`try_insert`](DeadlineMap::try_insert) returns an error instead. If a shard would hold more than 2^32 - 128
    /// entries.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// assert_eq!(map.insert("key", 1, Duration::from_secs(30)), None);
    /// assert_eq!(map.insert("key", 2, Duration::from_secs(60)), Some(1));
    /// assert!(map.remaining("key") > Some(Duration::from_secs(30)));
    /// ```
    #[track_caller]
    pub fn insert(&self, key: K, value: V, duration: Duration) -> Option<V> {
        expect_room(self.try_insert(key, value, duration))
    }

    /// Inserts an entry that expires at `deadline`, or at once if that has passed. Otherwise the same as
    /// [`insert`](DeadlineMap::insert).
    ///
    /// # Panics
    /// In the same cases as [`insert`](DeadlineMap::insert).
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, Instant};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// let deadline = Instant::now() + Duration::from_secs(30);
    /// assert_eq!(map.insert_at("key", 1, deadline), None);
    /// assert!(map.remaining("key") <= Some(Duration::from_secs(30)));
    /// ```
    #[track_caller]
    pub fn insert_at(&self, key: K, value: V, deadline: Instant) -> Option<V> {
        expect_room(self.try_insert_at(key, value, deadline))
    }

    /// Inserts an entry as [`insert`](DeadlineMap::insert) does, and returns an error if the map is full.
    ///
    /// # Errors
    /// If the key is new, or its entry has expired, and the map is at its [capacity](Builder::capacity). The
    /// error has the key and the value.
    ///
    /// # Panics
    /// If a shard would hold more than 2^32 - 128 entries.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    /// assert_eq!(map.try_insert("ann", 1, Duration::from_secs(30)), Ok(None));
    /// assert_eq!(map.try_insert("ann", 2, Duration::from_secs(30)), Ok(Some(1)), "this takes no more room");
    /// let full = map.try_insert("bob", 3, Duration::from_secs(30)).unwrap_err();
    /// assert_eq!(full.to_string(), "the map is at capacity: it has room for 1 entry");
    /// assert_eq!(full.into_inner(), ("bob", 3));
    /// ```
    pub fn try_insert(&self, key: K, value: V, duration: Duration) -> Result<Option<V>, TryInsertError<K, V>> {
        let hash = self.hash(&key);
        let now = self.shared.now();
        self.insert_hashed(hash, key, value, clock::later(now, duration), now)
    }

    /// Inserts an entry as [`insert_at`](DeadlineMap::insert_at) does, and returns an error if the map is full.
    ///
    /// # Errors
    /// In the same cases as [`try_insert`](DeadlineMap::try_insert).
    ///
    /// # Panics
    /// If a shard would hold more than 2^32 - 128 entries.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, Instant};
    ///
    /// let (map, _expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    /// let deadline = Instant::now() + Duration::from_secs(30);
    /// assert_eq!(map.try_insert_at("ann", 1, deadline), Ok(None));
    /// assert_eq!(map.try_insert_at("bob", 2, deadline).unwrap_err().into_inner(), ("bob", 2));
    /// ```
    pub fn try_insert_at(&self, key: K, value: V, deadline: Instant) -> Result<Option<V>, TryInsertError<K, V>> {
        let hash = self.hash(&key);
        let now = self.shared.now();
        self.insert_hashed(hash, key, value, clock::tick_of(deadline), now)
    }

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
        self.shared.of(hash).remove(hash, key, self.shared.now())
    }

    /// Calls `look` with the value of an entry, and returns what it returns. Returns `None` if the map does not have
    /// the key, or if its deadline has passed.
    ///
    /// Does not put the deadline off; [`touch_with`](DeadlineMap::touch_with) does.
    ///
    /// # Panics
    /// If `look` panics, or [uses this map](DeadlineMap#locks-and-your-code): it runs under the lock of a shard. The
    /// map stays as it was.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", String::from("value"), Duration::from_secs(30));
    /// assert_eq!(map.get_with("key", String::len), Some(5));
    /// assert_eq!(map.get_with("no such key", String::len), None);
    /// ```
    pub fn get_with<Q, R>(&self, key: &Q, look: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.visit::<GET_WITH, _, _>(key, self.shared.now(), None, |entry| look(&entry.value))
    }

    /// Calls `look` with the value of an entry and how long it is until it expires, and returns what it returns. Returns
    /// `None` if the map does not have the key, or if its deadline has passed.
    ///
    /// The duration is that of [`remaining`](DeadlineMap::remaining), and never zero.
    ///
    /// # Panics
    /// In the same cases as [`get_with`](DeadlineMap::get_with).
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", String::from("value"), Duration::from_secs(30));
    /// let (length, remaining) = map.get_with_remaining("key", |value, remaining| (value.len(), remaining)).unwrap();
    /// assert!(length == 5 && remaining <= Duration::from_secs(30));
    /// ```
    pub fn get_with_remaining<Q, R>(&self, key: &Q, look: impl FnOnce(&V, Duration) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.shared.now();
        self.visit::<GET_WITH_REMAINING, _, _>(key, now, None, |entry| look(&entry.value, entry.remaining(now)))
    }

    /// Returns a clone of an entry's value. Returns `None` if the map does not have the key, or if its deadline has
    /// passed.
    ///
    /// # Panics
    /// If `clone` panics, or [uses this map](DeadlineMap#locks-and-your-code): it runs under the lock of a shard.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", 1, Duration::from_secs(30));
    /// map.insert("expired", 2, Duration::ZERO);
    /// assert_eq!((map.get("key"), map.get("expired")), (Some(1), None));
    /// ```
    #[must_use]
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.visit::<GET, _, _>(key, self.shared.now(), None, |entry| entry.value.clone())
    }

    /// Returns whether the map has an entry with this key whose deadline has not passed.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// map.insert("expired", (), Duration::ZERO);
    /// assert!(map.contains_key("key") && !map.contains_key("expired"));
    /// ```
    #[must_use]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.visit::<OURS, _, _>(key, self.shared.now(), None, |_| ()).is_some()
    }

    /// Calls `change` with the value of an entry, to change it in place, and returns what it returns. The deadline
    /// stays. Returns `None` if the map does not have the key, or if its deadline has passed.
    ///
    /// # Panics
    /// If `change` panics, or [uses this map](DeadlineMap#locks-and-your-code): it runs under the lock of a shard. The
    /// entry stays, with what `change` has made of its value until then.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (requests, _expirations) = DeadlineMap::new();
    /// requests.insert("ann", 1, Duration::from_secs(30));
    /// assert_eq!(requests.update("ann", |count| *count += 1), Some(()));
    /// assert_eq!(requests.get("ann"), Some(2));
    /// ```
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.visit::<UPDATE, _, _>(key, self.shared.now(), None, |entry| change(&mut entry.value))
    }

    /// The same as [`update`](DeadlineMap::update), and then sets the entry's deadline to `duration` from now: one
    /// look-up for a heartbeat that brings or wants a value.
    ///
    /// # Panics
    /// In the same cases as [`update`](DeadlineMap::update). The deadline then stays, too.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (cache, _expirations) = DeadlineMap::new();
    /// cache.insert("key", "value", Duration::from_secs(30));
    /// let idle = Duration::from_secs(60);
    /// assert_eq!(cache.touch_with("key", idle, |value| *value), Some("value"));
    /// assert!(cache.remaining("key") > Some(Duration::from_secs(30)));
    /// ```
    pub fn touch_with<Q, R>(&self, key: &Q, duration: Duration, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.shared.now();
        let deadline = Some(clock::later(now, duration));
        self.visit::<TOUCH_WITH, _, _>(key, now, deadline, |entry| change(&mut entry.value))
    }

    /// Sets an entry's deadline to an instant, whether that is later or earlier than before. If the instant has passed,
    /// the entry expires at once. Returns `false` if the map does not have the key, or if its deadline has passed.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration, Instant};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// assert!(map.touch_at("key", Instant::now() + Duration::from_secs(60)));
    /// assert!(map.remaining("key") > Some(Duration::from_secs(30)));
    /// ```
    pub fn touch_at<Q>(&self, key: &Q, deadline: Instant) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.visit::<OURS, _, _>(key, self.shared.now(), Some(clock::tick_of(deadline)), |_| ()).is_some()
    }

    /// Returns how long it is until an entry expires: at its deadline, or at the end of its
    /// [life](Builder::max_lifetime) if that is earlier. Returns `None` if the map does not have the key, or if its
    /// deadline has passed.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(30));
    /// assert!(map.remaining("key") <= Some(Duration::from_secs(30)));
    /// assert_eq!(map.remaining("no such key"), None);
    /// ```
    #[must_use]
    pub fn remaining<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let now = self.shared.now();
        self.visit::<OURS, _, _>(key, now, None, |entry| entry.remaining(now))
    }

    #[inline]
    fn insert_hashed(
        &self,
        hash: u64,
        key: K,
        value: V,
        deadline: Tick,
        now: Tick,
    ) -> Result<Option<V>, TryInsertError<K, V>> {
        let inserted = if self.shared.consumer.is_gone() {
            self.insert_without_consumer(hash, key, value, deadline, now)
        } else {
            self.shared.of(hash).insert(hash, key, value, deadline, now)
        };
        if inserted.is_err() {
            self.shared.capacity.refuse();
        }
        inserted
    }

    /// Inserts an entry, and drops some that have expired, as nobody takes them.
    #[cold]
    fn insert_without_consumer(
        &self,
        hash: u64,
        key: K,
        value: V,
        deadline: Tick,
        now: Tick,
    ) -> Result<Option<V>, TryInsertError<K, V>> {
        let shard = self.shared.of(hash);
        let mut inserted = shard.insert(hash, key, value, deadline, now);
        if let Err(full) = inserted {
            self.make_room(now);
            let (key, value) = full.into_inner();
            inserted = shard.insert(hash, key, value, deadline, now);
        }
        for _ in 0..DISCARDED {
            drop(shard.take_due(now));
        }
        inserted
    }

    /// Drops an entry that has expired, of a full map without a consumer.
    #[cold]
    fn make_room(&self, now: Tick) {
        for shard in self.shared.iter() {
            while shard.next() <= now {
                if shard.take_due(now).is_some() {
                    return;
                }
            }
        }
    }

    #[inline]
    fn visit<const METHOD: usize, Q, R>(
        &self,
        key: &Q,
        now: Tick,
        deadline: Option<Tick>,
        code: impl FnOnce(&mut Entry<K, V>) -> R,
    ) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.shared.of(hash).visit::<METHOD, _, _>(hash, key, now, deadline, code)
    }

    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
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
        let shared = Arc::new(Shared::new(wanted));
        (DeadlineMap { shared: Arc::clone(&shared), hasher }, Expirations::of(shared))
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
        self.shared.iter().map(|shard| shard.len()).sum()
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
        self.shared.iter().all(|shard| shard.next() == Tick::MAX)
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

    /// Returns the map's name, and what reads its counts for a reporter, even after the map is gone.
    #[cfg(feature = "metrics")]
    pub(crate) fn reader(&self) -> (Option<&'static str>, impl Fn() -> Published + Send + Sync + use<K, V, S> + 'static)
    where
        K: Send + 'static,
        V: Send + 'static,
    {
        (self.shared.name, self.shared.reader())
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
        let taken: Vec<_> = self.shared.iter().map(|shard| shard.clear()).collect();
        self.shared.put_off();
        drop(taken);
    }

    /// Calls `code` with each entry whose deadline has not passed, in no order: its key, its value, and how long it is
    /// until it expires. The time is read once, so the durations can be compared.
    ///
    /// Locks one shard after another, each for as long as its entries take. What other threads do meanwhile may be seen
    /// or not.
    ///
    /// # Panics
    /// If `code` panics, or [uses this map](DeadlineMap#locks-and-your-code). The map stays as it was.
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
    pub fn for_each(&self, mut code: impl FnMut(&K, &V, Duration)) {
        let now = self.shared.now();
        let mut code = |entry: &Entry<K, V>| code(&entry.key, &entry.value, entry.remaining(now));
        self.shared.iter().for_each(|shard| shard.visit_all(now, &mut code));
    }

    /// Removes the entries for which `keep` returns `false`, and drops them. Their values can be changed meanwhile. It
    /// is not called for entries whose deadlines have passed: these stay for the stream.
    ///
    /// Locks one shard after another, each for as long as its entries take. What other threads do meanwhile may be seen
    /// or not.
    ///
    /// # Panics
    /// If `keep` panics, or [uses this map](DeadlineMap#locks-and-your-code). The entry that it was called with stays,
    /// and so do those that it was not called with.
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
    pub fn retain(&self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let now = self.shared.now();
        self.shared.iter().for_each(|shard| shard.retain(now, &mut keep));
    }
}

#[track_caller]
fn expect_room<K, V>(inserted: Result<Option<V>, TryInsertError<K, V>>) -> Option<V> {
    match inserted {
        Ok(replaced) => replaced,
        Err(full) => panic!("{full}"),
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
            // The stream may end now, and looks as if something were due.
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
