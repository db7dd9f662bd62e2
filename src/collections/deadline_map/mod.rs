//! [`DeadlineMap`]: a map whose entries expire, each at a deadline that can be put off by key.
//!
//! Keys are spread by their hash over shards, each with a lock, a hash table and timers. The hot operation is a touch
//! that puts a deadline off: it finds the entry and writes the deadline down, and the entry's timer is not told until it
//! comes.
//!
//! ```
//! use hairspring::{DeadlineMap, Duration};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (sessions, mut expirations) = DeadlineMap::new();
//! let heartbeats = sessions.clone(); // for another task, or thread
//! sessions.insert(7, "ann", Duration::from_millis(1));
//! assert!(heartbeats.touch(&7, Duration::from_millis(2)));
//! assert_eq!(expirations.recv().await, Some((7, "ann")));
//! # }
//! ```
//!
//! Invariants
//! 1. Keys are hashed outside of any lock, with a hasher seeded anew for each map.
//! 2. The clock is read once an operation, outside of any lock.
//! 3. A shard is found by bits of the hash that its table does not use.
//! 4. A shard is made for its first entry. One that is not there is as one that is empty.
//!
//! Must not know: the wheel, timers' shards, the driver.

mod builder;
mod consumer;
mod expirations;
#[cfg(test)]
mod models;
mod shard;
mod timers;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

pub use builder::{BuildError, Builder};
use consumer::Consumer;
pub use expirations::Expirations;
use shard::{Shards, Term, Waits};

use crate::clock;
use crate::future::Sleep;
use crate::timer::Timer;
use crate::util::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use crate::wheel::Tick;

/// How many shards a map has where nobody says: enough that threads rarely meet in one.
fn default_shards() -> usize {
    static SHARDS: LazyLock<usize> = LazyLock::new(|| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (4 * threads).next_power_of_two().min(builder::MOST_SHARDS)
    });
    *SHARDS
}

/// How many expired entries an insert throws away where there is no consumer.
const THROWN_AWAY: usize = 2;

/// A map from keys to values that expire, as sessions, leases or connections do when their heartbeats cease.
///
/// Any thread inserts, [touches](DeadlineMap::touch) and removes by key, through `&self`; clones are handles on the same
/// map. What has expired comes out of [`Expirations`], a stream for one consumer.
///
/// ```
/// use hairspring::{DeadlineMap, Duration, Instant};
///
/// # #[tokio::main(flavor = "current_thread")]
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
/// A deadline is a duration after the call that sets it, kept to the nanosecond; nothing is rounded. Zero is due at once.
/// Durations of more than 500 years are taken as 500 years. The clock is that of the current runtime, as
/// [`Instant::now`](crate::Instant::now) reads it, or of the timer given to [`with_timer`](DeadlineMap::with_timer).
///
/// An entry whose deadline has passed stays in the map until it is handed out: till then it is found, counted, and
/// can be touched, replaced or removed, and so saved. A slow consumer therefore needs no other memory than the map's,
/// and nothing is lost.
///
/// # The two halves
/// When all handles are dropped, what they leave still expires, each entry at its deadline. Then the stream ends.
///
/// When the stream is dropped, the map goes on as a map. As nobody takes what expires, inserts throw it away: each drops
/// up to two entries whose deadline has passed, besides putting in its own, so that a map in use does not grow for ever.
/// Until it is thrown away an expired entry is found like any other.
///
/// # What runs where
/// Keys are hashed outside of the map's locks, and keys and values are dropped outside of them, so a `Hash` or `Drop`
/// may use the map, and may panic. `Eq` and `Borrow` run under a lock: they may panic, but may not use the same map,
/// which can deadlock.
/// When a key is inserted that is there already, the map keeps the old key and drops the new one.
///
/// # Cost
/// Each operation on a key locks one of a few shards (four for each processor, 64 at most), for some ten nanoseconds and
/// what memory takes to answer. A touch that puts a deadline off finds the entry and writes to it, no more; the stream
/// does the rest, once in the time that the entry was given and not once a touch.
///
/// An empty map takes some 500 bytes and 24 for each shard, so 2 kilobytes at most, and one with an entry 400 bytes more:
/// there may be a map for each connection. What grows with the entries are the hash tables of the shards that have any,
/// and, from the seventeenth entry of a shard on, 12 kilobytes for a timing wheel, until the map is cleared.
/// [`builder`](DeadlineMap::builder) makes maps of fewer shards.
pub struct DeadlineMap<K, V> {
    shared: Arc<Shared<K, V>>,
}

struct Shared<K, V> {
    shards: Shards<K, V>,
    consumer: Consumer,
    hasher: RandomState,
    /// `None` where the time is that of the current runtime.
    timer: Option<Timer>,
    /// How many maps there are on this.
    handles: AtomicUsize,
}

impl<K, V> Shared<K, V> {
    fn now(&self) -> Tick {
        self.timer.as_ref().map_or_else(clock::now, Timer::now_tick)
    }

    /// Whether nothing will be inserted any more.
    fn is_closed(&self) -> bool {
        self.handles.load(SeqCst) == 0
    }
}

/// What a consumer waits with, on the map's timer.
#[track_caller]
fn endless_sleep(timer: Option<&Timer>) -> Sleep {
    match timer {
        Some(timer) => timer.sleep_until(clock::instant_of(Tick::MAX)),
        None => Sleep::new(Tick::MAX),
    }
}

impl<K, V> Waits for Shared<K, V> {
    #[inline]
    fn inserted(&self, deadline: Tick) {
        self.consumer.inserted(deadline);
    }

    fn put_off(&self) {
        self.consumer.put_off(|| self.shards.iter().map(|shard| shard.next()).min().unwrap_or(Tick::MAX));
    }
}

