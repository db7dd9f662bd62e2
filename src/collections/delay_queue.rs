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
// 3. While the last poll is pending, the sleep's end is registered, and nothing in the wheel is due before. Once a test
//    holds a clock, the sleep never ends where only an entry was due that is gone.
// 4. An entry goes behind those that were due when the clock was last read, whatever its deadline. The clock is read
//    again after 64 entries. So an entry that is inserted again at once keeps no other from coming out.
// 5. The numbers of keys come from one count for all queues, `KEYS` at a time. So no two entries have the same key.
// 6. A waker is woken only when the queue is in a consistent state.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use std::{mem, vec};

use futures_core::Stream;
use tokio::task::coop;

pub use super::Metrics;
#[cfg(feature = "metrics")]
use super::published::{Published, Publisher};
use crate::clock::source::{any_is_held, wheels_begin};
use crate::clock::{self, Instant};
use crate::future::{LazySleep, Sleep};
use crate::seam::TimerKind;
use crate::timer::Timer;
use crate::wheel::{self, Step, Tick, Wheel};

/// How many entries are handed out before the clock is read again.
const PER_LOOK: u32 = 64;

/// How many entries of the wheel one poll moves, at most: about a millisecond's work.
const MOVES: u64 = 16_384;

/// How many keys a queue gets at a time.
const KEYS: u64 = 256;

/// How far the time of a new wheel is behind the present: a second.
const BEHIND: u64 = 1 << 30;

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
/// refused, any deadline is accepted, deadlines are kept to the nanosecond, and there are [`drain`](DelayQueue::drain),
/// [`try_reset`](DelayQueue::try_reset) and [`with_timer`](DelayQueue::with_timer).
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
    /// Ends when the earliest entry is due. If the last poll has to wait, it is woken then.
    sleep: LazySleep,
    /// The clock's time when a poll last looked; tick 0 before the first.
    now: Tick,
    /// How many entries have been handed out since.
    handed_out: u32,
    /// How many entries have expired so far.
    expired: u64,
    /// How many numbers were skipped for those of other queues. The wheel counts them as entries.
    skipped: u64,
    /// How many entries the user has asked for room for. The wheel gets its memory as they come, a little at a time.
    reserved: usize,
    /// Whether the last poll was pending, or found the queue empty, and was not woken since.
    waits: bool,
    waker: Option<Waker>,
    /// Shows the counts after each poll and whenever all entries are taken out, if there is a reporter.
    #[cfg(feature = "metrics")]
    publisher: Option<Publisher>,
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
            sleep: LazySleep::new(sleep.of(TimerKind::DelayQueue)),
            now: Tick::ZERO,
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
            // So that entries are put on the levels where they belong. A clock that a test holds may go further back.
            if self.wheel.is_empty() && !any_is_held() {
                self.wheel.skip_to(Tick(self.sleep.now().0.saturating_sub(BEHIND)));
            }
        }
        let deadline = self.behind_what_is_due(deadline);
        let key = self.wheel.insert(deadline, value);
        self.wake_if_news(deadline);
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
        let (deadline, data) = self.wheel.take(key.0)?;
        // If others are left, a poller that waits for this one sees that when it wakes.
        if self.wheel.is_empty() {
            self.wake_poller();
        }
        self.put_off();
        Some(Expired { data, deadline, key: *key })
    }

    /// Sets an entry's deadline to `timeout` from now and keeps its key. The entry waits again, even if it was due.
    ///
    /// A duration of more than 500 years is treated as 500 years.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    /// [`try_reset`](DelayQueue::try_reset) does not panic.
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

    /// Sets an entry's deadline to `timeout` from now, as [`reset`](DelayQueue::reset) does. Returns `false`, and changes
    /// nothing, if the entry is not in this queue: it has come out, was removed, or is in another.
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

    /// Sets an entry's deadline to `when` and keeps its key. If `when` has passed, the entry comes out at the next
    /// poll.
    ///
    /// # Panics
    /// If the entry is not in this queue: it has come out, was removed, or is in another.
    /// [`try_reset_at`](DelayQueue::try_reset_at) does not panic.
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

    /// Sets an entry's deadline to `when`, as [`reset_at`](DelayQueue::reset_at) does. Returns `false`, and changes
    /// nothing, if the entry is not in this queue: it has come out, was removed, or is in another.
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

    /// Returns whether the entry is here.
    #[inline]
    fn reset_at_tick(&mut self, key: &Key, deadline: Tick) -> bool {
        let deadline = self.behind_what_is_due(deadline);
        let Some(before) = self.wheel.replace_deadline(key.0, deadline) else { return false };
        self.wake_if_reset(before, deadline);
        self.put_off();
        true
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
            #[cfg(feature = "metrics")]
            self.publish(0);
            self.wheel.clear();
        }
    }

    /// Removes all entries, due or not, and returns each with its deadline and its key, in the order in which they would
    /// have come out.
    ///
    /// The queue is empty when this returns, and you can fill it again while you read the iterator. Dropping the iterator
    /// drops the entries that you have not read. Use this to stop before the queue is empty and still handle the
    /// remaining entries.
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
    pub fn drain(&mut self) -> vec::IntoIter<Expired<T>> {
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
        Metrics { pending: self.len() as u64, inserted, expired: self.expired, ..Metrics::default() }
    }

    /// Returns what reads the counts for a reporter: those after the last poll, or the present ones before the next.
    #[cfg(feature = "metrics")]
    pub(crate) fn reader(&mut self) -> impl Fn() -> Published + Send + Sync + use<T> + 'static {
        let counts = self.metrics();
        let publisher = self.publisher.get_or_insert_default();
        publisher.publish(counts);
        publisher.reader()
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

