//! [`Expirations`]: the stream of expired entries.
//
// Invariants
// 1. Never early: an entry that is returned was due at a time that the clock has shown, and was not touched since.
// 2. Due entries are taken out one at a time, as they are returned. Nothing is lost if the stream is dropped, and a
//    slow consumer delays only entries that it has not asked for.
// 3. Order: the stream serves the shard with the earliest work until another shard has earlier work.
// 4. The stream's time goes back only with its clock.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::stream::{FusedStream, Stream};
use tokio::task::coop;

use super::shared::Shared;
use crate::clock::source::{LAST, any_is_held};
use crate::future::LazySleep;
use crate::wheel::Tick;

/// The maximum number of lock holds per poll.
const HOLDS: usize = 64;

/// The expired entries of a [`DeadlineMap`](super::DeadlineMap): a stream of `(K, V)` for one consumer.
///
/// ```
/// use hairspring::{DeadlineMap, Duration};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let (map, mut expirations) = DeadlineMap::new();
/// map.insert("b", 2, Duration::from_millis(2));
/// map.insert("a", 1, Duration::from_millis(1));
/// drop(map);
/// assert_eq!(expirations.recv().await, Some(("a", 1)));
/// assert_eq!(expirations.recv().await, Some(("b", 2)));
/// assert_eq!(expirations.recv().await, None);
/// # }
/// ```
///
/// Each entry comes out once, at or after its deadline and never before, unless it is touched, replaced or removed
/// first. Entries come out in deadline order; equal deadlines have no particular order. Two kinds of entries may be out
/// of order: one that is inserted or touched while others are due may follow later deadlines, and an expired entry
/// whose key is inserted again comes out first.
///
/// The stream ends when every handle to the map has been dropped and the remaining entries have expired and come out.
/// Dropping the stream leaves the map usable: see [the two halves](super::DeadlineMap#the-two-halves).
///
/// If no entry is due, the stream waits on the timer passed to
/// [`DeadlineMap::with_timer`](super::DeadlineMap::with_timer), or else on that of the runtime that polls it. Outside a
/// runtime it waits on the timer it last waited on, or else on the process's own.
///
/// # Cancel safety
///
/// Dropping a future that waits for the next entry loses nothing.
///
/// # Panics
///
/// A poll that has to wait panics if the timer was shut down. The entries stay in the map.
#[must_use = "expired entries come out only if this is polled"]
pub struct Expirations<K, V> {
    shared: Arc<Shared<K, V>>,
    /// The last tick that a turn of the timer has reached.
    now: Tick,
    /// Whether the last poll was pending and so may have left a waker.
    waits: bool,
}

enum Scan<T> {
    Due(T),
    /// Nothing is due before this tick; `Tick::MAX` if there are no entries.
    NothingUntil(Tick),
    /// There was too much work for one poll.
    Interrupted,
}

impl<K, V> Expirations<K, V> {
    pub(super) fn of(shared: Arc<Shared<K, V>>) -> Self {
        Expirations { shared, now: Tick::ZERO, waits: false }
    }

