//! Inserting entries, in a map that may be full.

use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::error::TryInsertError;
use super::shard::Term;
use super::{DeadlineMap, Shared};
use crate::clock::{self, Instant};
use crate::wheel::Tick;

/// How many expired entries an insert discards if there is no consumer.
const DISCARDED: usize = 2;

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
    /// If the key is new, or its entry has expired, and the map is [full](super::Builder::capacity);
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
        let hash = self.hash(&key);
        let term = self.term(duration);
        self.insert_hashed(hash, key, value, term, term.now).unwrap_or_else(|refused| self.refuse(refused))
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
        let hash = self.hash(&key);
        let now = self.shared.now();
        let inserted = self.insert_hashed(hash, key, value, Term::until(clock::tick_of(deadline)), now);
        inserted.unwrap_or_else(|refused| self.refuse(refused))
    }

    /// The same as [`insert`](DeadlineMap::insert), but with an error instead of a panic if the map is full.
    ///
    /// # Errors
    /// If the key is new, or its entry has expired, and the map is at its [capacity](super::Builder::capacity). The
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
        let term = self.term(duration);
        self.insert_hashed(hash, key, value, term, term.now).map_err(|refused| self.error(refused))
    }

    #[inline]
    fn insert_hashed(&self, hash: u64, key: K, value: V, term: Term, now: Tick) -> Result<Option<V>, (K, V)> {
        if self.shared.consumer.is_gone() {
            return self.insert_without_consumer(hash, key, value, term, now);
        }
        self.shared.shards.of(hash).insert(&*self.shared, hash, key, value, term, now)
    }

    /// Inserts an entry, and drops some that have expired, as nobody takes them.
    #[cold]
    fn insert_without_consumer(&self, hash: u64, key: K, value: V, term: Term, now: Tick) -> Result<Option<V>, (K, V)> {
        let shard = self.shared.shards.of(hash);
        let mut inserted = shard.insert(&*self.shared, hash, key, value, term, now);
        if let Err((key, value)) = inserted {
            self.shared.make_room(now);
            inserted = shard.insert(&*self.shared, hash, key, value, term, now);
        }
        for _ in 0..DISCARDED {
            drop(shard.take_due(now));
        }
        inserted
    }

    #[cold]
    #[track_caller]
    fn refuse(&self, refused: (K, V)) -> ! {
        panic!("{}", self.error(refused));
    }

    #[cold]
    fn error(&self, (key, value): (K, V)) -> TryInsertError<K, V> {
        let Some(capacity) = self.shared.capacity else { unreachable!("without a limit nothing is refused") };
        TryInsertError { key, value, capacity, name: self.shared.name.clone() }
    }
}

impl<K, V> Shared<K, V> {
    /// Drops an entry that has expired, of a full map without a consumer.
    #[cold]
    fn make_room(&self, now: Tick) {
        for shard in self.shards.iter() {
            while shard.next() <= now {
                if shard.take_due(now).is_some() {
                    return;
                }
            }
        }
    }
}
