//! [`DelayQueue`]: a queue that returns values when they are due.
//!
//! A task that receives jobs and runs each when it is due. The pattern `Some(..)` disables the queue's branch while the
//! queue is empty:
//!
//! ```
//! use hairspring::{DelayQueue, Duration};
//! use tokio::sync::mpsc;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let (sender, mut requests) = mpsc::channel(8);
//! sender.send(("later", Duration::from_secs(5))).await.unwrap();
//! sender.send(("soon", Duration::from_secs(2))).await.unwrap();
//! drop(sender);
//!
//! let mut queue = DelayQueue::new();
//! let mut done = Vec::new();
//! loop {
//!     tokio::select! {
//!         Some((job, after)) = requests.recv() => {
//!             let _key = queue.insert(job, after); // for `remove` and `reset`
//!         }
//!         Some(due) = queue.recv() => done.push(due.into_inner()),
//!         else => break, // no more requests, and the queue is empty
//!     }
//! }
//! assert_eq!(done, ["soon", "later"]);
//! # }
//! ```
//!
//! Use it for values that one task owns: retransmissions, jobs, entries to check again.
//! [`deadline_map`](crate::deadline_map) compares it with a [`DeadlineMap`](crate::DeadlineMap) and with a
//! [`timeout`](crate::timeout()) per task.
//
// Invariants
// 1. Nothing is returned early: only entries due at `now`, which a turn has reached or is a deadline at which the sleep
//    has completed. If a test has advanced another clock, and the queue's is behind, `now` goes back, and the wheel
//    files all entries again: once, however many there are.
// 2. An operation that would change the result of the last poll wakes the last poller, unless the sleep wakes it in
//    time.
// 3. While the last poll is pending, the sleep's end is registered, and nothing in the wheel is due earlier. Once a
//    test has paused a clock, the sleep never ends at the deadline of a removed entry.
// 4. An entry goes behind entries that were due when the clock was last read, whatever its deadline, and the clock is
//    looked up again after 1,024 entries. An entry that is reinserted immediately therefore cannot starve the others.
// 5. Wakers run only while the queue is in a consistent state.

mod entry;
mod poll;
mod room;

use std::fmt;
use std::task::Waker;
use std::time::Duration;

use super::Metrics;
#[cfg(feature = "metrics")]
use super::published::{Published, Publisher};
use crate::clock::source::wheels_begin;
use crate::clock::{self, Instant};
use crate::future::{ItemKind, LazySleep, sleep_on};
use crate::timer::Timer;
use crate::wheel::{Tick, Wheel};
pub use entry::{Expired, Key};
use entry::{KEYS, new_keys, refuse};

/// A queue whose entries come out when their deadlines have passed, like `tokio_util::time::DelayQueue`.
///
/// ```
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
/// assert_eq!(queue.recv().await.unwrap().into_inner(), "first");
/// assert_eq!(queue.recv().await.unwrap().into_inner(), "second");
/// assert!(queue.recv().await.is_none(), "it is empty");
/// # }
/// ```
///
/// [`recv`](DelayQueue::recv) waits for the next entry. The queue is also a [`Stream`](futures_core::Stream) of
/// [`Expired`], which ends when the queue is empty, and continues when you insert something. The task that polled last
/// is woken if an entry is due, if an entry is inserted before all others, or if the queue becomes empty or is no longer
/// empty.
///
/// Deadlines are not rounded, and more than 500 years count as for ever. On Linux and macOS, the clock stands still
/// while the machine is suspended. Entries come out in deadline order, and never early. Entries with the same deadline
/// come out in the order in which they were inserted or reset; those whose deadline had already passed by then may come
/// out behind others that were due.
///
/// Inserting, removing and resetting take tens of nanoseconds, most of them to read the clock, whatever the number of
/// entries, and do not allocate per entry. The queue registers only one timer, for its earliest entry.
///
/// You can create and fill a queue without a runtime. The first poll that has to wait finds a timer, as
/// [`sleep`](crate::sleep()) does. On a runtime whose clock is behind, as that of the next test, entries wait for that
/// clock.
///
/// These differ from tokio-util's queue: the [`Key`] of a removed entry stays invalid, a key of another queue is
/// refused, any deadline is accepted, and there are `recv`, [`drain`](DelayQueue::drain),
/// [`try_reset`](DelayQueue::try_reset), [`try_reset_at`](DelayQueue::try_reset_at) and
/// [`with_timer`](DelayQueue::with_timer).
///
/// # Cancel safety
///
/// Dropping a future that waits for the next entry loses nothing.
#[doc(alias = "scheduler")]
#[doc(alias = "PriorityQueue")]
pub struct DelayQueue<T> {
    // Seven kilobytes, mostly lists.
    wheel: Box<Wheel<T>>,
    sleep: LazySleep,
    /// What turns had reached when a poll last looked; tick 0 before the first.
    now: Tick,
    /// How many entries were returned since then.
    handed_out: u32,
    expired: u64,
    /// How many key numbers were skipped because other queues have them. The wheel counts them as entries.
    skipped: u64,
    /// How many entries the user has reserved space for. The wheel allocates as they are inserted.
    reserved: usize,
    /// Whether the last poll was pending or found the queue empty, and the poller was not woken since.
    waits: bool,
    waker: Option<Waker>,
    /// Receives the counters after each poll and when all entries are removed, if there is a reporter.
    #[cfg(feature = "metrics")]
    publisher: Option<Publisher>,
}