impl<K: Hash + Eq, V> DeadlineMap<K, V> {
    /// An empty map, and the stream of what expires in it.
    ///
    /// May be called anywhere. The stream waits on the timer of the runtime that polls it.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// assert_eq!(map.remove("key"), Some("value"));
    /// ```
    // Named by the crate's contract: a map is of no use without its other half.
    #[allow(clippy::new_ret_no_self)]
    #[track_caller]
    pub fn new() -> (DeadlineMap<K, V>, Expirations<K, V>) {
        DeadlineMap::of(default_shards(), None)
    }

    /// As [`new`](DeadlineMap::new), on a timer of the caller's choice, whose clock the map then goes by.
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
        DeadlineMap::of(default_shards(), Some(timer.clone()))
    }

    /// Puts an entry in, to expire after `duration`. Where the key is there already it gets the new value and deadline,
    /// and the value so far is returned.
    ///
    /// Wakes the consumer where this expires before anything else.
    ///
    /// # Panics
    /// Where a shard would hold more than 2^32 - 128 entries.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// assert_eq!(map.insert("key", 1, Duration::from_secs(30)), None);
    /// assert_eq!(map.insert("key", 2, Duration::from_secs(60)), Some(1));
    /// assert!(map.remaining("key") > Some(Duration::from_secs(30)));
    /// ```
    #[allow(clippy::must_use_candidate)] // It is called for what it does.
    pub fn insert(&self, key: K, value: V, duration: Duration) -> Option<V> {
        let hash = self.hash(&key);
        let term = self.term(duration);
        let shard = self.shared.shards.of(hash);
        let replaced = shard.insert(&*self.shared, hash, key, value, term);
        if self.shared.consumer.is_gone() {
            for _ in 0..THROWN_AWAY {
                drop(shard.take_due(term.now));
            }
        }
        replaced
    }

    /// Has an entry expire `duration` from now, whether that is later or earlier than before. `false` where there is no
    /// entry of that key.
    ///
    /// The heartbeat: where it puts the deadline off, as nearly always, it is as cheap as looking the key up. An entry
    /// that was touched before it was handed out is not handed out before the new deadline.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert(String::from("key"), (), Duration::from_secs(30));
    /// assert!(map.touch("key", Duration::from_secs(60)));
    /// assert!(!map.touch("no such key", Duration::from_secs(60)));
    /// ```
    #[allow(clippy::must_use_candidate)] // It is called for what it does.
    pub fn touch<Q>(&self, key: &Q, duration: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        let term = self.term(duration);
        self.shared.shards.of(hash).touch(&*self.shared, hash, key, term)
    }

    /// Takes an entry out, and returns its value. Its memory is free at once.
    ///
    /// Of this and the stream, exactly one gets the entry.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", "value", Duration::from_secs(30));
    /// assert_eq!(map.remove("key"), Some("value"));
    /// assert_eq!(map.remove("key"), None);
    /// ```
    #[allow(clippy::must_use_candidate)] // It is called for what it does.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.shared.shards.of(hash).remove(&*self.shared, hash, key)
    }

    /// How long it is until an entry expires: zero where its deadline has passed and it was not yet handed out, `None`
    /// where there is no entry of that key.
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
        let hash = self.hash(key);
        let deadline = self.shared.shards.of(hash).deadline(hash, key)?;
        Some(clock::duration_of(deadline - self.shared.now()))
    }

    fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.shared.hasher.hash_one(key)
    }

    fn term(&self, duration: Duration) -> Term {
        Term { now: self.shared.now(), duration }
    }
}

impl<K, V> DeadlineMap<K, V> {
    /// Makes a map with settings of its own.
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

    /// A map of so many shards, a power of two up to 64.
    #[track_caller]
    fn of(shards: usize, timer: Option<Timer>) -> (DeadlineMap<K, V>, Expirations<K, V>) {
        let sleep = endless_sleep(timer.as_ref());
        let shared = Arc::new(Shared {
            shards: Shards::new(shards),
            consumer: Consumer::new(),
            hasher: RandomState::new(),
            timer,
            handles: AtomicUsize::new(1),
        });
        (DeadlineMap { shared: Arc::clone(&shared) }, Expirations::of(shared, sleep))
    }

    /// How many entries there are, those included that have expired and were not yet handed out.
    ///
    /// Locks one shard after the other: while other threads insert and remove, it is the sum of what each had in turn.
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

    /// Whether there is no entry. Takes no lock.
    ///
    /// ```
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::new();
    /// assert!(map.is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.shards.iter().all(|shard| shard.next() == Tick::MAX)
    }

    /// Drops all entries, and gives back what memory they took.
    ///
    /// Empties one shard after the other: what other threads insert meanwhile may stay.
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
        // All are emptied before a drop can panic.
        let taken: Vec<_> = self.shared.shards.iter().map(|shard| shard.clear()).collect();
        self.shared.put_off();
        drop(taken);
    }
}

impl<K, V> Clone for DeadlineMap<K, V> {
    /// Another handle on the same map.
    fn clone(&self) -> Self {
        self.shared.handles.fetch_add(1, Relaxed);
        DeadlineMap { shared: Arc::clone(&self.shared) }
    }
}

impl<K, V> Drop for DeadlineMap<K, V> {
    fn drop(&mut self) {
        if self.shared.handles.fetch_sub(1, SeqCst) == 1 {
            // What it waits for may not come any more.
            self.shared.consumer.wake();
        }
    }
}

impl<K, V> fmt::Debug for DeadlineMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineMap").field("len", &self.len()).finish_non_exhaustive()
    }
}
