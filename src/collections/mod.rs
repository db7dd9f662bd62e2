//! [`DelayQueue`](delay_queue::DelayQueue), [`DeadlineMap`](deadline_map::DeadlineMap), and their [`Metrics`].

pub mod deadline_map;
pub mod delay_queue;
#[cfg(feature = "metrics")]
mod published;

use std::fmt;

#[cfg(feature = "metrics")]
pub(crate) use published::Published;

/// A snapshot of the counters of a [`DeadlineMap`](crate::DeadlineMap::metrics) or a
/// [`DelayQueue`](crate::DelayQueue::metrics).
///
/// ```
/// use hairspring::{DelayQueue, Duration};
///
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("cancelled", Duration::from_secs(5));
/// queue.insert("waits", Duration::from_secs(5));
/// queue.remove(&key);
/// let metrics = queue.metrics();
/// assert_eq!((metrics.inserted(), metrics.expired(), metrics.removed(), metrics.pending()), (2, 0, 1, 1));
/// ```
///
/// Every inserted entry eventually expires or is removed: `inserted() == expired() + removed() + pending()` holds in
/// every snapshot. The shards of a map are read one after another, so if threads are using it, the snapshot may match
/// no single moment.
///
/// [`timer::Metrics`](crate::timer::Metrics) are the counters of the timer underneath, where a map or a queue counts as
/// one sleep, however many entries it has.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    pending: u64,
    inserted: u64,
    expired: u64,
    refused: u64,
    max_entries: Option<usize>,
}

impl Metrics {
    /// Returns the number of entries, including expired ones that have not been returned yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::ZERO);
    /// assert_eq!(queue.metrics().pending(), 1);
    /// ```
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Returns the number of entries inserted so far. Replacing a value or a deadline does not count.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", 1, Duration::from_secs(5));
    /// map.insert("key", 2, Duration::from_secs(5));
    /// assert_eq!(map.metrics().inserted(), 1);
    /// ```
    #[must_use]
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Returns the number of entries that expired and were returned. It includes expired entries that a map without a
    /// stream has dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, mut expirations) = DeadlineMap::new();
    /// map.insert("key", 1, Duration::from_secs(5));
    /// expirations.recv().await;
    /// assert_eq!(map.metrics().expired(), 1);
    /// # }
    /// ```
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Returns the number of entries that left in any other way: removed, cleared, drained or not retained.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::new();
    /// map.insert("key", 1, Duration::from_secs(5));
    /// map.clear();
    /// assert_eq!(map.metrics().removed(), 1);
    /// ```
    #[must_use]
    pub fn removed(&self) -> u64 {
        self.inserted - self.expired - self.pending
    }

    /// Returns how often the map has refused an entry because it was
    /// [full](crate::deadline_map::Builder::max_entries). This is zero for a queue, and for a map without a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DeadlineMap, Duration};
    /// let (map, _expirations) = DeadlineMap::builder().max_entries(1).build().unwrap();
    /// map.insert("ann", 1, Duration::from_secs(5));
    /// assert!(map.try_insert("bob", 2, Duration::from_secs(5)).is_err());
    /// assert_eq!((map.metrics().inserted(), map.metrics().refused()), (1, 1));
    /// ```
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the maximum number of entries of the map, or `None` if there is [no
    /// limit](crate::deadline_map::Builder::max_entries). It is `None` for a queue: [`DelayQueue::capacity`] is reserved
    /// space, not a limit.
    ///
    /// # Examples
    ///
    /// ```
    /// let (map, _expirations) = hairspring::DeadlineMap::<u64, ()>::builder().max_entries(1_000).build().unwrap();
    /// assert_eq!(map.metrics().max_entries(), Some(1_000));
    /// ```
    ///
    /// [`DelayQueue::capacity`]: crate::DelayQueue::capacity
    #[must_use]
    pub fn max_entries(&self) -> Option<usize> {
        self.max_entries
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("pending", &self.pending())
            .field("inserted", &self.inserted())
            .field("expired", &self.expired())
            .field("removed", &self.removed())
            .field("refused", &self.refused())
            .field("max_entries", &self.max_entries())
            .finish_non_exhaustive()
    }
}
