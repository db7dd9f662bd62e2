//! The memory of a queue, with tokio-util's names.

use super::DelayQueue;
use crate::wheel::Wheel;

impl<T> DelayQueue<T> {
    /// Gives up reserved space, and frees all memory if the queue is empty.
    ///
    /// A queue that shrinks also frees memory by itself. Entries never move, so some memory stays allocated next to
    /// scattered ones.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::DelayQueue;
    /// let mut queue = DelayQueue::<u8>::with_capacity(1_000);
    /// queue.shrink_to_fit();
    /// assert_eq!(queue.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.reserved = 0;
        if self.is_empty() {
            self.wheel.clear();
        }
    }

    /// Does the same as [`shrink_to_fit`](DelayQueue::shrink_to_fit). In tokio-util's queue, this moves entries
    /// together. Keys stay valid.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::with_capacity(1_000);
    /// let key = queue.insert('x', Duration::from_secs(5));
    /// queue.compact();
    /// assert_eq!(queue.capacity(), 1);
    /// assert_eq!(queue.remove(&key).into_inner(), 'x');
    /// ```
    pub fn compact(&mut self) {
        self.shrink_to_fit();
    }

    /// Returns the reserved space, or the number of entries if that is larger.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(hairspring::DelayQueue::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reserved.max(self.len())
    }

    /// Raises the [`capacity`](DelayQueue::capacity) to fit `additional` more entries, as in tokio-util.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_secs(5));
    /// queue.reserve(10);
    /// assert!(queue.capacity() >= 11);
    /// ```
    ///
    /// This only sets a number, and makes nothing faster: the queue allocates memory for 128 entries at a time, and
    /// growing copies nothing.
    ///
    /// # Panics
    ///
    /// Panics if the capacity would exceed 2^32 - 128.
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        if additional > 0 {
            let room = self.len().saturating_add(additional);
            assert!(
                room <= Wheel::<T>::MAX_LEN,
                "a queue has space for at most {} entries, not {room}",
                Wheel::<T>::MAX_LEN
            );
            self.reserved = self.reserved.max(room);
        }
    }
}
