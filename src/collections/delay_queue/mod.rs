//! [`DelayQueue`]: a queue that returns values when they are due.
//!
//! ```
//! use futures::StreamExt;
//! use hairspring::{DelayQueue, Duration, delay_queue::Key};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let mut retries = DelayQueue::new();
//! let key: Key = retries.insert("ping", Duration::from_secs(60));
//! retries.reset(&key, Duration::from_millis(1)); // sooner, after all
//! let due = retries.next().await.unwrap();
//! assert_eq!((due.key(), due.into_inner()), (key, "ping"));
//! # }
//! ```
//
// Invariants
// 1. The queue hands out nothing early: only what is due at `now`, which was read from the clock or is a deadline at
//    which the sleep has completed.
// 2. An operation after which the last poll would have another result wakes the last poller, unless the sleep wakes it
//    in time.
// 3. While the last poll is `Pending`, the sleep is registered for `until`, and nothing in the wheel is due before. A
//    sleep that drives a clock is never registered for an entry that is gone.
// 4. An entry goes behind those that were due when the clock was last read, whatever its deadline. The clock is read
//    again after 64 entries. So an entry that is inserted again at once keeps no other from coming out.
// 5. The numbers of keys come from one count for all queues, `KEYS` at a time. So no two entries have the same key.
// 6. A waker is woken only when the queue is in a consistent state.

mod expired;
mod room;
mod waiting;

use std::fmt;
use std::task::Waker;
use std::time::Duration;

pub use self::expired::{Drain, Expired, Key};
use self::expired::{KEYS, new_keys};
use self::waiting::LastPoll;
pub use super::metrics::Metrics;
use crate::clock::source::wheels_begin;
use crate::clock::{self, Instant};
use crate::future::Sleep;
use crate::seam::Kind;
use crate::timer::Timer;
use crate::wheel::{Tick, Wheel};