    /// Waits for the next expired entry. Returns `None` if there will be no more. This is the stream's `next`, without
    /// an import.
    ///
    /// ```
    /// use hairspring::{DeadlineMap, Duration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let (map, mut expirations) = DeadlineMap::new();
    /// map.insert(7, "session", Duration::from_millis(1));
    /// assert_eq!(expirations.recv().await, Some((7, "session")));
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// Panics as [`Expirations`] does.
    pub async fn recv(&mut self) -> Option<(K, V)> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        // Only a clock that a test controls can be behind another.
        if any_is_held() {
            self.follow_clock_back(cx);
        }
        // Try what turns had reached last, without leaving a waker: if many entries are due, that is enough.
        let mut scan = self.scan();
        let mut taken = None;
        while let Scan::NothingUntil(_) = scan {
            self.waits = true;
            let left = self.shared.consumer.scan(cx.waker().clone());
            let mut sleep = taken.or(left).unwrap_or_else(|| self.shared.endless_sleep());
            // Read before the shards, which then show everything that was ever inserted.
            let closed = self.shared.is_closed();
            self.now = self.now.max(sleep.reached());
            scan = self.scan();
            taken = match scan {
                Scan::NothingUntil(Tick::MAX) if closed => {
                    // There is nothing to wait for any more, so the sleep is dropped.
                    self.stop_waiting(None);
                    return Poll::Ready(None);
                }
                Scan::NothingUntil(tick) if self.poll_sleep(&mut sleep, tick, cx).is_pending() => {
                    if sleep.is_exact() && !self.shared.consumer.is_exact() {
                        self.shared.be_exact();
                        taken = Some(sleep);
                        continue;
                    }
                    match self.shared.consumer.park(tick, sleep) {
                        Ok(()) => return Poll::Pending,
                        Err(sleep) => Some(sleep),
                    }
                }
                _ => Some(sleep),
            };
        }
        self.stop_waiting(taken);
        if let Scan::Due(entry) = scan {
            // The sleep may still wait for the deadline that the entry had before.
            self.shared.postponed();
            return Poll::Ready(Some(entry));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// If the clock is behind the stream's time, as in the next of several tests, entries wait for that clock.
    #[cold]
    fn follow_clock_back(&mut self, cx: &Context<'_>) {
        let now = self.shared.now();
        if now < self.now {
            self.now = now;
            // It may wait on a timer whose clock is ahead.
            let mut sleep = self.shared.consumer.scan(cx.waker().clone());
            sleep.iter_mut().for_each(LazySleep::stop);
            self.shared.consumer.stop_waiting(sleep);
            self.shared.set_back(now);
        }
    }

    /// Takes the entry that is due first, or returns the earliest tick at which one may be due.
    fn scan(&self) -> Scan<(K, V)> {
        for _ in 0..HOLDS {
            let mut first = (Tick::MAX, None);
            let mut second = Tick::MAX;
            for shard in self.shared.iter() {
                let next = shard.next();
                if next < first.0 {
                    second = first.0;
                    first = (next, Some(shard));
                } else {
                    second = second.min(next);
                }
            }
            let (next, Some(shard)) = first else { return Scan::NothingUntil(Tick::MAX) };
            if next > self.now {
                return Scan::NothingUntil(next);
            }
            if let Some(entry) = shard.take_due(self.now.min(second)) {
                return Scan::Due(entry);
            }
        }
        Scan::Interrupted
    }

    /// Waits until a tick; from the last one on, for ever.
    fn poll_sleep(&mut self, sleep: &mut LazySleep, until: Tick, cx: &mut Context<'_>) -> Poll<()> {
        let until = if until < LAST { until } else { Tick::MAX };
        if until == Tick::MAX {
            sleep.stop();
        }
        // The task's budget is for entries that are returned, so this uses none.
        ready!(sleep.poll_until(until, cx));
        self.now = self.now.max(until);
        Poll::Ready(())
    }

    fn stop_waiting(&mut self, sleep: Option<LazySleep>) {
        if self.waits {
            self.waits = false;
            self.shared.consumer.stop_waiting(sleep);
        }
    }
}

impl<K, V> Stream for Expirations<K, V> {
    type Item = (K, V);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<(K, V)>> {
        let budget = ready!(coop::poll_proceed(cx));
        let polled = self.get_mut().poll_due(cx);
        if polled.is_ready() {
            budget.made_progress();
        }
        polled
    }
}

impl<K, V> FusedStream for Expirations<K, V> {
    /// Returns whether the stream has ended: every handle was dropped, and every entry came out.
    fn is_terminated(&self) -> bool {
        // In this order: without a handle, nothing is inserted any more.
        self.shared.is_closed() && self.shared.iter().all(|shard| shard.next() == Tick::MAX)
    }
}

impl<K, V> Drop for Expirations<K, V> {
    fn drop(&mut self) {
        self.shared.consumer.leave();
    }
}

impl<K, V> fmt::Debug for Expirations<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Expirations");
        if let Some(name) = &self.shared.name {
            shown.field("name", name);
        }
        shown.finish_non_exhaustive()
    }
}
