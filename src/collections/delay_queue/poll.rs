//! How a queue waits for its earliest entry, and which changes wake the task that polled last.
//
// The invariants are those of `mod.rs`.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use futures_core::stream::{FusedStream, Stream};
use tokio::task::coop;

#[cfg(feature = "metrics")]
use super::Metrics;
use super::{DelayQueue, Expired, Key};
use crate::clock::source::{any_is_held, wheels_begin};
use crate::util::panics::catch_panic;
use crate::wheel::{Step, Tick};

/// How many entries are returned before the queue looks again what turns have reached, and asks for one if none came:
/// entries that are always due must not keep others waiting.
const PER_LOOK: u32 = 1_024;

/// The maximum number of wheel entries that one poll moves, about a millisecond's work.
const MOVES: u64 = 16_384;

impl<T> DelayQueue<T> {
    /// Waits for the next due entry. Returns `None` if the queue is empty. This is the stream's `next`, without an
    /// import.
    ///
    /// ```
    /// # use hairspring::{DelayQueue, Duration};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let mut queue = DelayQueue::new();
    /// queue.insert('x', Duration::from_millis(1));
    /// assert_eq!(queue.recv().await.unwrap().into_inner(), 'x');
    /// assert!(queue.recv().await.is_none(), "it is empty");
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Panics
    ///
    /// Panics as [`poll_expired`](DelayQueue::poll_expired) does.
    pub async fn recv(&mut self) -> Option<Expired<T>> {
        poll_fn(|cx| self.poll_expired(cx)).await
    }

    /// Polls for the next due entry. Returns `None` if the queue is empty.
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
    ///
    /// Each entry that comes out uses one unit of the task's budget, as in tokio-util. If the budget is used up, or if
    /// a poll has to sort tens of thousands of entries, the poll is pending and the task soon runs again.
    ///
    /// # Panics
    ///
    /// Panics if it has to wait and the queue's timer was shut down. The entries stay in the queue.
    #[track_caller]
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        #[cfg(feature = "metrics")]
        if self.publisher.is_some() {
            return self.poll_and_publish(cx);
        }
        self.poll_entry(cx)
    }

    #[cfg(feature = "metrics")]
    #[cold] // Most queues have no reporter.
    #[track_caller]
    fn poll_and_publish(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let polled = self.poll_entry(cx);
        self.publish(self.len());
        polled
    }

    #[cfg(feature = "metrics")]
    pub(super) fn publish(&self, pending: usize) {
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

    /// Returns the first entry once it is due. There must be an entry.
    #[inline(always)] // Although it has two callers.
    #[allow(clippy::inline_always)]
    #[track_caller]
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<Expired<T>> {
        // Only a clock that a test controls can be behind another.
        if any_is_held() {
            self.follow_clock_back();
        }
        if self.handed_out >= PER_LOOK {
            let before = self.now;
            self.follow_turns();
            if self.now == before {
                let _ = self.sleep.poll_until(self.sleep.now(), cx);
            }
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
                    if self.sleep.poll_until(next, cx).is_pending() {
                        self.waits = true;
                        return Poll::Pending;
                    }
                    self.now = self.now.max(next);
                    self.follow_turns();
                }
            }
        }
    }

    /// An entry was inserted: the poller may have seen an empty queue, or may wait for a later entry.
    #[inline]
    pub(super) fn wake_if_earliest(&mut self, deadline: Tick) {
        if deadline < self.sleep.end() || self.len() == 1 {
            self.wake_poller();
        }
    }

    pub(super) fn wake_if_reset(&mut self, before: Tick, deadline: Tick) {
        let until = self.sleep.end();
        // If the poller waits for this entry and it is still the first, wake it once, as tokio-util does. If another
        // entry is now the first, the poller finds out when it wakes at `until`.
        let is_awaited = before == until && before != deadline && self.wheel.next_expiration() == Some(deadline);
        if deadline < until || is_awaited {
            self.wake_poller();
        }
    }

    /// The tick at which an entry is inserted into the wheel. While entries may be left that were due when the clock
    /// was last looked up, an entry with an earlier deadline goes behind them. Otherwise it keeps its deadline, and the
    /// wheel keeps the order.
    #[inline]
    pub(super) fn behind_what_is_due(&mut self, deadline: Tick) -> Tick {
        if deadline > self.now && deadline > self.wheel.elapsed() { deadline } else { self.behind_past(deadline) }
    }

    #[cold]
    fn behind_past(&mut self, deadline: Tick) -> Tick {
        self.follow_clock_back();
        if self.wheel.elapsed() < self.now { deadline.max(self.now) } else { deadline }
    }

    /// If the clock is behind the queue's time, as in the next of several tests, entries wait for that clock.
    #[cold]
    fn follow_clock_back(&mut self) {
        let now = self.sleep.now();
        if now < self.now.max(self.wheel.elapsed()) {
            self.now = self.now.min(now);
            self.wheel.set_back(wheels_begin(now));
            // It may wait on a timer whose clock is ahead.
            self.end_wait();
        }
    }

    fn follow_turns(&mut self) {
        self.now = self.now.max(self.sleep.reached());
        self.handed_out = 0;
    }

    /// Wakes the last poller unless it will poll again anyway.
    #[inline]
    pub(super) fn wake_poller(&mut self) {
        if mem::take(&mut self.waits) {
            // A panic would end the caller's operation, and lose what that has taken out.
            catch_panic(|| self.waker.iter().for_each(Waker::wake_by_ref));
        }
    }

    /// An entry was removed or postponed. A paused clock must not jump to its old deadline.
    #[inline]
    pub(super) fn postponed(&mut self) {
        if self.sleep.is_exact() {
            self.sleep.end_at(self.wheel.next_expiration().unwrap_or(Tick::MAX));
        }
    }

    pub(super) fn end_wait(&mut self) {
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

impl<T> FusedStream for DelayQueue<T> {
    /// Returns whether the queue is empty. The stream goes on when something is inserted.
    fn is_terminated(&self) -> bool {
        self.is_empty()
    }
}
