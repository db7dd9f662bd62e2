//! [`DelayQueue`]: values that come out when their time has come.
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
//!
//! Invariants
//! 1. Nothing is handed out early: only what is due at `now`, which was read from the clock, or stands for a deadline
//!    that the sleep has told of.
//! 2. Whoever polled last is woken by every operation that changes the answer, unless the sleep wakes it in time: `told`
//!    says what it goes by.
//! 3. While `told` is waiting, the sleep is armed for `until`, and nothing in the wheel is due before. On a clock that jumps
//!    to what is waited for, the sleep is never armed for an entry that is gone.
//! 4. An entry goes behind those that were due when the clock was last read, whatever its deadline. The clock is read
//!    again after 64 entries. So nobody who comes back at once keeps the others from coming.
//! 5. Wakers are woken where the queue is whole.
//!
//! Must not know: shards, the driver, the insides of the wheel and of the sleep.

mod expired;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures_core::Stream;
use tokio::task::coop;

pub use self::expired::{Drain, Expired, Key};
use crate::clock;
use crate::clock::Instant;
use crate::future::Sleep;
use crate::timer::Timer;
use crate::wheel::Tick;
use crate::wheel::{Sorter, Step, Wheel};

/// How many entries are handed out before the clock is read again.
const PER_LOOK: u32 = 64;

/// How many steps of the wheel one poll makes, each of which moves two entries at most: about a millisecond's work.
const STEPS: u32 = 16_384;

/// A queue whose entries come out when their deadline has passed, as `tokio_util::time::DelayQueue`.
///
/// Entries come in the order of their deadlines, to the nanosecond, and those of one deadline in the order in which they
/// were inserted or reset; never early. Those whose deadline had passed already by then may come behind others that were
/// due. Inserting, removing and resetting take a few nanoseconds beside the reading of a clock, whatever the number of
/// entries, and allocate nothing for each.
///
/// It is a [`Stream`] of [`Expired`], which ends when the queue is empty, and goes on when something is inserted. Whoever
/// has polled it last is woken when there is something to poll for: an entry has fallen due, one was put in front of
/// the others, or the queue has become empty or is so no longer.
///
/// It may be made and filled anywhere. The first poll that has to wait looks for a runtime, as [`sleep`](crate::sleep())
/// does.
///
/// Differs from tokio-util's: a [`Key`] of an entry that is gone is refused for good; any deadline is accepted;
/// deadlines are kept to the nanosecond; and there are [`drain`](DelayQueue::drain) and
/// [`with_timer`](DelayQueue::with_timer).
///
/// # Cancel safety
/// Nothing is lost when a future that waits for the next entry (`queue.next()`) is dropped.
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
    // Six kilobytes of lists.
    wheel: Box<Wheel<T>>,
    sorter: Sorter,
    sleep: Sleep,
    /// What the clock said when a poll last looked; tick 0 before the first.
    now: Tick,
    /// How many entries were handed out since.
    handed_out: u32,
    /// For how many entries room is kept.
    reserved: usize,
    told: Told,
    /// Whether the last poll has found that a clock jumps to what the sleep waits for.
    moves_clock: bool,
    waker: Option<Waker>,
    /// Keeps the timer that it was made on.
    _timer: Option<Timer>,
}

/// What the last poller goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing: there was none, it was handed an entry, or it has been woken since. It will poll again by itself.
    Nothing,
    /// To wait; it will be woken at `until` at the latest.
    Wait { until: Tick },
    /// That there is nothing to wait for.
    Empty,
}