/// The memory.
impl<T> DelayQueue<T> {
    /// Gives the reserved room up, and frees all memory if the queue is empty.
    ///
    /// As the queue shrinks it frees memory by itself, without this call. Entries do not move, because a key names the
    /// place of its entry, so some memory stays next to scattered entries.
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

    /// Returns how many entries room was reserved for, or the number of entries if that is larger.
    ///
    /// ```
    /// assert_eq!(hairspring::DelayQueue::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reserved.max(self.len())
    }

    /// Makes the [`capacity`](DelayQueue::capacity) so large that `additional` more entries fit, as tokio-util's queue
    /// does.
    ///
    /// Takes no time, however many they are: memory is asked for as entries come, room for 128 at a time, and no entry is
    /// copied to make room. So nothing is slower without this.
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
            let room = self.len().saturating_add(additional);
            assert!(room <= Wheel::<T>::MOST, "a queue has room for at most {} entries", Wheel::<T>::MOST);
            self.reserved = self.reserved.max(room);
        }
    }
}

/// How a queue waits for its earliest entry, and which changes wake the task that polled last.
impl<T> DelayQueue<T> {
    /// Polls for the next entry whose deadline has passed. Returns `None` if the queue is empty, and is pending if
    /// there are entries but none is due.
    ///
    /// Each entry that comes out spends one unit of the task's budget, as in tokio-util. If the budget is spent, the
    /// poll is pending and the task soon runs again. The same happens if a poll finds tens of thousands of unordered
    /// entries near the present, which it sorts in parts.
    ///
    /// # Panics
    /// If it has to wait and the queue's timer was shut down or is [full](crate::timer::Builder::capacity). The entries
    /// stay in the queue.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_millis(1));
    /// let expired = std::future::poll_fn(|cx| queue.poll_expired(cx)).await;
    /// assert_eq!(expired.unwrap().into_inner(), 'x');
    /// # }
    /// ```
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        #[cfg(feature = "metrics")]
        if self.publisher.is_some() {
            return self.poll_and_publish(cx);
        }
        self.poll_entry(cx)
    }

    #[cfg(feature = "metrics")]
    #[cold] // As most queues have no reporter.
    #[track_caller]
    fn poll_and_publish(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let polled = self.poll_entry(cx);
        self.publish(self.len());
        polled
    }

    /// Shows the counts to reporters, with so many entries left.
    #[cfg(feature = "metrics")]
    fn publish(&self, pending: usize) {
        if let Some(publisher) = &self.publisher {
            publisher.publish(Metrics { pending: pending as u64, ..self.metrics() });
        }
    }

    #[inline]
    #[track_caller]
    fn poll_entry(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.waker.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
        if self.wheel.is_empty() {
            self.sleep.stop();
            self.waits = true;
            return Poll::Ready(None);
        }
        self.waits = false;
        let budget = ready!(coop::poll_proceed(cx));
        let expired = ready!(self.poll_due(cx));
        budget.made_progress();
        Poll::Ready(Some(expired))
    }

    /// Hands out the first entry as soon as it is due. There must be an entry.
    #[inline(always)] // Although it has two callers.
    #[allow(clippy::inline_always)]
    #[track_caller]
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Expired<T>> {
        if self.handed_out >= PER_LOOK {
            self.look();
        }
        let moved = self.wheel.cascaded();
        loop {
            match self.wheel.step(self.now) {
                Step::Fired { key, deadline, value: data } => {
                    self.handed_out += 1;
                    self.expired += 1;
                    return Poll::Ready(Expired { data, deadline, key: Key(key) });
                }
                Step::Cascaded if self.wheel.cascaded() - moved >= MOVES => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Cascaded => {}
                Step::Done => {
                    let next = self.wheel.next_expiration().expect("there is an entry");
                    self.sleep.end_at(next);
                    if self.sleep.poll_or_panic(cx).is_pending() {
                        self.waits = true;
                        return Poll::Pending;
                    }
                    self.now = self.now.max(next);
                    self.look();
                }
            }
        }
    }

    /// An entry was inserted: the poller may have seen an empty queue, or wait for a later entry.
    #[inline]
    fn wake_if_news(&mut self, deadline: Tick) {
        if deadline < self.sleep.end() || self.len() == 1 {
            self.wake_poller();
        }
    }

    /// The deadline of an entry has changed.
    fn wake_if_reset(&mut self, before: Tick, deadline: Tick) {
        let until = self.sleep.end();
        // If the poller waits for this entry and it is still the first, it is woken once, as in tokio-util. If another
        // entry is the first now, the poller sees it when it wakes at `until`.
        let is_awaited = before == until && before != deadline && self.wheel.next_expiration() == Some(deadline);
        if deadline < until || is_awaited {
            self.wake_poller();
        }
    }

    /// The tick at which an entry goes into the wheel. As long as entries may be left that were due when the clock was
    /// last read, an entry with a deadline in the past goes behind them. Otherwise it keeps its deadline, and the wheel
    /// keeps that order by itself.
    #[inline]
    fn behind_what_is_due(&self, deadline: Tick) -> Tick {
        if self.wheel.elapsed() < self.now { deadline.max(self.now) } else { deadline }
    }

    /// Reads the clock.
    fn look(&mut self) {
        self.now = self.now.max(self.sleep.now());
        self.handed_out = 0;
    }

    /// Wakes the last poller unless it will poll again anyway.
    #[inline]
    fn wake_poller(&mut self) {
        if mem::take(&mut self.waits) {
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// An entry was removed or put off. A clock that a test holds must not stop where it was due.
    #[inline]
    fn put_off(&mut self) {
        if any_is_held() {
            self.sleep.end_at(self.wheel.next_expiration().unwrap_or(Tick::MAX));
        }
    }

    /// The queue has become empty.
    fn end_wait(&mut self) {
        self.sleep.stop();
        self.wake_poller();
    }
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
    }
}

/// Identifies an entry of a [`DelayQueue`] while it is in the queue.
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
pub struct Key(wheel::Key);

/// The number of the first of [`KEYS`] keys that no other queue has. They last for 2^56 calls.
fn new_keys() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(KEYS, Relaxed)
}

/// An entry that came out of a [`DelayQueue`] because it was due, removed, or drained.
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

    /// Returns the deadline that the entry had, as [`DelayQueue::deadline`](DelayQueue::deadline) did.
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
