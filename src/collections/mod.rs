//! Collections of entries with deadlines: [`DelayQueue`](delay_queue::DelayQueue) and
//! [`DeadlineMap`](deadline_map::DeadlineMap), and the [`Metrics`] of both.

pub mod deadline_map;
pub mod delay_queue;

use std::sync::Arc;

/// A snapshot of what a [`DeadlineMap`](crate::DeadlineMap::metrics) or a [`DelayQueue`](crate::DelayQueue::metrics)
/// has done.
///
/// Each entry that was inserted either expires or is removed in the end: `inserted() == expired() + removed() + len()`
/// holds in every snapshot. The shards of a map are read one after the other, so while threads use it, the sums may be
/// ones that never existed.
///
/// The timer that a map or a queue waits on has [metrics of its own](crate::timer::Metrics). There each of them counts
/// as one sleep, however many entries it has.
///
/// ```
/// use hairspring::{DelayQueue, Duration};
///
/// let mut queue = DelayQueue::new();
/// let key = queue.insert("cancelled", Duration::from_secs(5));
/// queue.insert("waits", Duration::from_secs(5));
/// queue.remove(&key);
/// let metrics = queue.metrics();
/// assert_eq!((metrics.inserted(), metrics.expired(), metrics.removed(), metrics.len()), (2, 0, 1, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    name: Option<Arc<str>>,
    len: usize,
    inserted: u64,
    expired: u64,
}

impl Metrics {
    /// Returns the name that the map was [given](crate::deadline_map::Builder::name), if any. A queue has none.
    ///
    /// ```
    /// let (sessions, _expirations) = hairspring::DeadlineMap::<u64, ()>::builder().name("sessions").build().unwrap();
    /// assert_eq!(sessions.metrics().name(), Some("sessions"));
    /// ```
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of entries now, including those that have expired and were not handed out yet.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::ZERO);
    /// assert_eq!(queue.metrics().len(), 1);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no entries now.
    ///
    /// ```
    /// assert!(hairspring::DelayQueue::<u8>::new().metrics().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of entries inserted so far. An entry that gets another value or deadline does not count
    /// again.
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

    /// Returns the number of entries that have come out because their deadlines had passed. A map without its stream
    /// drops such entries; these count, too.
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

    /// Returns the number of entries that were taken out in any other way: removed, cleared, drained or not retained.
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
        self.inserted - self.expired - self.len as u64
    }
}