impl<T> DelayQueue<T> {
    /// An empty queue, which allocates nothing for entries before the first.
    ///
    /// ```
    /// let queue = hairspring::DelayQueue::<u8>::new();
    /// assert!(queue.is_empty() && queue.capacity() == 0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        DelayQueue::on(Sleep::new(Tick::MAX), None)
    }

    /// An empty queue with room for `capacity` entries.
    ///
    /// # Panics
    /// Where `capacity` is more than 2^32 - 128.
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

    /// An empty queue that goes by `timer` and its clock, whatever runtime polls it.
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
        DelayQueue::on(timer.sleep_until(clock::instant_of(Tick::MAX)), Some(timer.clone()))
    }

    fn on(sleep: Sleep, timer: Option<Timer>) -> Self {
        DelayQueue {
            wheel: Box::new(Wheel::new()),
            sorter: Sorter::default(),
            sleep,
            now: Tick::ZERO,
            handed_out: 0,
            reserved: 0,
            told: Told::Nothing,
            moves_clock: false,
            waker: None,
            _timer: timer,
        }
    }

    /// Puts `value` in, to come out when `timeout` has passed since now. Durations of more than 500 years are taken as
    /// 500 years.
    ///
    /// # Panics
    /// Where there would be more than 2^32 - 128 entries.
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

    /// Puts `value` in, to come out at `when`: at the next poll where that has passed.
    ///
    /// # Panics
    /// Where there would be more than 2^32 - 128 entries.
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
        let deadline = self.behind_what_is_due(deadline);
        let key = self.wheel.insert(deadline, value);
        match self.told {
            Told::Wait { until } if until <= deadline => {}
            Told::Nothing => {}
            Told::Wait { .. } | Told::Empty => self.tell(),
        }
        Key(key)
    }

    /// The next entry whose deadline has passed; `None` where the queue is empty. Pending where there are entries and
    /// none is due.
    ///
    /// Each entry that is handed out spends one of the task's budget, as each of tokio-util's does; with none left this
    /// is pending, and the task runs again soon. The same goes for a poll that finds tens of thousands of entries out of
    /// order near the present, which it sorts a part at a time.
    ///
    /// # Panics
    /// If it has to wait and the queue's timer was shut down or is [full](crate::timer::Builder::capacity). The entries
    /// stay.
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
        self.remember(cx.waker());
        if self.wheel.is_empty() {
            self.sleep.disarm();
            self.told = Told::Empty;
            return Poll::Ready(None);
        }
        self.told = Told::Nothing;
        let budget = ready!(coop::poll_proceed(cx));
        let expired = ready!(self.poll_due(cx));
        budget.made_progress();
        Poll::Ready(Some(expired))
    }

    /// There is an entry: hands out the first as soon as that is due.
    #[track_caller]
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Expired<T>> {
        if self.handed_out >= PER_LOOK {
            self.look();
        }
        let mut steps = 0;
        loop {
            match self.wheel.step_sorting(self.now, &mut self.sorter) {
                Step::Fired { key, deadline, value } => {
                    self.handed_out += 1;
                    return Poll::Ready(Expired::new(Key(key), deadline, value));
                }
                Step::Cascaded if steps == STEPS => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Cascaded => steps += 1,
                Step::Done => {
                    let next = self.wheel.next_expiration().expect("there is an entry");
                    self.sleep.reset_to_tick(next);
                    match self.sleep.poll_without_budget(cx) {
                        Poll::Ready(Ok(())) => {
                            self.now = self.now.max(next);
                            self.look();
                        }
                        Poll::Ready(Err(error)) => panic!("{error}"),
                        Poll::Pending => {
                            self.told = Told::Wait { until: next };
                            self.moves_clock = self.sleep.moves_clock();
                            return Poll::Pending;
                        }
                    }
                }
            }
        }
    }

    /// The deadline of an entry: the one asked for. Where that was in the past when it was given, it may be the time at
    /// which the queue was last polled.
    ///
    /// Those that cannot be told as an instant, and those more than 500 years away, are bounded as
    /// [`Sleep::deadline`](crate::Sleep::deadline) is.
    ///
    /// # Panics
    /// Where the entry was handed out or removed.
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
        clock::instant_of(self.tick_of(key))
    }

    #[track_caller]
    fn tick_of(&self, key: &Key) -> Tick {
        let Some(deadline) = self.wheel.deadline(key.0) else { refuse() };
        deadline
    }

    /// Takes an entry out, due or not.
    ///
    /// # Panics
    /// Where the entry was handed out or removed. [`try_remove`](DelayQueue::try_remove) does not.
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

    /// Takes an entry out, due or not; `None` where it was handed out or removed.
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
        // Where others are left, a poller who waits for this one finds out when it is woken.
        if self.wheel.is_empty() {
            self.tell();
        }
        self.put_off(deadline);
        Some(Expired::new(*key, deadline, value))
    }

    /// Gives an entry another deadline, `timeout` from now, and keeps its key. Due or not, it waits anew.
    ///
    /// Durations of more than 500 years are taken as 500 years.
    ///
    /// # Panics
    /// Where the entry was handed out or removed.
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

    /// Gives an entry another deadline and keeps its key. Where `when` has passed, it comes out at the next poll.
    ///
    /// # Panics
    /// Where the entry was handed out or removed.
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
        let before = self.tick_of(key);
        let deadline = self.behind_what_is_due(deadline);
        self.wheel.reset(key.0, deadline);
        self.tell_of_reset(before, deadline);
        self.put_off(before);
    }

    fn tell_of_reset(&mut self, before: Tick, deadline: Tick) {
        let Told::Wait { until } = self.told else { return };
        // A poller who waits for this very entry, still the first, waits for the wrong time. It is woken once, as
        // tokio-util's may be. Where another is first now, it need not be: it finds out when it would have been woken.
        let is_awaited = before == until && before != deadline && self.wheel.next_expiration() == Some(deadline);
        if deadline < until || is_awaited {
            self.tell();
        }
    }

    /// The entry that will be handed out first; `None` where the queue is empty.
    ///
    /// Takes time in proportion to the entries that stand out of order near the first.
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

    /// Drops all entries. Their keys are refused from now on; reserved room stays.
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
            // Told before anything is dropped, as what is dropped may panic.
            self.end_wait();
            self.wheel.clear();
        }
    }

    /// Takes out all that has not been handed out, due or not, each with its deadline and its key: the first due first.
    ///
    /// The queue is empty when this returns, and can be filled again while the iterator is read. For those who stop, and
    /// have to do something about what is left.
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

    /// Gives the memory back that no entry is in.
    ///
    /// Entries are not moved: a key names the place of its entry. So some memory stays beside scattered entries. Beyond
    /// what was reserved, memory is given back as the queue shrinks, without this.
    ///
    /// ```
    /// # use hairspring::DelayQueue;
    /// let mut queue = DelayQueue::<u8>::with_capacity(1_000);
    /// queue.shrink_to_fit();
    /// assert_eq!(queue.capacity(), 0);
    /// ```
    pub fn shrink_to_fit(&mut self) {
        self.reserved = 0;
        self.sorter = Sorter::default();
        self.wheel.shrink_to_fit();
    }

    /// The same as [`shrink_to_fit`](DelayQueue::shrink_to_fit), for programs that were written for tokio-util's queue,
    /// where it moves entries together. Keys stay as they are.
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

    /// How many entries there is surely room for: what was reserved, or the number there are where that is more.
    ///
    /// ```
    /// assert_eq!(hairspring::DelayQueue::<u8>::with_capacity(10).capacity(), 10);
    /// ```
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reserved.max(self.len())
    }

    /// Has room for `additional` more entries, so that inserting them allocates nothing, until
    /// [`shrink_to_fit`](DelayQueue::shrink_to_fit).
    ///
    /// # Panics
    /// Where there would be room for more than 2^32 - 128 entries.
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

    /// How many entries there are, due or not.
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

    /// Whether there is no entry.
    ///
    /// ```
    /// assert!(hairspring::DelayQueue::<u8>::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.wheel.is_empty()
    }

    /// Where an entry goes. While there may be more that was due when the clock was last read, one that is in the past
    /// goes behind that; at other times the wheel sees to it, and keeps the deadline.
    #[inline]
    fn behind_what_is_due(&self, deadline: Tick) -> Tick {
        if self.wheel.elapsed() < self.now { deadline.max(self.now) } else { deadline }
    }

    fn look(&mut self) {
        self.now = self.now.max(self.sleep.now());
        self.handed_out = 0;
    }

    fn remember(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Wakes the last poller, where it goes by anything.
    #[inline]
    fn tell(&mut self) {
        if self.told != Told::Nothing {
            self.told = Told::Nothing;
            if let Some(waker) = &self.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// An entry that was due at `before` was removed or put off. A clock that jumps to what the sleep waits for is not to
    /// find that it waits for this one still.
    #[inline]
    fn put_off(&mut self, before: Tick) {
        if self.moves_clock || self.sleep.moves_clock_to(before) {
            self.wait_anew();
        }
    }

    #[cold]
    fn wait_anew(&mut self) {
        let Some(next) = self.wheel.next_expiration() else { return self.sleep.disarm() };
        self.sleep.reset_to_tick(next);
        if let Told::Wait { until } = &mut self.told {
            *until = next;
        }
    }

    /// There is nothing to wait for any more.
    fn end_wait(&mut self) {
        self.sleep.disarm();
        self.tell();
    }
}

/// The key that was given names nothing.
#[cold]
#[track_caller]
fn refuse() -> ! {
    panic!("invalid key: its entry has been handed out or removed");
}

impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll_expired(cx)
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
