//! The memory of a queue.

use super::DelayQueue;

impl<T> DelayQueue<T> {
    /// Frees memory that holds no entry.
    ///
    /// Entries do not move, because a key names the place of its entry, so some memory stays next to scattered entries.
    /// As the queue shrinks it frees memory beyond the reserved room by itself, without this call.
    ///
    /// ```
    /// # use hairspring::DelayQueue;
    /// let mut queue = DelayQueue::<u8>::with_capacity(1_000);
    /// queue.shrink_to_fit();
    /// assert_eq!(queue.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.reserved = 0;
        self.wheel.shrink_to_fit();
    }

    /// The same as [`shrink_to_fit`](DelayQueue::shrink_to_fit), for programs written for tokio-util's queue, in which
    /// it moves entries together. Keys do not change.
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

    /// Returns how many entries there is certainly room for: the reserved room, or the number of entries if that is
    /// larger.
    ///
    /// ```
    /// assert_eq!(hairspring::DelayQueue::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reserved.max(self.len())
    }

    /// Keeps room for `additional` more entries until [`shrink_to_fit`](DelayQueue::shrink_to_fit).
    ///
    /// Takes no time, however many they are: memory is asked for as entries come, some at a time, and then it stays.
    ///
    /// # Panics
    /// If there would be room for more than 2^32 - 128 entries.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_secs(5));
    /// queue.reserve(10);
    /// assert!(queue.capacity() >= 11);
    /// ```
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) {
        if additional > 0 {
            self.wheel.reserve(additional);
            self.reserved = self.reserved.max(self.len() + additional);
        }
    }
}
