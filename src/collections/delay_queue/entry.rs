//! [`Key`] names an entry of a queue, and [`Expired`] is an entry that came out.
//
// Invariants
// 1. Key numbers come from one counter for all queues, `KEYS` at a time, so no two entries have the same key.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;

use crate::clock::{self, Instant};
use crate::util::sync::Counter;
use crate::wheel::{self, Tick};

/// How many key numbers a queue reserves at a time.
pub(super) const KEYS: u64 = 256;

/// Identifies an entry of a [`DelayQueue`](super::DelayQueue).
///
/// A key is valid until its entry comes out, is removed or is drained. From then on it stays invalid: it never
/// identifies a newer entry, nor one of another queue. No two entries of a process have the same key.
///
/// # Examples
///
/// ```
/// # use hairspring::{DelayQueue, Duration};
/// let mut queue = DelayQueue::new();
/// let old = queue.insert("old", Duration::ZERO);
/// queue.remove(&old);
/// let new = queue.insert("new", Duration::ZERO);
/// assert!(old != new && queue.try_remove(&old).is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub(super) wheel::Key);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The first of [`KEYS`] numbers that no other queue has. They last for 2^56 calls.
pub(super) fn new_keys() -> u64 {
    static NEXT: Counter = Counter::new(0);
    NEXT.fetch_add(KEYS, Relaxed)
}

/// An entry that came out of a [`DelayQueue`](super::DelayQueue) because it was due, removed or drained.
///
/// # Examples
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
    pub(super) data: T,
    pub(super) deadline: Tick,
    pub(super) key: Key,
}

impl<T> Expired<T> {
    /// Returns a reference to the inserted value.
    ///
    /// # Examples
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
    /// # Examples
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
    /// # Examples
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

    /// Returns the entry's deadline, as [`DelayQueue::deadline`](super::DelayQueue::deadline) did.
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DelayQueue, Duration, Instant};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_millis(1));
    /// let expired = queue.recv().await.unwrap();
    /// assert!(Instant::now() >= expired.deadline(), "never early");
    /// # }
    /// ```
    #[must_use]
    pub fn deadline(&self) -> Instant {
        clock::instant_of(self.deadline)
    }

    /// Returns the entry's key, which is no longer valid.
    ///
    /// # Examples
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

#[cold]
#[track_caller]
pub(super) fn refuse() -> ! {
    panic!("invalid key: its entry was already returned or removed, or belongs to another queue");
}
