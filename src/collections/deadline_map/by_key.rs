//! The operations on one key: inserts, touches, lookups and removals.
//
// Invariants
// 1. Keys are hashed outside any lock, with a hasher seeded per map, or the user's.
// 2. Each operation reads the clock outside any lock, and under the lock again if another operation on the shard has
//    read it since and was faster.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::DeadlineMap;
use super::builder::TryInsertError;
use super::state::{Expiry, Insert, Lookup};
use crate::clock::{self, Instant};

impl<K: Hash + Eq, V, S: BuildHasher> DeadlineMap<K, V, S> {
    /// Inserts an entry that expires after `duration`. If the key has a [live](DeadlineMap#live-and-expired-entries)
    /// entry, replaces its value and deadline, and returns the old value.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// assert_eq!(map.insert("key", 1, Duration::from_secs(30)), None);
    /// assert_eq!(map.insert("key", 2, Duration::from_secs(60)), Some(1));
    /// assert!(map.remaining("key") > Some(Duration::from_secs(30)));
    /// ```
    ///
    /// # Panics
    ///
    /// - Panics if the map is at its [`max_entries`](super::Builder::max_entries), and the key has no live entry.
    ///   [`try_insert`](DeadlineMap::try_insert) returns an error instead.
    /// - Panics if a shard would hold more than 2^32 - 128 entries.
    #[track_caller]
    pub fn insert(&self, key: K, value: V, duration: Duration) -> Option<V> {
        expect_room(self.try_insert(key, value, duration))
    }