/// A queue whose entries come out when their deadlines have passed, like `tokio_util::time::DelayQueue`.
///
/// Entries come out in the order of their deadlines, to the nanosecond, and never early. Entries with the same deadline
/// come out in the order in which they were inserted or reset. Entries whose deadline had already passed by then may
/// come out behind others that were due. Inserting, removing and resetting take a few nanoseconds besides reading the
/// clock, whatever the number of entries, and do not allocate for each entry.
///
/// The queue is a [`Stream`](futures_core::Stream) of [`Expired`]; `next` is a method of `futures::StreamExt`, and of
/// tokio-stream's. The stream ends when the queue is empty, and continues when something is inserted. The task that
/// polled last is woken if there is a reason to poll: an entry is due, an entry was inserted before all others, or the
/// queue has become empty or is no longer empty.
///
/// You can make and fill a queue anywhere. The first poll that has to wait looks for a runtime, as
/// [`sleep`](crate::sleep()) does.
///
/// It differs from tokio-util's queue: the [`Key`] of an entry that is gone stays invalid, the key of another queue is
/// refused, any deadline is accepted, deadlines are kept to the nanosecond, and there are [`drain`](DelayQueue::drain)
/// and [`with_timer`](DelayQueue::with_timer).
///
/// # Cancel safety
/// Dropping a future that waits for the next entry (`queue.next()`) loses nothing.
///
/// ```
/// use futures::StreamExt;
/// use hairspring::{DelayQueue, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let mut queue = DelayQueue::new();
/// queue.insert("second", Duration::from_millis(4));
/// queue.insert("first", Duration::from_millis(2));
/// let key = queue.insert("never", Duration::from_millis(3));
/// queue.remove(&key);
///
/// assert_eq!(queue.next().await.unwrap().into_inner(), "first");
/// assert_eq!(queue.next().await.unwrap().into_inner(), "second");
/// assert!(queue.next().await.is_none(), "it is empty");
/// # }
/// ```
pub struct DelayQueue<T> {
    // Seven kilobytes, most of them lists.
    wheel: Box<Wheel<T>>,
    sleep: Sleep,
    /// The clock's time when a poll last looked; tick 0 before the first.
    now: Tick,
    /// How many entries have been handed out since.
    handed_out: u32,
    /// How many entries have expired so far.
    expired: u64,
    /// How many numbers were skipped for those of other queues. The wheel counts them as entries.
    skipped: u64,
    /// How many entries room is reserved for.
    reserved: usize,
    last_poll: LastPoll,
    /// Whether the last poll found that the sleep drives a clock.
    drives_clock: bool,
    waker: Option<Waker>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue. It does not allocate memory for entries before the first one.
    ///
    /// ```
    /// let queue = hairspring::DelayQueue::<u8>::new();
    /// assert!(queue.is_empty() && queue.capacity() == 0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        DelayQueue::on(Sleep::new(Tick::MAX))
    }

    /// Creates an empty queue with room for `capacity` entries.
    ///
    /// # Panics
    /// If `capacity` is more than 2^32 - 128.
    ///
    /// ```
    /// assert_eq!(hairspring::DelayQueue::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = DelayQueue::new();
        queue.reserve(capacity);
        queue
    }

    /// Creates an empty queue that uses `timer` and its clock, whatever runtime polls it.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use hairspring::{DelayQueue, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::with_timer(&Timer::current());
    /// queue.insert('x', Duration::from_millis(1));
    /// assert_eq!(queue.next().await.unwrap().into_inner(), 'x');
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> Self {
        DelayQueue::on(timer.sleep_until(clock::instant_of(Tick::MAX)))
    }

    fn on(sleep: Sleep) -> Self {
        DelayQueue {
            wheel: Box::new(Wheel::starting_at(wheels_begin())),
            sleep: sleep.of(Kind::DelayQueue),
            now: Tick::ZERO,
            handed_out: 0,
            expired: 0,
            skipped: 0,
            reserved: 0,
            last_poll: LastPoll::Ready,
            drives_clock: false,
            waker: None,
        }
    }

    /// Inserts `value`, which comes out when `timeout` has passed from now. A duration of more than 500 years is
    /// treated as 500 years.
    ///
    /// # Panics
    /// If there would be more than 2^32 - 128 entries.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("in a second", Duration::from_secs(1));
    /// queue.insert("in the end", Duration::MAX);
    /// assert_eq!(queue.peek(), Some(key));
    /// ```
    #[inline]
    pub fn insert(&mut self, value: T, timeout: Duration) -> Key {
        self.insert_tick(value, clock::later(self.sleep.now(), timeout))
    }

    /// Inserts `value`, which comes out at `when`, or at the next poll if `when` has passed.
    ///
    /// # Panics
    /// If there would be more than 2^32 - 128 entries.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let when = Instant::now() + Duration::from_secs(1);
    /// let key = queue.insert_at("in a second", when);
    /// assert_eq!(queue.deadline(&key), when);
    /// ```
    #[inline]
    pub fn insert_at(&mut self, value: T, when: Instant) -> Key {
        self.insert_tick(value, clock::tick_of(when))
    }

    #[inline]
    fn insert_tick(&mut self, value: T, deadline: Tick) -> Key {
        if self.wheel.inserted() % KEYS == 0 {
            self.skipped += self.wheel.number_from(new_keys());
        }
        let deadline = self.behind_what_is_due(deadline);
        let key = self.wheel.insert(deadline, value);
        self.wake_if_earlier(deadline);
        Key(key)
    }

    /// Returns the deadline of an entry, as it was given. If it was in the past then, this may be the time at which the
    /// queue was last polled.
    ///
    /// Deadlines that no instant can represent, and those more than 500 years away, are limited as
    /// [`Sleep::deadline`](crate::Sleep::deadline) is.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert('x', Duration::from_secs(5));
    /// assert!(queue.deadline(&key) <= Instant::now() + Duration::from_secs(5));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        let Some(deadline) = self.wheel.deadline(key.0) else { refuse() };
        clock::instant_of(deadline)
    }

    /// Removes an entry, due or not.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    /// [`try_remove`](DelayQueue::try_remove) does not panic.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("cancelled", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "cancelled");
    /// ```
    #[inline]
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        let Some(removed) = self.try_remove(key) else { refuse() };
        removed
    }

    /// Removes an entry, due or not. Returns `None` if the entry is not in this queue: it has come out, was removed, or
    /// is in another.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("cancelled", Duration::from_secs(5));
    /// assert!(queue.try_remove(&key).is_some());
    /// assert!(queue.try_remove(&key).is_none());
    /// ```
    #[inline]
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        let (deadline, value) = self.wheel.take(key.0)?;
        // If others are left, a poller that waits for this one sees that when it wakes.
        if self.wheel.is_empty() {
            self.wake_poller();
        }
        self.put_off(deadline);
        Some(Expired::new(*key, deadline, value))
    }

    /// Sets an entry's deadline to `timeout` from now and keeps its key. The entry waits again, even if it was due.
    ///
    /// A duration of more than 500 years is treated as 500 years.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("heartbeat", Duration::from_secs(5));
    /// let now = Instant::now();
    /// queue.reset(&key, Duration::from_secs(10));
    /// assert!(queue.deadline(&key) >= now + Duration::from_secs(10));
    /// ```
    #[inline]
    #[track_caller]
    pub fn reset(&mut self, key: &Key, timeout: Duration) {
        self.reset_tick(key, clock::later(self.sleep.now(), timeout));
    }

    /// Sets an entry's deadline to `when` and keeps its key. If `when` has passed, the entry comes out at the next
    /// poll.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert('x', Duration::from_secs(5));
    /// let when = Instant::now() + Duration::from_secs(10);
    /// queue.reset_at(&key, when);
    /// assert_eq!(queue.deadline(&key), when);
    /// ```
    #[inline]
    #[track_caller]
    pub fn reset_at(&mut self, key: &Key, when: Instant) {
        self.reset_tick(key, clock::tick_of(when));
    }

    #[inline]
    #[track_caller]
    fn reset_tick(&mut self, key: &Key, deadline: Tick) {
        let deadline = self.behind_what_is_due(deadline);
        let Some(before) = self.wheel.replace_deadline(key.0, deadline) else { refuse() };
        self.wake_if_reset(before, deadline);
        self.put_off(before);
    }

    /// Returns the key of the entry that comes out first, or `None` if the queue is empty.
    ///
    /// Takes time in proportion to the number of unordered entries near the first one.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("later", Duration::from_secs(3600));
    /// let key = queue.insert("sooner", Duration::from_secs(5));
    /// assert_eq!(queue.peek(), Some(key));
    /// ```
    #[must_use]
    pub fn peek(&self) -> Option<Key> {
        self.wheel.first().map(Key)
    }

    /// Removes and drops all entries. Their keys become invalid; reserved room stays.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_secs(5));
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // Before anything is dropped, because a drop may panic.
            self.end_wait();
            self.wheel.clear();
        }
    }

    /// Removes all entries, due or not, and returns each with its deadline and its key, in the order of their
    /// deadlines.
    ///
    /// The queue is empty when this returns, and you can fill it again while you read the iterator. Use this to stop
    /// before the queue is empty and still handle the remaining entries.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// queue.insert("later", Duration::from_secs(9));
    /// queue.insert("sooner", Duration::from_secs(5));
    /// for left in queue.drain() {
    ///     println!("{} was due in {:?}", left.get_ref(), left.deadline() - Instant::now());
    /// }
    /// assert!(queue.is_empty());
    /// ```
    pub fn drain(&mut self) -> Drain<T> {
        let mut entries = Vec::with_capacity(self.len());
        self.wheel.empty_into(|key, deadline, value| entries.push(Expired::new(Key(key), deadline, value)));
        if !entries.is_empty() {
            self.end_wait();
        }
        Drain::new(entries)
    }

    /// Returns the number of entries, due or not.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::ZERO);
    /// assert_eq!(queue.len(), 1, "until it is handed out");
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns a snapshot of what the queue has done so far.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_secs(5));
    /// queue.clear();
    /// assert_eq!(queue.metrics().removed(), 1);
    /// ```
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let inserted = self.wheel.inserted() - self.skipped;
        Metrics { name: None, len: self.len(), inserted, expired: self.expired }
    }

    /// Returns whether the queue has no entries.
    ///
    /// ```
    /// assert!(hairspring::DelayQueue::<u8>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }
}

/// Panics: the key names no entry.
#[cold]
#[track_caller]
fn refuse() -> ! {
    panic!("invalid key: its entry has been handed out or removed, or is in another queue");
}

impl<T> Default for DelayQueue<T> {
    #[track_caller]
    fn default() -> Self {
        DelayQueue::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = self.wheel.next_expiration().map(clock::instant_of);
        f.debug_struct("DelayQueue").field("len", &self.len()).field("next", &next).finish_non_exhaustive()
    }
}
