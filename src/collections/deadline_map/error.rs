//! [`TryInsertError`]: a map is full.

use std::fmt;
use std::sync::Arc;

/// The error of [`DeadlineMap::try_insert`](super::DeadlineMap::try_insert): the map is at its
/// [capacity](super::Builder::capacity). It has the key and the value that were refused.
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// let (sessions, _expirations) = DeadlineMap::builder().name("sessions").capacity(2).build().unwrap();
/// sessions.insert("ann", 1, Duration::from_secs(30));
/// sessions.insert("bob", 2, Duration::from_secs(30));
/// let full = sessions.try_insert("cid", 3, Duration::from_secs(30)).unwrap_err();
/// assert_eq!(full.to_string(), "the map `sessions` is at capacity: it has room for 2 entries");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TryInsertError<K, V> {
    pub(super) key: K,
    pub(super) value: V,
    pub(super) capacity: usize,
    pub(super) name: Option<Arc<str>>,
}

impl<K, V> TryInsertError<K, V> {
    /// Returns the key and the value that were refused.
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    /// map.insert(1, 'a', Duration::from_secs(30));
    /// assert_eq!(map.try_insert(2, 'b', Duration::from_secs(30)).unwrap_err().into_inner(), (2, 'b'));
    /// ```
    pub fn into_inner(self) -> (K, V) {
        (self.key, self.value)
    }

    /// Returns how many entries the map has room for.
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::builder().capacity(1).build().unwrap();
    /// map.insert(1, 'a', Duration::from_secs(30));
    /// assert_eq!(map.try_insert(2, 'b', Duration::from_secs(30)).unwrap_err().capacity(), 1);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

impl<K, V> fmt::Display for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the map ")?;
        if let Some(name) = &self.name {
            write!(f, "`{name}` ")?;
        }
        let entries = if self.capacity == 1 { "entry" } else { "entries" };
        write!(f, "is at capacity: it has room for {} {entries}", self.capacity)
    }
}

// Keys and values need not be `Debug`.
impl<K, V> fmt::Debug for TryInsertError<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capacity, name, .. } = self;
        f.debug_struct("TryInsertError").field("capacity", capacity).field("name", name).finish_non_exhaustive()
    }
}

impl<K, V> std::error::Error for TryInsertError<K, V> {}