    /// Inserts an entry that expires at `deadline`, or immediately if that has passed. See
    /// [`insert`](DeadlineMap::insert).
    ///
    /// # Panics
    ///
    /// Panics as [`insert`](DeadlineMap::insert) does.
    ///
    /// # Examples
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
        expect_room(self.shared.insert(self.new_entry(key, value, Expiry::At(clock::tick_of(deadline)))))
    }

    /// Inserts an entry as [`insert`](DeadlineMap::insert) does, but returns an error if the map is full.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// assert_eq!(map.try_insert("ann", 1, Duration::from_secs(30)), Ok(None));
    /// assert_eq!(map.try_insert("ann", 2, Duration::from_secs(30)), Ok(Some(1)), "this takes no more room");
    /// let error = map.try_insert("bob", 3, Duration::from_secs(30)).unwrap_err();
    /// assert_eq!(error.to_string(), "the map is full: it has room for 1 entry");
    /// assert_eq!(error.into_inner(), ("bob", 3));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the map is at its [`max_entries`](super::Builder::max_entries), and the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry. The error returns the key and the value.
    ///
    /// # Panics
    ///
    /// Panics if a shard would hold more than 2^32 - 128 entries.
    #[inline]
    pub fn try_insert(&self, key: K, value: V, duration: Duration) -> Result<Option<V>, TryInsertError<K, V>> {
        self.shared.insert(self.new_entry(key, value, Expiry::After(duration)))
    }

    /// Inserts an entry that expires after `duration`, unless the key has a
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (locks, _expirations) = DeadlineMap::new();
    /// assert_eq!(locks.insert_if_absent("printer", "ann", Duration::from_secs(30)), Ok(()));
    /// assert_eq!(locks.insert_if_absent("printer", "bob", Duration::from_secs(60)), Err("bob"));
    /// assert_eq!(locks.get("printer"), Some("ann"));
    /// assert!(locks.remaining("printer") <= Some(Duration::from_secs(30)));
    /// ```
    ///
    /// If several threads race for one key, exactly one of them inserts.
    ///
    /// # Errors
    ///
    /// Returns `value` if the key has a live entry. That entry and its deadline stay as they are.
    ///
    /// # Panics
    ///
    /// Panics as [`insert`](DeadlineMap::insert) does. [`try_insert_if_absent`](DeadlineMap::try_insert_if_absent)
    /// returns an error if the map is full.
    #[doc(alias = "put_if_absent")]
    #[track_caller]
    pub fn insert_if_absent(&self, key: K, value: V, duration: Duration) -> Result<(), V> {
        self.try_insert_if_absent(key, value, duration).map_err(|refused| {
            assert!(!refused.is_full(), "{refused}");
            refused.into_inner().1
        })
    }

    /// Inserts an entry as [`insert_if_absent`](DeadlineMap::insert_if_absent) does, but returns an error if the map is
    /// full, too.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// assert!(map.try_insert_if_absent("ann", 1, Duration::from_secs(30)).is_ok());
    /// let present = map.try_insert_if_absent("ann", 2, Duration::from_secs(30)).unwrap_err();
    /// assert!(!present.is_full());
    /// let full = map.try_insert_if_absent("bob", 3, Duration::from_secs(30)).unwrap_err();
    /// assert!(full.is_full());
    /// assert_eq!(full.into_inner(), ("bob", 3));
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the key has a [live](DeadlineMap#live-and-expired-entries) entry, or else if the map
    /// [is full](TryInsertError::is_full). The error returns the key and the value.
    ///
    /// # Panics
    ///
    /// Panics if a shard would hold more than 2^32 - 128 entries.
    pub fn try_insert_if_absent(&self, key: K, value: V, duration: Duration) -> Result<(), TryInsertError<K, V>> {
        self.shared.insert_if_absent(self.new_entry(key, value, Expiry::After(duration)))
    }

    /// Returns a clone of the value of the key's [live](DeadlineMap#live-and-expired-entries) entry. If it has none,
    /// inserts the value that `make` returns, to expire after `duration`, and returns a clone of that. The key is cloned
    /// only to insert it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (requests, _expirations) = DeadlineMap::new();
    /// for client in ["ann", "bob", "ann"] {
    ///     let count: Arc<AtomicU64> = requests.get_or_insert_with(client, Duration::from_secs(60), Arc::default);
    ///     count.fetch_add(1, Ordering::Relaxed);
    /// }
    /// assert_eq!(requests.get("ann").unwrap().load(Ordering::Relaxed), 2);
    /// ```
    ///
    /// `make` runs under a lock, so if several threads race for one key, it runs once and all get the same value. Keep
    /// it short; if the value takes long to make, insert a handle to it, such as an `Arc<tokio::sync::OnceCell>`. The
    /// deadline of a live entry stays.
    ///
    /// # Panics
    ///
    /// - Panics as [`insert`](DeadlineMap::insert) does. To get an error if the map is full, call
    ///   [`get`](DeadlineMap::get) and [`try_insert_if_absent`](DeadlineMap::try_insert_if_absent).
    /// - Panics if `make` panics or [uses this map](DeadlineMap#locks-and-your-code). The map is unchanged.
    /// - Panics if `clone` does. A value that `make` has returned stays in the map.
    #[doc(alias = "entry")]
    #[doc(alias = "or_insert_with")]
    #[track_caller]
    pub fn get_or_insert_with<Q>(&self, key: &Q, duration: Duration, make: impl FnOnce() -> V) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        V: Clone,
    {
        let lookup = self.look_up(key);
        let Lookup { hash, now, .. } = lookup;
        let found = self.shared.visit(lookup, |_, _| None, |entry, _| entry.value.clone());
        found.unwrap_or_else(|| {
            let new = Insert { hash, key: key.to_owned(), value: make, expires: Expiry::After(duration), now };
            expect_room(self.shared.get_or_insert_with(new))
        })
    }

    /// Sets the deadline of a live entry to `duration` from now, whether that is later or earlier than before. Returns
    /// `false` if the key has no [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// Use this for heartbeats: postponing a deadline costs no more than a lookup.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert(String::from("key"), (), Duration::from_secs(30));
    /// assert!(map.touch("key", Duration::from_secs(60)));
    /// assert!(!map.touch("no such key", Duration::from_secs(60)));
    /// ```
    #[doc(alias = "heartbeat")]
    #[doc(alias = "keep_alive")]
    pub fn touch<Q>(&self, key: &Q, duration: Duration) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.visit(self.look_up(key), |_, now| Some(clock::later(now, duration)), |_, _| ()).is_some()
    }

    /// Gives a live entry the time to live again with which it was inserted, whatever [`touch`](DeadlineMap::touch) has
    /// set since. Returns `false` if the key has no [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", (), Duration::from_secs(3_600));
    /// map.touch("key", Duration::from_secs(1));
    /// assert!(map.renew("key"));
    /// assert!(map.remaining("key") > Some(Duration::from_secs(3_000)));
    /// ```
    pub fn renew<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.renew_with(key, |_| ()).is_some()
    }

    /// Renews an entry as [`renew`](DeadlineMap::renew) does, calls `change` with its value, and returns the result: a
    /// read that keeps what is in use.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (sessions, _expirations) = DeadlineMap::new();
    /// sessions.insert("token", String::from("ann"), Duration::from_secs(1_800));
    /// assert_eq!(sessions.renew_with("token", |user| user.clone()), Some("ann".into()));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `change` panics or [uses this map](DeadlineMap#locks-and-your-code). The entry keeps its deadline, and
    /// the changes made so far.
    pub fn renew_with<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let lookup = self.look_up(key);
        self.shared.visit(lookup, |entry, now| Some(entry.renewed(now)), |entry, _| change(&mut entry.value))
    }

    /// Removes a live entry, frees its memory and returns its value. Returns `None` if the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Examples
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
        self.remove_if(key, |_value| true)
    }

    /// Removes a live entry if `condition` returns `true` for its value, frees its memory and returns the value.
    /// Returns `None` if it is `false`, or if the key has no [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Panics
    ///
    /// Panics if `condition` panics or [uses this map](DeadlineMap#locks-and-your-code). The map is unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (locks, _expirations) = DeadlineMap::new();
    /// locks.insert("printer", "ann", Duration::from_secs(30));
    /// assert_eq!(locks.remove_if("printer", |owner| *owner == "bob"), None);
    /// assert_eq!(locks.remove_if("printer", |owner| *owner == "ann"), Some("ann"));
    /// ```
    pub fn remove_if<Q>(&self, key: &Q, condition: impl FnOnce(&V) -> bool) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.remove_if(self.look_up(key), condition)
    }

    /// Calls `read` with the value of a live entry and returns its result. Returns `None` if the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", String::from("value"), Duration::from_secs(30));
    /// assert_eq!(map.get_with("key", String::len), Some(5));
    /// assert_eq!(map.get_with("no such key", String::len), None);
    /// ```
    ///
    /// The deadline stays; [`renew_with`](DeadlineMap::renew_with) postpones it.
    ///
    /// # Panics
    ///
    /// Panics if `read` panics or [uses this map](DeadlineMap#locks-and-your-code). The map is unchanged.
    pub fn get_with<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.visit(self.look_up(key), |_, _| None, |entry, _| read(&entry.value))
    }

    /// Returns a clone of the value of a live entry, or `None` if the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Panics
    ///
    /// Panics if `clone` panics or [uses this map](DeadlineMap#locks-and-your-code).
    ///
    /// # Examples
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
        self.shared.visit(self.look_up(key), |_, _| None, |entry, _| entry.value.clone())
    }

    /// Returns whether the key has a [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Examples
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
        self.shared.visit(self.look_up(key), |_, _| None, |_, _| ()).is_some()
    }

    /// Calls `change` with the value of a live entry, to change it in place, and returns its result. The deadline
    /// stays. Returns `None` if the key has no [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// let (requests, _expirations) = DeadlineMap::new();
    /// requests.insert("ann", 1, Duration::from_secs(30));
    /// assert_eq!(requests.update("ann", |count| *count += 1), Some(()));
    /// assert_eq!(requests.get("ann"), Some(2));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if `change` panics or [uses this map](DeadlineMap#locks-and-your-code). The entry keeps the changes made
    /// so far.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.shared.visit(self.look_up(key), |_, _| None, |entry, _| change(&mut entry.value))
    }

    /// Sets the deadline of a live entry to an instant, whether that is later or earlier than before. If the instant
    /// has passed, the entry expires immediately. Returns `false` if the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Examples
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
        self.shared.visit(self.look_up(key), |_, _| Some(clock::tick_of(deadline)), |_, _| ()).is_some()
    }

    /// Returns the time until a live entry expires: until its deadline, or until the end of its
    /// [lifetime](super::Builder::max_lifetime) if that is earlier. Returns `None` if the key has no
    /// [live](DeadlineMap#live-and-expired-entries) entry.
    ///
    /// # Examples
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
        self.shared.visit(self.look_up(key), |_, _| None, |entry, now| entry.remaining(now))
    }

    #[inline]
    fn new_entry<T>(&self, key: K, value: T, expires: Expiry) -> Insert<K, T> {
        Insert { hash: self.hash(&key), key, value, expires, now: self.shared.now() }
    }

    #[inline]
    fn look_up<'a, Q: Hash + ?Sized>(&self, key: &'a Q) -> Lookup<'a, Q> {
        Lookup { hash: self.hash(key), key, now: self.shared.now() }
    }

    pub(super) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }
}

#[track_caller]
fn expect_room<T, K, G>(inserted: Result<T, TryInsertError<K, G>>) -> T {
    match inserted {
        Ok(inserted) => inserted,
        Err(error) => panic!("{error}"),
    }
}
