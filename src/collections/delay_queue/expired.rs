//! Entries that come out of a queue, and the keys that name entries in it.

use std::fmt;
use std::iter::FusedIterator;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::vec;

use crate::clock::{self, Instant};
use crate::wheel::{self, Tick};

/// Identifies an entry of a [`DelayQueue`](super::DelayQueue) while it is in the queue.
///
/// Once the entry has come out or was removed, its key is invalid. It never identifies a newer entry, nor one of
/// another queue: no two entries in a process have the same key.
///
/// ```
/// # use hairspring::{DelayQueue, Duration};
/// let mut queue = DelayQueue::new();
/// let old = queue.insert("old", Duration::ZERO);
/// queue.remove(&old);
/// let new = queue.insert("new", Duration::ZERO);
/// assert!(old != new && queue.try_remove(&old).is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(super) wheel::Key);

/// How many keys a queue gets at a time.
pub(super) const KEYS: u64 = 256;

/// The number of the first of [`KEYS`] keys that no other queue has. They last for 2^56 calls.
pub(super) fn new_keys() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(KEYS, Relaxed)
}

/// An entry that came out of a [`DelayQueue`](super::DelayQueue) because it was due, removed, or drained.
///
/// ```
/// # use hairspring::{DelayQueue, Duration, Instant};
/// let mut queue = DelayQueue::new();
/// let when = Instant::now() + Duration::from_secs(1);
/// let key = queue.insert_at(5, when);
/// let mut expired = queue.remove(&key);
/// *expired.get_mut() += 1;
/// assert_eq!((*expired.get_ref(), expired.deadline(), expired.key()), (6, when, key));
/// assert_eq!(expired.into_inner(), 6);
/// ```
pub struct Expired<T> {
    data: T,
    deadline: Tick,
    key: Key,
}

impl<T> Expired<T> {
    #[inline]
    pub(super) fn new(key: Key, deadline: Tick, data: T) -> Self {
        Expired { data, deadline, key }
    }

    /// Returns a reference to the inserted value.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("job", Duration::from_secs(1));
    /// assert_eq!(queue.remove(&key).get_ref(), &"job");
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.data
    }

    /// Returns a mutable reference to the inserted value.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert(vec!["first try"], Duration::from_secs(1));
    /// let mut tries = queue.remove(&key);
    /// tries.get_mut().push("second try");
    /// assert_eq!(tries.get_ref().len(), 2);
    /// ```
    #[must_use]
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }

    /// Returns the inserted value.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert(String::from("job"), Duration::from_secs(1));
    /// let left: Vec<String> = queue.drain().map(|entry| entry.into_inner()).collect();
    /// assert_eq!(left, ["job"]);
    /// ```
    pub fn into_inner(self) -> T {
        self.data
    }

    /// Returns the deadline that the entry had, as [`DelayQueue::deadline`](super::DelayQueue::deadline) did.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use hairspring::{DelayQueue, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_millis(1));
    /// let expired = queue.next().await.unwrap();
    /// assert!(Instant::now() >= expired.deadline(), "never early");
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant_of(self.deadline)
    }

    /// Returns the key that the entry had. The queue no longer accepts it.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert('x', Duration::from_secs(1));
    /// assert!(queue.drain().all(|entry| entry.key() == key));
    /// assert!(queue.try_remove(&key).is_none());
    /// ```
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }
}

impl<T: fmt::Debug> fmt::Debug for Expired<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expired")
            .field("data", &self.data)
            .field("deadline", &self.deadline())
            .field("key", &self.key)
            .finish()
    }
}

/// The entries that were left in a queue, as [`DelayQueue::drain`](super::DelayQueue::drain) returns them, in the order
/// of their deadlines. Dropping it drops the entries that you have not read.
///
/// ```
/// # use hairspring::{DelayQueue, Duration};
/// let mut queue = DelayQueue::new();
/// queue.insert('b', Duration::from_secs(3600));
/// queue.insert('a', Duration::from_secs(1));
/// let left = queue.drain();
/// assert_eq!(left.len(), 2);
/// assert_eq!(left.map(|entry| entry.into_inner()).collect::<String>(), "ab");
/// ```
pub struct Drain<T> {
    entries: vec::IntoIter<Expired<T>>,
}

impl<T> Drain<T> {
    pub(super) fn new(entries: Vec<Expired<T>>) -> Self {
        Drain { entries: entries.into_iter() }
    }
}

impl<T> Iterator for Drain<T> {
    type Item = Expired<T>;

    fn next(&mut self) -> Option<Expired<T>> {
        self.entries.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<T> DoubleEndedIterator for Drain<T> {
    fn next_back(&mut self) -> Option<Expired<T>> {
        self.entries.next_back()
    }
}

impl<T> ExactSizeIterator for Drain<T> {}

impl<T> FusedIterator for Drain<T> {}

impl<T> fmt::Debug for Drain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("len", &self.len()).finish_non_exhaustive()
    }
}
