//! Reading and changing values in place.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::DeadlineMap;
use super::shard::Term;
use crate::clock::{self, Instant};
use crate::wheel::Tick;

impl<K: Hash + Eq, V, S: BuildHasher> DeadlineMap<K, V, S> {
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
        self.visit(key, self.shared.now(), None, |value| look(value))
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
        self.get_with(key, V::clone)
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
        self.get_with(key, |_| ()).is_some()
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
        self.visit(key, self.shared.now(), None, change)
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
        let term = self.term(duration);
        self.visit(key, term.now, Some(term), change)
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
        self.visit(key, self.shared.now(), Some(Term::until(clock::tick_of(deadline))), |_| ()).is_some()
    }

    /// Returns how long it is until an entry expires. Returns `None` if the map does not have the key, or if its
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
        let hash = self.hash(key);
        let now = self.shared.now();
        let deadline = self.shared.shards.of(hash).deadline(hash, key, now)?;
        Some(clock::duration_of(deadline - now))
    }

    fn visit<Q, R>(&self, key: &Q, now: Tick, term: Option<Term>, code: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        self.shared.shards.of(hash).visit(&*self.shared, hash, key, now, term, code)
    }
}

impl<K, V, S> DeadlineMap<K, V, S> {
    /// Calls `code` with each entry whose deadline has not passed, in no order.
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
    /// let mut sum = 0;
    /// map.for_each(|_key, value| sum += value);
    /// assert_eq!(sum, 3);
    /// ```
    pub fn for_each(&self, mut code: impl FnMut(&K, &V)) {
        let now = self.shared.now();
        self.shared.shards.iter().for_each(|shard| shard.visit_all(now, &mut code));
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
        self.shared.shards.iter().for_each(|shard| shard.retain(&*self.shared, now, &mut keep));
    }
}