impl<T> DelayQueue<T> {
    /// Creates an empty queue. It allocates memory for entries when the first one is inserted.
    ///
    /// # Examples
    ///
    /// ```
    /// let queue = hairspring::DelayQueue::<u8>::new();
    /// assert!(queue.is_empty() && queue.capacity() == 0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        DelayQueue::on(None)
    }

    /// Creates an empty queue with space for `capacity` entries.
    ///
    /// # Panics
    ///
    /// Panics if `capacity` is more than 2^32 - 128.
    ///
    /// # Examples
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

    /// Creates an empty queue that uses `timer` and its clock, whatever runtime polls it. The timer should be one of
    /// that runtime: see [`build`](crate::timer::Builder::build).
    ///
    /// # Panics
    ///
    /// Panics if the timer has [`max_pending`](crate::timer::Builder::max_pending).
    ///
    /// # Examples
    ///
    /// ```
    /// use hairspring::{DelayQueue, Duration, Timer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::with_timer(&Timer::current());
    /// queue.insert('x', Duration::from_millis(1));
    /// assert_eq!(queue.recv().await.unwrap().into_inner(), 'x');
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_timer(timer: &Timer) -> Self {
        DelayQueue::on(Some(timer.unlimited("DelayQueue")))
    }

    #[track_caller]
    fn on(timer: Option<&Timer>) -> Self {
        let sleep = LazySleep::new(sleep_on(timer, Tick::MAX).part_of(ItemKind::DelayQueue));
        let now = sleep.now();
        DelayQueue {
            wheel: Box::new(Wheel::starting_at(wheels_begin(now))),
            sleep,
            // What is due by then waits for no turn, as in tokio-util.
            now,
            handed_out: 0,
            expired: 0,
            skipped: 0,
            reserved: 0,
            waits: false,
            waker: None,
            #[cfg(feature = "metrics")]
            publisher: None,
        }
    }

    /// Inserts `value`, which comes out `timeout` from now, and returns its key.
    ///
    /// # Panics
    ///
    /// Panics if the queue would hold more than 2^32 - 128 entries.
    ///
    /// # Examples
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

    /// Inserts `value`, which comes out at `when`, or at the next poll if `when` has passed. Returns its key.
    ///
    /// # Panics
    ///
    /// Panics if the queue would hold more than 2^32 - 128 entries.
    ///
    /// # Examples
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
            if self.wheel.is_empty() {
                self.wheel.skip_to(wheels_begin(self.sleep.now()));
            }
        }
        let deadline = self.behind_what_is_due(deadline);
        let key = self.wheel.insert(deadline, value);
        self.wake_if_earliest(deadline);
        Key(key)
    }

    /// Returns the deadline of an entry, as it was given. If it had already passed then, this may be the time of the
    /// last poll.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert('x', Duration::from_secs(5));
    /// assert!(queue.deadline(&key) <= Instant::now() + Duration::from_secs(5));
    /// ```
    ///
    /// Very distant deadlines are limited as those of a [`Sleep`](crate::Sleep::deadline) are.
    ///
    /// # Panics
    ///
    /// Panics if the [key](Key) is invalid.
    #[must_use]
    #[track_caller]
    pub fn deadline(&self, key: &Key) -> Instant {
        let Some(deadline) = self.wheel.deadline(key.0) else { refuse() };
        clock::instant_of(deadline)
    }

    /// Removes an entry, due or not.
    ///
    /// # Panics
    ///
    /// Panics if the [key](Key) is invalid. [`try_remove`](DelayQueue::try_remove) returns `None` instead.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("cancelled", Duration::from_secs(5));
    /// assert_eq!(queue.remove(&key).into_inner(), "cancelled");
    /// ```
    #[doc(alias = "cancel")]
    #[inline]
    #[track_caller]
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        let Some(removed) = self.try_remove(key) else { refuse() };
        removed
    }

    /// Removes an entry, due or not. Returns `None` if the [key](Key) is invalid.
    ///
    /// # Examples
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
        let (deadline, data) = self.wheel.take(key.0)?;
        // If entries are left, a poller that waits for this one finds out when it wakes.
        if self.wheel.is_empty() {
            self.wake_poller();
        }
        self.postponed();
        Some(Expired { data, deadline, key: *key })
    }

    /// Sets an entry's deadline to `timeout` from now. The key stays valid, and an entry that was due waits again.
    ///
    /// # Panics
    ///
    /// Panics if the [key](Key) is invalid. [`try_reset`](DelayQueue::try_reset) returns `false` instead.
    ///
    /// # Examples
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
        if !self.reset_at_tick(key, clock::later(self.sleep.now(), timeout)) {
            refuse();
        }
    }

    /// Sets an entry's deadline to `timeout` from now, as [`reset`](DelayQueue::reset) does. Returns `false` and
    /// changes nothing if the [key](Key) is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert("heartbeat", Duration::from_secs(5));
    /// assert!(queue.try_reset(&key, Duration::from_secs(10)));
    /// queue.remove(&key);
    /// assert!(!queue.try_reset(&key, Duration::from_secs(10)));
    /// ```
    #[inline]
    pub fn try_reset(&mut self, key: &Key, timeout: Duration) -> bool {
        self.reset_at_tick(key, clock::later(self.sleep.now(), timeout))
    }

    /// Sets an entry's deadline to `when`. The key stays valid. If `when` has passed, the entry comes out at the next
    /// poll.
    ///
    /// # Panics
    ///
    /// Panics if the [key](Key) is invalid. [`try_reset_at`](DelayQueue::try_reset_at) returns `false` instead.
    ///
    /// # Examples
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
        if !self.reset_at_tick(key, clock::tick_of(when)) {
            refuse();
        }
    }

    /// Sets an entry's deadline to `when`, as [`reset_at`](DelayQueue::reset_at) does. Returns `false` and changes
    /// nothing if the [key](Key) is invalid.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration, Instant};
    /// let mut queue = DelayQueue::new();
    /// let key = queue.insert('x', Duration::from_secs(5));
    /// let when = Instant::now() + Duration::from_secs(10);
    /// assert!(queue.try_reset_at(&key, when));
    /// queue.clear();
    /// assert!(!queue.try_reset_at(&key, when));
    /// ```
    #[inline]
    pub fn try_reset_at(&mut self, key: &Key, when: Instant) -> bool {
        self.reset_at_tick(key, clock::tick_of(when))
    }

    #[inline]
    fn reset_at_tick(&mut self, key: &Key, deadline: Tick) -> bool {
        let deadline = self.behind_what_is_due(deadline);
        let Some(before) = self.wheel.replace_deadline(key.0, deadline) else { return false };
        self.wake_if_reset(before, deadline);
        self.postponed();
        true
    }

    /// Returns the key of the entry that comes out first, or `None` if the queue is empty.
    ///
    /// Takes time in proportion to the number of unordered entries near the first one.
    ///
    /// # Examples
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

    /// Removes and drops all entries. Their keys become invalid; reserved space is kept.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_secs(5));
    /// queue.clear();
    /// assert!(queue.is_empty());
    /// ```
    ///
    /// If the drops of some values panic, all others are dropped nevertheless. If the queue itself is dropped, a second
    /// panic aborts the process, as with a `Vec`.
    ///
    /// # Panics
    ///
    /// Panics if the drop of a value does.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            // Before anything is dropped, because a drop may panic.
            self.end_wait();
            #[cfg(feature = "metrics")]
            self.publish(0);
            self.wheel.clear();
        }
    }

    /// Removes all entries, due or not, and returns them in the order in which they would have come out. Use this to
    /// stop early and still handle the remaining entries.
    ///
    /// The queue is empty when this returns, and you can refill it while you iterate. The iterator knows its length and
    /// can be read from both ends. Dropping it drops the entries left in it.
    ///
    /// # Examples
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
    pub fn drain(&mut self) -> impl DoubleEndedIterator<Item = Expired<T>> + ExactSizeIterator + use<T> {
        let mut entries = Vec::with_capacity(self.len());
        self.wheel.empty_into(|key, deadline, data| entries.push(Expired { data, deadline, key: Key(key) }));
        if !entries.is_empty() {
            self.end_wait();
            #[cfg(feature = "metrics")]
            self.publish(0);
        }
        entries.into_iter()
    }

    /// Returns the number of entries, due or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::ZERO);
    /// assert_eq!(queue.len(), 1, "until it comes out");
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.wheel.len()
    }

    /// Returns a snapshot of the queue's counters.
    ///
    /// # Examples
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
        Metrics { pending: self.len() as u64, inserted, expired: self.expired, ..Metrics::default() }
    }

    /// A function that reads the counters for a reporter: as of the last poll, or the current ones before the next.
    #[cfg(feature = "metrics")]
    pub(crate) fn reader(&mut self) -> impl Fn() -> Published + Send + Sync + use<T> + 'static {
        let counts = self.metrics();
        let publisher = self.publisher.get_or_insert_default();
        publisher.publish(counts);
        publisher.reader()
    }

    /// Returns whether the queue has no entries.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(hairspring::DelayQueue::<u8>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }
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
